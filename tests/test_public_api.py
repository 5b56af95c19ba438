"""The one door: these names, at most twenty, each documented."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import strata_nb

NAMES = [
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


def test_the_public_names() -> None:
    assert sorted(strata_nb.__all__) == NAMES
    assert len(NAMES) <= 20


def test_every_public_name_is_documented() -> None:
    for name in NAMES:
        assert (getattr(strata_nb, name).__doc__ or "").strip(), name


def test_every_public_method_is_documented() -> None:
    for cls in (strata_nb.Engine, strata_nb.Model, strata_nb.Trace, strata_nb.Window):
        for name, value in vars(cls).items():
            if not name.startswith("_") and (
                callable(value) or isinstance(value, property)
            ):
                assert (value.__doc__ or "").strip(), f"{cls.__name__}.{name}"


def test_importing_loads_no_mlx() -> None:
    """`strata-nb doctor` must run where MLX does not, and `--help` at once."""
    code = "import strata_nb, sys; print('mlx' in sys.modules, dir(strata_nb)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "CheckpointError"], done.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert strata_nb.__version__ == version("strata-nb")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lood'"):
        _ = strata_nb.lood
