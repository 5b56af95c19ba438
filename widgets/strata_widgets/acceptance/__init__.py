"""`Acceptance`: what became of drafts, by position, by match length and over time."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import WindowRecord
from strata_nb.backend import Text
from strata_nb.trace import Rate
from strata_nb.trace.drafts import Drafts, Place, Rolling
from strata_nb.trace.summary import NEWEST
from strata_nb.trace.text import counted
from strata_widgets.acceptance.drawings import (
    BARS,
    SPAN,
    keeps,
    matches,
    positions,
    rolling,
)
from strata_widgets.acceptance.rows import table_of, window_words
from strata_widgets.acceptance.spells import Spells
from strata_widgets.charts import MOST_DRAFTS
from strata_widgets.draft_charts import bar_of
from strata_widgets.drawing import Row, nothing
from strata_widgets.layers import room
from strata_widgets.panel.control import Table
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

_EMPTY: Final = "Commit a window with drafts, and it appears here."
_NO_MATCH: Final = "Draft with `SuffixLookup`: it tells how long a match is."


class Acceptance(TraceView):
    """Which drafts are accepted, and whether that is what the formulas expect.

    Example:
        >>> view = Acceptance(session, model=model)
        >>> link(view, Timeline(session))
        >>> view.select(window=12)
    """

    TITLE = "Acceptance"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window",)

    def __init__(
        self, source: Any, *, model: Text | None = None, **traits: Any
    ) -> None:
        """Look at `source`: a trace, or what has one, or window records.

        Args:
            source: what is shown.
            model: what knows the text of tokens; None: ids alone are shown.
            **traits: `selection`.

        Raises:
            TypeError: `source` has no trace, or `model` no `decode`.
        """
        if model is not None and not hasattr(model, "decode"):
            raise TypeError(
                "`model` must know the text of tokens, got "
                f"{type(model).__name__}; pass what `strata_nb.load` gave, or leave it "
                "out to see ids"
            )
        self._model = model
        self._from: int | None = None
        super().__init__(source, **traits)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last window of the rolling chart."""
        first = self._from
        if first is None:
            first = max(0, self._seen - SPAN)
        return first, first + SPAN - 1

    def _forget(self) -> None:
        self._drafts, self._spells, self._rolling = Drafts(), Spells(), Rolling()
        self._matches = {bar: Place() for bar in BARS}
        # The newest rows, so that none is made twice; and what is on the page.
        self._recent: deque[Row] = deque(maxlen=SPAN)
        self._drawn: tuple[int, int] | None = None

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for window, record in enumerate(records, first):
            self._drafts.add(record)
            self._spells.add(window, record)
            self._recent.append(_row(window, record, self._rolling))
            if record.match_length is not None and record.offered:
                place = self._matches[bar_of(record.match_length)]
                place.offered += record.offered
                place.reached += min(record.accepted + 1, record.offered)
                place.accepted += record.accepted

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {
            "rolling": rolling(),
            "positions": positions(),
            "matches": matches(),
            "keeps": keeps(),
        }

    def _values(self) -> dict[str, Any]:
        first, last = self._on_the_page()
        if self._from is None:
            last = min(last, first + room(self._seen - first) - 1)
        rate, spell = self._drafts.total.rate, self._spells.now
        return {
            **super()._values(),
            "first": first,
            "last": last,
            "overall": -1 if rate is None else round(rate, 4),
            "spell": spell.since if spell else -1,
            "spell_end": spell.last if spell else -1,
        }

    def _on_the_page(self) -> tuple[int, int]:
        """The span, moved to where the selected window is."""
        chosen, (first, last) = self.selection["window"], self.span
        if chosen is None:
            self._from = None
        elif chosen < self._seen and not first <= chosen <= last:
            self._from = max(0, chosen - SPAN // 2)
        return self.span

    def _draw(self) -> None:
        self._draw_rolling()
        places = self._drafts.places[:MOST_DRAFTS]
        by_place = [_place(str(at), place) for at, place in enumerate(places, 1)]
        self._live["positions"].replace(by_place or nothing(_EMPTY))
        matched = [_place(b, place) for b, place in self._matches.items()]
        matched = [row for row in matched if row["offered"]]
        self._live["matches"].replace(matched or nothing(_NO_MATCH))
        kept = [self._keep_row(drafts) for drafts, _ in enumerate(places, 1)]
        self._live["keeps"].replace(kept or nothing(_EMPTY))

    def _draw_rolling(self) -> None:
        first, last = self.span
        last = min(last, self._seen - 1)
        chart, was = self._live["rolling"], self._drawn
        chart.limit = SPAN
        if last < first:
            chart.replace(nothing(_EMPTY))
            return
        # While a run grows, only its new windows travel.
        if was is not None and was[0] <= first <= was[1] <= last:
            chart.append(*self._rows(was[1] + 1, last))
        else:
            chart.replace(self._rows(first, last))
        self._drawn = (first, last)

    def _rows(self, first: int, last: int) -> list[Row]:
        if first > last:
            return []
        oldest = self._seen - len(self._recent)
        if first >= oldest:
            return [self._recent[at - oldest] for at in range(first, last + 1)]
        trace = self._trace
        before = Rolling.before(trace, first)
        return [_row(at, trace[at], before) for at in range(first, last + 1)]

    def _keep_row(self, drafts: int) -> Row:
        seen = self._drafts
        expected, observed = seen.expected(drafts), seen.observed(drafts)
        row: Row = {"drafts": drafts, "windows": seen.natural[drafts]}
        row["expected"] = round(expected or 0, 4)
        return row if observed is None else {**row, "observed": round(observed, 4)}

    def _tables(self) -> Sequence[Table]:
        shown = self._window()
        if shown is None:
            return ()
        chosen = self.selection["window"] == shown
        return [table_of(shown, self._trace[shown], self._model, chosen=chosen)]

    def _status(self) -> str:
        seen = self._drafts
        if not self._seen:
            return "no windows yet"
        said = [f"{counted(seen.windows, 'window')}, {seen.drafted} with drafts"]
        if seen.prompts:
            said[0] += f", and {seen.prompts} of a prompt"
        if seen.total.offered:
            newest = self._rolling.rate
            said.append(f"{_rate(seen.total)} drafts accepted")
            said.append(f"newest {NEWEST} windows {_rate(newest)}")
        both = seen.keeps()
        if both is not None:
            said.append(f"keep expected {both[0]:.3f}, observed {both[1]:.3f}")
        if seen.forced:
            said.append(f"{counted(seen.forced, 'forced keep')} left out of that")
        first, last = self.span
        last = min(last, self._seen - 1)
        if last - first + 1 < self._seen:
            said.append(
                f"windows {first} to {last} are drawn one by one, "
                f"{self._seen - (last - first + 1)} left out there"
            )
        if len(seen.places) > MOST_DRAFTS:
            said.append(f"drafts past the {MOST_DRAFTS}th are counted, not drawn")
        return "; ".join([*self._warnings(), *said, *self._chosen()])

    def _warnings(self) -> list[str]:
        now, before = self._spells.now, self._spells.before
        if now is not None:
            return [
                f"WARNING: no draft was accepted in {now.windows} windows with drafts "
                f"since window {now.since}, before it was {now.was:.0%}: either the "
                "text has turned, or the drafter no longer fits; run `strata-nb gate` "
                "if you doubt the engine"
            ]
        if before is None:
            return []
        return [
            f"{counted(self._spells.ended, 'spell')} of rejections, the last from "
            f"window {before.since} to {before.last}"
        ]

    def _chosen(self) -> list[str]:
        chosen = self.selection["window"]
        if chosen is None or chosen >= self._seen:
            return self._lacking()
        return [window_words(chosen, self._trace[chosen])]


def _row(window: int, record: WindowRecord, so_far: Rolling) -> Row:
    row: Row = {"window": window, "end": window + 1}
    if record.headless:
        return {**row, "prompt": record.T}
    newest = so_far.add(record)
    row |= {"offered": record.offered, "accepted": record.accepted}
    return {
        **row,
        "newest_offered": newest.offered,
        "newest_accepted": newest.accepted,
    }


def _place(name: str, place: Place) -> Row:
    return {"place": name, **vars(place)}


def _rate(rate: Rate) -> str:
    share = "none offered" if rate.rate is None else f"{rate.rate:.1%}"
    return f"{rate.accepted} of {rate.offered} ({share})"
