"""`TraceView`: a panel that shows a trace, and follows it while it grows."""

from collections.abc import Iterable, Sequence
from typing import Any

from strata_nb import Trace, WindowRecord
from strata_widgets.panel import Panel
from strata_widgets.selection import Dimension


def trace_of(source: Any) -> Trace:
    """Return the trace of `source`.

    Args:
        source: a trace, or what has one: an engine, a session; or window records.

    Raises:
        TypeError: it is none of these.
    """
    found = getattr(source, "trace", source)
    if isinstance(found, Trace):
        return found
    if isinstance(found, Iterable) and not isinstance(found, str | bytes):
        return Trace(found)
    raise TypeError(
        "a trace is wanted, or an engine or a session that has one, got "
        f"{type(source).__name__}; record one with `engine.trace` or read a file with "
        "`Trace.load`"
    )


class TraceView(Panel):
    """A view of a trace; it holds no logic of the engine and changes nothing there.

    A subclass gives `_forget` and `_take`, so that a window costs its own rows and no
    more, however many there were before.
    """

    def __init__(self, source: Any, **traits: Any) -> None:
        """Look at `source`: a trace, or what has one, or window records.

        Raises:
            TypeError: `source` has no trace.
        """
        self._trace = trace_of(source)
        self._seen = 0
        self._newest: WindowRecord | None = None
        self._forget()
        self._read()
        super().__init__(**traits)

    @property
    def trace(self) -> Trace:
        """What is shown."""
        return self._trace

    def refresh(self) -> None:
        """Look again, after windows came (or were taken back)."""
        if self._read():
            self.update()

    def _read(self) -> bool:
        """Take what is new; whether there was any."""
        trace, seen = self._trace, self._seen
        # Undone requests take windows away; what stays in place was taken in already.
        same = len(trace) >= seen and (not seen or trace[seen - 1] is self._newest)
        if not same:
            self._forget()
            self._seen = seen = 0
        records = [trace[index] for index in range(seen, len(trace))]
        if records:
            self._take(records, first=seen)
            self._seen, self._newest = seen + len(records), records[-1]
        return bool(records) or not same

    def _forget(self) -> None:
        """Be as before the first window."""

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        """Take in windows `first`, `first` + 1 … of the trace."""

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        """Windows and cells of the trace, layers of its newest window."""
        if self._newest is None:
            return None
        if dimension == "window":
            return 0, self._seen - 1
        if dimension == "cell":
            return 0, self._newest.position + self._newest.keep - 1
        layers = [record.layer for record in self._newest.layers]
        return (min(layers), max(layers)) if layers else None

    def _window(self) -> int | None:
        """The selected window if the trace has it, else the newest."""
        chosen: int | None = self.selection["window"]
        if chosen is not None and chosen < self._seen:
            return chosen
        return self._seen - 1 if self._seen else None

    def _lacking(self) -> list[str]:
        """In words, that a window is selected which the trace lacks, if one is."""
        chosen: int | None = self.selection["window"]
        if chosen is None or chosen < self._seen:
            return []
        return [f"window {chosen} is selected, which this trace lacks"]
