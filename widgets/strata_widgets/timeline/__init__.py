"""`Timeline`: a run as windows, to scrub, to zoom and to select in."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import WindowRecord
from strata_widgets import charts
from strata_widgets.drawing import Row, nothing
from strata_widgets.layers import room
from strata_widgets.panel.control import Control, button, choice
from strata_widgets.selection import Dimension
from strata_widgets.timeline.bins import Bins
from strata_widgets.timeline.drawings import overview, rows_of_windows, word
from strata_widgets.trace_view import TraceView

_SPANS: Final = ("16", "32", "64", "128")
_EMPTY: Final = "Run a window, and it appears here."


class Timeline(TraceView):
    """A run as windows; what is selected here, linked views show.

    Example:
        >>> line = Timeline(session)
        >>> link(line, ExpertMap(session))
        >>> line.select(window=12)
    """

    TITLE = "Timeline"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window",)

    def __init__(self, source: Any, **traits: Any) -> None:
        """Look at `source`: a trace, or what has one, or window records.

        Raises:
            TypeError: `source` has no trace.
        """
        # Windows shown at once, and the first of them; None follows the newest.
        self._width = 64
        self._from: int | None = None
        self._drawn: tuple[int, int] | None = None
        super().__init__(source, **traits)
        self._live["overview"].observe(self._brushed, "selection")

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last window shown."""
        first = self._from
        if first is None:
            first = max(0, self._seen - self._width)
        return first, first + self._width - 1

    def zoom(self, first: int, last: int) -> None:
        """Show windows `first` to `last`, 128 at most.

        Raises:
            ValueError: `first` is below 0, or above `last`.
        """
        if not 0 <= first <= last:
            raise ValueError(
                f"a span of windows is wanted, 0 <= first <= last, got {first} to "
                f"{last}"
            )
        self._from, self._width = first, min(last - first + 1, int(_SPANS[-1]))
        self.update()

    def follow(self, *, windows: int = 64) -> None:
        """Show the newest windows from here on.

        Raises:
            ValueError: `windows` is not 1 to 128.
        """
        if not 1 <= windows <= int(_SPANS[-1]):
            raise ValueError(f"`windows` must be 1 to {_SPANS[-1]}, got {windows}")
        self._from, self._width = None, windows
        self.update()

    def _forget(self) -> None:
        self._tokens = Bins()
        self._drawn = None

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for record in records:
            self._tokens.add(len(record.emitted))

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {"rows": rows_of_windows(), "overview": overview()}

    def _values(self) -> dict[str, Any]:
        first, last = self._on_the_page()
        if self._from is None:
            last = min(last, first + room(self._seen - first) - 1)
        return {
            **super()._values(),
            "first": first,
            "last": last,
            "windows": self._seen,
        }

    def _on_the_page(self) -> tuple[int, int]:
        """The span, moved to where the selected window is."""
        chosen, (first, last) = self.selection["window"], self.span
        if chosen is not None and chosen < self._seen and not first <= chosen <= last:
            self._from = max(0, chosen - self._width // 2)
        return self.span

    def _draw(self) -> None:
        first, last = self.span
        last = min(last, self._seen - 1)
        self._live["rows"].limit = self._width
        rows, was = self._live["rows"], self._drawn
        if last < first:
            # A note is there now, and no row that others could be added to.
            self._drawn = None
            rows.replace(nothing(_EMPTY))
        else:
            # While a run grows, only its new windows travel.
            if was is not None and was[0] <= first <= was[1] <= last:
                rows.append(*self._rows(was[1] + 1, last))
            else:
                rows.replace(self._rows(first, last))
            self._drawn = (first, last)
        if not self._seen:
            self._live["overview"].replace(nothing("Nothing has run yet."))
            return
        means = self._tokens.means()
        self._live["overview"].replace(
            [{"from": a, "to": b, "tokens": round(mean, 3)} for a, b, mean in means]
        )

    def _rows(self, first: int, last: int) -> list[Row]:
        return [_row(n, self._trace[n]) for n in range(first, last + 1)]

    def _controls(self) -> Sequence[Control]:
        width = str(self._width)
        known = _SPANS if width in _SPANS else (width, *_SPANS)
        return [
            choice("width", "Windows shown", width, known),
            button(
                "newest",
                "Follow the newest",
                enabled=self._from is not None,
            ),
        ]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "newest":
            self.follow(windows=self._width)
        elif self._from is None:
            self.follow(windows=int(value))
        else:
            self.zoom(self._from, self._from + int(value) - 1)

    def _brushed(self, change: Any) -> None:
        edges = (change["new"].get("zoom") or {}).get("from")
        if edges:
            self.zoom(max(0, int(edges[0])), max(int(edges[0]), int(edges[1])))

    def _status(self) -> str:
        if not self._seen:
            return "no windows yet"
        first, last = self.span
        said = f"{self._seen} windows, shown {first} to {min(last, self._seen - 1)}"
        chosen = self.selection["window"]
        if chosen is None:
            return said
        if chosen >= self._seen:
            return f"{said}; window {chosen} is selected, which this trace lacks"
        return f"{said}; {_words(chosen, self._trace[chosen])}"


def _row(window: int, record: WindowRecord) -> Row:
    row: Row = {"window": window, "end": window + 1}
    if record.headless:
        return {**row, "prompt": record.T}
    found = charts.verdicts(
        record.inputs,
        record.predictions,
        accepted=record.accepted,
        offered=record.offered,
    )
    drawn = [(word(role), at) for at, role in enumerate(found) if word(role)]
    verdicts, rows = zip(*drawn, strict=True)
    return {**row, "verdicts": list(verdicts), "rows": list(rows)}


def _words(window: int, record: WindowRecord) -> str:
    if record.headless:
        return f"window {window}: {record.T} cells of a prompt from {record.position}"
    return (
        f"window {window}: cell {record.position}, T = {record.T}, "
        f"{record.accepted} of {record.offered} drafts accepted, keep {record.keep}, "
        f"{record.drafter}"
    )
