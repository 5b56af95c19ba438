"""Our own engine, seen from outside like any other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strata_nb.engine import Engine
from strata_nb.gates.foreign import RefusedError
from strata_nb.model import Model
from strata_nb.refusals import MAX_ROWS
from strata_nb.window import Window


class Ours:
    """One sequence of a model of ours.

    A window stays open until the next call, so that `trim` is a commit of fewer rows.

    Args:
        model: a loaded model; one of the backend "oracle" makes a float64 reference.
        options: those of `model.engine`, a fault among them.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        fault = options.get("fault")
        self.name = f"strata_nb {model.name} {model.dtype}"
        self.name += f" with the fault {fault}" if fault else ""
        self._model, self._options = model, options
        self.reset()

    def reset(self) -> None:
        """Begin with a new engine."""
        self.engine: Engine = self._model.engine(**self._options)
        self._rows: np.ndarray | None = None

    def feed(self, tokens: Sequence[int]) -> None:
        """Run `tokens` as one window, or as several of eight where there are more."""
        found = []
        for at in range(0, len(tokens), MAX_ROWS):
            self._settle()
            window = self.engine.run(tokens[at : at + MAX_ROWS])
            self.engine.finish(window, stop_ids=())
            found.append(window.logits)
        self._rows = np.concatenate(found)

    def logits(self) -> np.ndarray:
        """Of the rows of the last `feed`, float64 [rows, V]."""
        assert self._rows is not None
        return self._rows

    def trim(self, count: int) -> None:
        """Commit the open window without its last rows.

        Raises:
            RefusedError: those rows are committed already.
        """
        window = self.engine.window
        if window is None or count > window.T:
            rows = 0 if window is None else window.T
            raise RefusedError(
                f"{count} rows were to go, but all except the last {rows} are committed"
            )
        if count == window.T:
            self.engine.abort(window)
        else:
            self.engine.commit(window, keep=window.T - count, force=True)

    def save(self) -> Engine:
        """A fork, which shares nothing that is written."""
        self._settle()
        return self.engine.fork()

    def restore(self, saved: Engine) -> None:
        """Go on with a fork of the fork, so that `saved` can be restored again."""
        self.engine = saved.fork()

    def _settle(self) -> None:
        window: Window | None = self.engine.window
        if window is not None:
            self.engine.commit(window, keep=window.T, force=True)
