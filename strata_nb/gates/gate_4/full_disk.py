"""Saves an engine in a process of its own that may not write as much as that takes."""

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx

from strata_nb.engine import Engine
from strata_nb.errors import SavedStateError
from strata_nb.model import Model, load


def refused(engine: Engine, path: Path) -> bool:
    """Whether a save to `path` ends in an OSError."""
    try:
        engine.save(path)
    except OSError:
        return True
    return False


def restored(engine: Engine, path: Path) -> dict[str, str] | None:
    """Digests of what `path` gives back; None where nothing can be restored."""
    try:
        engine.restore(path)
    except SavedStateError:
        return None
    return engine.digests()


def made(model: Model) -> Engine:
    """An engine with all the state there is, a draft head's too."""
    return model.engine(mtp=model.config.has_head)


def tried(request: dict[str, Any], folder: Path) -> dict[str, bool]:
    """Save, go on, save again without room; what became of both files."""
    model = load(request["model"], dtype=request["dtype"])
    engine, prompt = made(model), request["prompt"]
    engine.prefill(prompt)
    old, new = folder / "old", folder / "new"
    engine.save(old)
    kept, saved = old.read_bytes(), engine.digests()
    engine.prefill(prompt[::-1])
    before = engine.digests()
    # The limit of a file's size stands for a full disk: writes fail half-way.
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) // 2, hard))
    both = refused(engine, old) and refused(engine, new)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    return {
        "refused": both,
        "old survives": old.read_bytes() == kept,
        "old restores": restored(made(model), old) == saved,
        "nothing new": [p.name for p in folder.iterdir()] == ["old"],
        "no later hit": restored(made(model), new) is None,
        "state as before": engine.digests() == before,
    }


def main() -> None:
    """Answer the request in the first argument, in one line of JSON."""
    request = json.loads(sys.argv[1])
    mx.set_default_device(mx.cpu if request["device"] == "cpu" else mx.gpu)
    with tempfile.TemporaryDirectory() as folder:
        found = tried(request, Path(folder))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
