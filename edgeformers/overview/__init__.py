"""An overview of finished runs: found in folders, read, put side by side, shown as one page."""

from edgeformers.overview.build import build_report, write_report

__all__ = ["build_report", "write_report"]
