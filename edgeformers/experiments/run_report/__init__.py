"""Find finished runs in folders, compare them, and write one page."""

from edgeformers.experiments.run_report.build import build_report, write_report

__all__ = ["build_report", "write_report"]
