"""A state that cannot be written: an error, no file, and the older one survives."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from strata_nb.errors import SavedStateError
from strata_nb.gates.records import Case, CaseResult, Finding
from strata_nb.gates.stage.child import ChildError, answer
from strata_nb.gates.stage.rig import Rig

_SCRIPT = Path(__file__).with_name("full_disk.py")
_WANTED = {
    "refused": True,
    "old survives": True,
    "old restores": True,
    "nothing new": True,
    "no later hit": True,
    "state as before": True,
}


def spoiled(case: Case, rig: Rig) -> CaseResult:
    """Save where it must fail."""
    how = _no_folder if case["how"] == "no folder" else _full_disk
    return CaseResult(case, tuple(how(case, rig)))


def _no_folder(case: Case, rig: Rig) -> Iterator[Finding]:
    """The file's folder is a file: even the owner of the machine cannot write there."""
    engine = rig.engine()
    engine.prefill(rig.text(9))
    before = engine.digests()
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        engine.save(old)
        kept = old.read_bytes()
        path = old / "new"
        told = {"refused": False, "no later hit": False}
        try:
            engine.save(path)
        except OSError:
            told["refused"] = True
        try:
            rig.engine().restore(path)
        except SavedStateError:
            told["no later hit"] = True
        told["old survives"] = old.read_bytes() == kept
        told["nothing new"] = [p.name for p in Path(folder).iterdir()] == ["old"]
        other = rig.engine()
        other.restore(old)
        told["old restores"] = other.digests() == before
        told["state as before"] = engine.digests() == before
    yield from _missing(told)


def _full_disk(case: Case, rig: Rig) -> Iterator[Finding]:
    """No room for the file: asked in a process that may not write one of its size."""
    own = case["model"] == "own"
    request = {
        "model": str(rig.model.checkpoint.path) if own else str(case["model"]),
        "dtype": rig.model.dtype if own else None,
        "device": "cpu" if mx.default_device() == mx.cpu else "gpu",
        "prompt": rig.text(9) if own else [*range(100, 109)],
    }
    try:
        told = answer(_SCRIPT, request)
    except ChildError as error:
        yield _wrong(str(error))
        return
    yield from _missing(told)


def _missing(told: dict[str, Any]) -> Iterator[Finding]:
    for what, wanted in _WANTED.items():
        if told.get(what) != wanted:
            yield _wrong(f"{what}: wanted {wanted}, got {told.get(what)}")


def _wrong(note: str) -> Finding:
    return Finding("fault", "rule", "after", "rule", note=note)
