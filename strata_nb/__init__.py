"""Take a mixture-of-experts inference engine apart: run, finish, commit."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strata_nb.engine import Engine
    from strata_nb.errors import (
        CheckpointError,
        SavedStateError,
        StrataError,
        TraceError,
        TransactionError,
    )
    from strata_nb.model import Model, diff, load
    from strata_nb.sampling import Sampling
    from strata_nb.session import Reply, Session, generate
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
    "Reply",
    "Result",
    "Sampling",
    "SavedStateError",
    "Session",
    "StrataError",
    "Trace",
    "TraceError",
    "TransactionError",
    "Window",
    "WindowRecord",
    "diff",
    "generate",
    "load",
]

_HOME = {
    "Engine": "strata_nb.engine",
    "CheckpointError": "strata_nb.errors",
    "SavedStateError": "strata_nb.errors",
    "StrataError": "strata_nb.errors",
    "TraceError": "strata_nb.errors",
    "TransactionError": "strata_nb.errors",
    "Model": "strata_nb.model",
    "diff": "strata_nb.model",
    "load": "strata_nb.model",
    "Sampling": "strata_nb.sampling",
    "Reply": "strata_nb.session",
    "Session": "strata_nb.session",
    "generate": "strata_nb.session",
    "Difference": "strata_nb.state",
    "LayerRecord": "strata_nb.trace",
    "Trace": "strata_nb.trace",
    "WindowRecord": "strata_nb.trace",
    "CommitReport": "strata_nb.window",
    "Result": "strata_nb.window",
    "Window": "strata_nb.window",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("strata-nb")
    # On first use: `strata-nb doctor` must run where MLX does not, `--help` at once.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
