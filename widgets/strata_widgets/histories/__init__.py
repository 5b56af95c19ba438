"""`Histories`: what PLE and penalties remember, cell by cell."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb.slop import Slop
from strata_widgets import tokens
from strata_widgets.drawing import Row, nothing
from strata_widgets.histories import drawings, rows
from strata_widgets.histories.rows import Seen, Shape
from strata_widgets.histories.source import Source
from strata_widgets.histories.told import OPEN, ROOT
from strata_widgets.layers import room
from strata_widgets.panel.control import Cell, Control, Table, button
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

MOST_CELLS: Final = 64
_MOST_COUNTED: Final = 8
_CHIPS: Final = 2048
_EMPTY: Final = "No cell yet: prefill, or run a window."


class Histories(TraceView):
    """What PLE and the penalties hold after each cell, newest cells first to be seen.

    Of the part `ple_tokens` the state is read when the view is made and by `look()`;
    beside another source, or with a fault planted, after every window too. Between two
    readings it is what the part holds after the tokens of the text.

    Example:
        >>> session = Session(model, adjustments=[slop])
        >>> Histories(session)
        >>> Histories(model.engine(fault="ple_tokens_kept"), beside=model.engine())
    """

    TITLE = "PLE and penalties: histories by cell"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window", "cell")

    def __init__(
        self,
        source: Any,
        *,
        beside: Any = None,
        pad_id: int | None = None,
        penalties: Slop | None = None,
        **traits: Any,
    ) -> None:
        """Look at `source`.

        Args:
            source: an engine or a session.
            beside: another one; cells that differ from it are marked.
            pad_id: this token of a prompt is a pad; a session knows its own.
            penalties: of an engine, told its text by whoever runs it.
            **traits: `selection`.

        Raises:
            TypeError: one of the two is neither engine nor session.
        """
        self._own = Source(source, pad_id=pad_id, penalties=penalties)
        self._beside = (
            None if beside is None else Source(beside, pad_id=pad_id, penalties=None)
        )
        self._watched = beside is not None or self._own.has_fault
        # The first cell on the page; None follows the newest.
        self._from: int | None = None
        self._drawn: tuple[int, int] | None = None
        # Whether the last change of the selection was of the window alone.
        self._to_window = False
        self._shown: list[Seen] = []
        self._most = 8
        self._lines: dict[int, tuple[Seen, list[Cell]]] = {}
        self._chips: dict[int, tokens.Chip] = {}
        super().__init__(source, **traits)

    def look(self) -> None:
        """Read from the state what the PLE part holds now."""
        for source in self._sources:
            source.look()
        self._drawn = None
        self.update()

    def refresh(self) -> None:
        """Look again, after windows came (or were taken back, or one was opened)."""
        self._read()
        self.update()

    @property
    def _sources(self) -> list[Source]:
        return [self._own, *([] if self._beside is None else [self._beside])]

    def _read(self) -> bool:
        moved = [super()._read(), *(source.follow() for source in self._sources)]
        if self._watched:
            for source in self._sources:
                source.look()
        return any(moved)

    @property
    def _shape(self) -> Shape:
        penalties = bool(self._own.slops)
        return Shape(self._own.back, penalties, self._beside is not None)

    @property
    def _count(self) -> int:
        """Cells that can be shown: committed, and those of the open window."""
        return self._own.end + len(self._own.pending)

    @property
    def span(self) -> tuple[int, int]:
        """The first cell on the page and the last."""
        first = self._from
        if first is None:
            first = max(0, self._count - MOST_CELLS)
        return first, min(first + MOST_CELLS, max(self._count, 1)) - 1

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        specs = {"cells": drawings.cells(self._lanes())}
        if self._own.slop is not None:
            specs["penalised"] = drawings.penalised()
            phrases = self._own.slop.scanner.rules.wanted
            if phrases:
                longest = max(map(len, phrases))
                specs["progress"] = drawings.progress(longest)
        return specs

    def _lanes(self) -> tuple[str, ...]:
        left_out = {
            "pad": self._own.pad_id is None,
            "differs": self._beside is None,
        }
        return tuple(lane for lane in drawings.LANES if not left_out.get(lane))

    def _values(self) -> dict[str, Any]:
        first, _ = self._on_the_page()
        # Growing in doublings, so that a cell seldom has another width.
        wide = room(self._count - first) if self._from is None else MOST_CELLS
        last = first + min(wide, MOST_CELLS) - 1
        return {**super()._values(), "first": first, "last": last, "most": self._most}

    def _anchor(self) -> int | None:
        """The selected cell, or where the selected window begins, if they are there."""
        cell, window = self.selection["cell"], self.selection["window"]
        by_window = window is not None and (self._to_window or cell is None)
        if by_window and window < self._seen:
            return int(self._trace[window].position)
        if not by_window and cell is not None and cell < self._count:
            return int(cell)
        return None

    def _moved(self, change: Any) -> None:
        old, new = change["old"], change["new"]
        self._to_window = isinstance(old, dict) and old["cell"] == new["cell"]
        super()._moved(change)

    def _on_the_page(self) -> tuple[int, int]:
        """The span, moved to where the selected cell or window is."""
        at, (first, last) = self._anchor(), self.span
        if at is None:
            if self.selection["cell"] is None and self.selection["window"] is None:
                self._from = None
        elif not first <= at <= last:
            self._from = max(0, min(at - MOST_CELLS // 2, self._count - MOST_CELLS))
        return self.span

    def _chart_values(self) -> Mapping[str, dict[str, Any]]:
        first, last = self._on_the_page()
        seen = [self._seen_at(cell) for cell in range(first, last + 1)]
        self._shown = [each for each in seen if each is not None]
        counts = [s.told.penalised or 0 for s in self._shown]
        while self._most < max(counts, default=0):
            self._most *= 2
        begun = [s.told.penalties.tail for s in self._shown if s.told.penalties]
        quiet = {"penalised": not any(counts), "progress": not any(begun)}
        return {
            name: {**values, "quiet": bool(self._shown) and quiet.get(name, False)}
            for name, values in super()._chart_values().items()
        }

    def _draw(self) -> None:
        first, _ = self.span
        if not self._shown:
            for chart in self._live.values():
                chart.replace(nothing(_EMPTY))
            self._drawn = None
            return
        self._hand_out(first)

    def _hand_out(self, first: int) -> None:
        """Rows to the charts: while a run grows, only its new cells."""
        was, end = self._drawn, self._own.end
        settled = [s for s in self._shown if s.told.what != ROOT]
        plain = self._beside is None and not any(s.told.what == OPEN for s in settled)
        grown = plain and was is not None and was[0] <= first < was[1] <= end
        new = settled
        if grown and was is not None:
            new = [s for s in settled if s.told.cell >= was[1]]
        for name, chart in self._live.items():
            made = [row for each in new for row in self._rows(name, each)]
            if grown:
                chart.limit = MOST_CELLS
                chart.append(*made)
            else:
                chart.limit = None
                chart.replace(made)
        self._drawn = (first, end) if plain else None

    def _rows(self, chart: str, seen: Seen) -> list[Row]:
        told = seen.told
        if chart == "cells":
            return rows.squares(seen, self._word(told.token))
        if told.penalties is None:
            return []
        if chart == "progress":
            return [rows.bar(told, len(told.penalties.tail), "bytes of a phrase")]
        return [rows.bar(told, told.penalised or 0, "tokens penalised")]

    def _seen_at(self, cell: int) -> Seen | None:
        told = self._own.at(cell)
        if told is None or self._beside is None:
            return None if told is None else Seen(told)
        other = self._beside.at(cell)
        if other is None and told.what in (OPEN, ROOT):
            return Seen(told)  # what is not committed is no difference
        apart = told.parts_from(other)
        if not self._beside.slops or not self._own.slops:
            # Penalties that only one of them has are no difference of a text.
            apart = tuple(part for part in apart if part != "penalties")
        return Seen(told, other, apart)

    def _chip(self, token: int) -> tokens.Chip:
        if token not in self._chips:
            if len(self._chips) >= _CHIPS:
                self._chips.clear()
            model = self._own.model
            made = {"id": token, "text": f"#{token}"}
            self._chips[token] = made if model is None else tokens.chip(model, token)
        return self._chips[token]

    def _word(self, token: int | None) -> str:
        return "not known" if token is None else str(self._chip(token)["text"])

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        if dimension == "cell":
            return (0, self._count - 1) if self._count else None
        return super()._bounds(dimension)

    def _controls(self) -> Sequence[Control]:
        made = []
        if len(self._own.slops) > 1:
            named = [(str(n), f"{n}: {s!r}") for n, s in enumerate(self._own.slops)]
            which = str(self._own.which)
            made.append(
                Control("choice", "which", "Penalties", which, options=tuple(named))
            )
        return [*made, button("look", "Read the state")]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "which":
            for source in self._sources:
                source.turn_to(int(value))
            self._drawn = None
            self.update()
        else:
            self._read()
            self.look()

    def _status(self) -> str:
        if not self._count:
            return "no cell yet"
        first, last = self.span
        said = [f"{self._own.end} cells, shown {first} to {last}"]
        pending = self._own.pending
        opened = sum(told.what == OPEN for told in pending)
        if opened:
            said.append(f"{opened} rows of the open window are pending")
        if self._own.is_behind:
            said.append(
                f"the trace ends at cell {self._own.places.end}, the state holds "
                f"{self._own.position}"
            )
        stale = [s.told.cell for s in self._shown if s.told.is_stale]
        if stale:
            said.append(f"after cell {stale[0]} PLE holds tokens that the text has not")
        if self._beside is not None:
            said.append(self._apart())
        return "; ".join([*said, *self._here()])

    def _apart(self) -> str:
        apart = [seen for seen in self._shown if seen.apart]
        if not apart:
            return "no shown cell differs"
        first, count = apart[0], len(apart)
        many = f"{count} shown cells differ" if count > 1 else "1 shown cell differs"
        return f"{many}, the first is {first.told.cell} ({', '.join(first.apart)})"

    def _here(self) -> list[str]:
        cell = self.selection["cell"]
        said = []
        if cell is not None:
            told = self._own.at(cell)
            said.append(
                f"cell {cell} is selected, which is not there"
                if told is None
                else f"cell {cell}: {self._word(told.token)}, {told.what}"
            )
        return [*said, *self._lacking()]

    def _tables(self) -> Sequence[Table]:
        if not self._shown:
            return []
        shape, (first, last) = self._shape, self.span
        lines = [self._line(seen, shape) for seen in self._shown]
        cell = self.selection["cell"]
        marked = [n for n, seen in enumerate(self._shown) if seen.told.cell == cell]
        made = [
            Table(
                f"Cells {first} to {last}: what is held after each",
                rows.head(shape),
                lines,
                marked=marked[0] if marked else None,
                hidden=self._count - len(lines),
            )
        ]
        return [*made, *self._counted()]

    def _line(self, seen: Seen, shape: Shape) -> list[Cell]:
        """A row of the table, made once for a cell that has not changed."""
        made = self._lines.get(seen.told.cell)
        if made is None or made[0].told is not seen.told or made[0].other != seen.other:
            if len(self._lines) >= 4 * MOST_CELLS:
                self._lines.clear()
            own = self._own
            cells = rows.line(seen, shape, chip=self._chip, that_count=own.that_count)
            made = self._lines[seen.told.cell] = (seen, cells)
        return made[1]

    def _counted(self) -> list[Table]:
        found = self._own.counted()
        if not found:
            return []
        lines: list[list[Cell]] = [
            [self._chip(token), seen, out] for token, seen, out in found[:_MOST_COUNTED]
        ]
        caption = "Tokens that the counting penalties hold, at the end of the text"
        head = ("token", "seen (times)", "emitted (times)")
        hidden = max(0, len(found) - _MOST_COUNTED)
        return [Table(caption, head, lines, hidden=hidden)]
