"""An overview of finished runs: found in folders, read, put side by side, shown as one page."""

from edgeformers.overview.build import build_report, write_report
from edgeformers.overview.judge import judge

__all__ = ["build_report", "judge", "write_report"]
