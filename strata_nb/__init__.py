"""Take a mixture-of-experts inference engine apart: run, finish, commit."""

from strata_nb.engine import Engine
from strata_nb.errors import (
    CheckpointError,
    SavedStateError,
    StrataError,
    TraceError,
    TransactionError,
)
from strata_nb.model import Model, diff, load
from strata_nb.state import Difference
from strata_nb.trace import LayerRecord, Trace, WindowRecord
from strata_nb.window import CommitReport, Result, Window

__all__ = [
    "CheckpointError",
    "CommitReport",
    "Difference",
    "Engine",
    "LayerRecord",
    "Model",
    "Result",
    "SavedStateError",
    "StrataError",
    "Trace",
    "TraceError",
    "TransactionError",
    "Window",
    "WindowRecord",
    "diff",
    "load",
]
