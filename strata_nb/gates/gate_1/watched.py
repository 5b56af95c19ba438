"""Runs a model in a process of its own and tells what it did to the outside.

What the interpreter announces is heard: network, files opened for writing, processes
started. What compiled code does without it is not.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_KINDS = {
    "network": ("socket.", "urllib.", "http.", "ftplib.", "smtplib."),
    "process": ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
    "file": (
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
        *("os.truncate", "os.chmod", "os.chown", "shutil.", "tempfile."),
    ),
}


class Watch:
    """Hears audit events and look-ups of variables, from its making on.

    Every variable of the product that is asked for is there, whether it was set or
    not, so that one nobody thought of has its effect, too.

    Args:
        prefix: of the product's variables.
        known: variables that are left alone, since they are meant to be read.
    """

    def __init__(self, *, prefix: str, known: tuple[str, ...]) -> None:
        self.prefix, self.known = prefix, known
        self.seen: list[tuple[str, str]] = []
        self.asked: list[str] = []
        sys.addaudithook(self._hear)
        self._hear_variables()

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = any(c in (mode or "") for c in "wax+") or (flags or 0) & _WRITES
            if writes and not isinstance(path, int):
                self.seen.append(("file", f"open for writing: {_name(path)}"))
            return
        for kind, starts in _KINDS.items():
            if event.startswith(starts):
                self.seen.append((kind, event))

    def _hear_variables(self) -> None:
        kind: Any = type(os.environ)
        real = kind.__getitem__

        def look(variables: Any, key: str) -> str:
            if not key.startswith(self.prefix) or key in self.known:
                found: str = real(variables, key)
                return found
            self.asked.append(key)
            try:
                set_: str = real(variables, key)
            except KeyError:
                return "1"
            return set_

        kind.__getitem__ = look


def _name(path: Any) -> str:
    """The file's name alone: folders differ from machine to machine."""
    return Path(os.fsdecode(path)).name


def sources() -> dict[str, str]:
    """The states of the random sources that code can share without asking."""
    import mlx.core as mx
    import numpy as np

    legacy = np.random.get_state()  # noqa: NPY002 - the source nobody should touch
    state: Any = mx.random.state
    keys = [np.array(key).tolist() for key in state]
    return {
        "random": str(hash(random.getstate())),
        "numpy.random": str([np.asarray(x).tolist() for x in legacy]),
        "mlx.random": str(keys),
    }


def generated(request: dict[str, Any]) -> dict[str, Any]:
    """Load the model, take the prompt in, and generate without asking for more."""
    import mlx.core as mx

    from strata_nb.model import load
    from strata_nb.session import generate

    mx.set_default_device(mx.cpu if request["device"] == "cpu" else mx.gpu)
    model = load(request["model"], dtype=request["dtype"])
    engine = model.engine()
    *before, root = request["prompt"]
    engine.prefill(before)
    text = generate(engine, root, max_new=request["max_new"], stop_ids=())
    return {
        "tokens": text.tokens,
        "options": dict(engine.options),
        "digests": engine.digests(),
        "rows": [record.T for record in engine.trace if not record.headless],
    }


def controlled(watch: Watch) -> dict[str, bool]:
    """Do once what should not be done; whether the watch takes notice."""
    import socket

    before, random_before = len(watch.seen), sources()
    # Made and closed: nothing is bound, nothing is sent.
    socket.socket().close()
    with Path(os.devnull).open("w"):
        pass
    os.environ.get(f"{watch.prefix}CONTROL")
    random.random()
    kinds = {kind for kind, _ in watch.seen[before:]}
    return {
        "network": "network" in kinds,
        "file": "file" in kinds,
        "variable": f"{watch.prefix}CONTROL" in watch.asked,
        "random source": sources() != random_before,
    }


def main() -> None:
    """Answer the request in the first argument, in one line of JSON."""
    request = json.loads(sys.argv[1])
    watch = Watch(prefix=request["prefix"], known=tuple(request["known"]))
    before = sources()
    found = generated(request)
    after = sources()
    found |= {
        "seen": sorted(set(watch.seen)),
        "asked": sorted(set(watch.asked)),
        "drawn": sorted(name for name in after if after[name] != before[name]),
    }
    found["control"] = controlled(watch)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
