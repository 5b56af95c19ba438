"""What came of a run: as an object, as text, as JSON, and for a CI server."""

from strata_nb.gates.report.report import Report

__all__ = ["Report"]
