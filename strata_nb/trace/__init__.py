"""The record: what each window did, kept as plain data and as one Parquet file."""

from .columns import schema
from .differences import TraceDifference, compare
from .records import (
    LayerDecisions,
    LayerRecord,
    Leaf,
    WindowRecord,
    check_draft,
    window_record,
)
from .store import Trace
from .summary import (
    Acceptance,
    Latency,
    Rate,
    acceptance,
    expert_totals,
    latency,
    mean_union,
    rolling_acceptance,
    row_counts,
    tokens_per_s,
    tokens_per_window,
)

__all__ = [
    "Acceptance",
    "Latency",
    "LayerDecisions",
    "LayerRecord",
    "Leaf",
    "Rate",
    "Trace",
    "TraceDifference",
    "WindowRecord",
    "acceptance",
    "check_draft",
    "compare",
    "expert_totals",
    "latency",
    "mean_union",
    "rolling_acceptance",
    "row_counts",
    "schema",
    "tokens_per_s",
    "tokens_per_window",
    "window_record",
]
