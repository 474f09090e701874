"""The report over finished runs: found in folders, read, compared, shown as one page."""

from edgeformers.experiments.run_report.build import build_report, write_report

__all__ = ["build_report", "write_report"]
