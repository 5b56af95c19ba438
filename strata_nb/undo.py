"""Puts an engine back as it was when a verb does not come to its end."""

from types import TracebackType
from typing import Any


class Undo:
    """A block after which an engine is either moved on, or exactly as before.

    An interrupt may come between any two lines of Python; so what a verb changes is
    remembered before, and set again on any exception.

    Args:
        engine: its committed value, open window and trace are remembered.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._now = engine._now
        self._records = len(engine.trace)
        window = engine.window
        self._window = window
        self._phase = None if window is None else (window.phase, window.result)

    def __enter__(self) -> None:
        """Nothing to do: all was remembered when this was made."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Set back if the block raised; the exception goes on."""
        if kind is None:
            return
        self._engine._now = self._now
        self._engine.trace.truncate(self._records)
        if self._window is not None and self._phase is not None:
            self._window.phase, self._window.result = self._phase
