"""Drafters to chart: what a match was worth, tokens per window, gain against cost.

Pure functions. Windows are counted elsewhere; nothing here knows a drafter.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import altair as alt

from strata_nb.theory import gain as gain  # notebooks ask here
from strata_nb.trace import WindowRecord
from strata_nb.trace.summary import predicting
from strata_widgets.drawing import DASHES, INK, Names, Row, not_empty, spoken, with_rows
from strata_widgets.theme import FATES, PALETTE, WORDS, colour_scale, dressed

FIRSTS: Final = (4, 5, 6, 8, 16, 32, 64)
"""Match lengths that begin a bar; what is shorter than the first has a bar too."""

_WIDTH: Final = 430
_PANEL: Final = 122
_LINE_HEIGHT: Final = 28


class Match(NamedTuple):
    """One window's drafts.

    Attributes:
        length: tokens of history that they rest on; None: no match.
        offered: drafts that took part.
        accepted: of them.
    """

    length: int | None
    offered: int
    accepted: int


@dataclass(frozen=True)
class Yield:
    """What the windows of one drafter bring on one kind of text.

    Attributes:
        panel: kind of text.
        name: the bar.
        tokens: emitted by a window, on average.
    """

    panel: str
    name: str
    tokens: float


@dataclass(frozen=True)
class Gain:
    """How much less the windows of one kind of text cost than plain decoding.

    Attributes:
        name: the line.
        price: cost of a further row, as a share of what a window of one row costs.
        times: cost of plain decoding over that of the windows.
    """

    name: str
    price: float
    times: float


def matches(trace: Iterable[WindowRecord]) -> list[Match]:
    """Return what the windows of a trace offered; those of a prompt are left out."""
    return [
        Match(record.match_length, record.offered, record.accepted)
        for record in predicting(trace)
    ]


def acceptance_by_match(
    windows: Iterable[Match | tuple[int | None, int, int]],
    *,
    title: str = "Acceptance by match length",
) -> alt.LayerChart:
    """Draw what became of drafts by how long the match was that they rest on.

    Args:
        windows: those without drafts or without a match are left out.
        title: one line above.

    Raises:
        ValueError: no window rests on a match.
    """
    found: dict[str, list[int]] = {}
    matched = [(n, *counts) for n, *counts in windows if n is not None and counts[0]]
    for length, offered, accepted in sorted(matched):
        counts = found.setdefault(bar_of(length), [0, 0, 0])
        wrong = int(accepted < offered)
        for fate, count in enumerate((accepted, wrong, offered - accepted - wrong)):
            counts[fate] += count
    if not found:
        raise ValueError("no window rests on a match; pass windows of `SuffixLookup`")
    rows = [row for bar, counts in found.items() for row in _fate_rows(bar, counts)]
    return with_rows(_drawn_matches(tuple(found), title), rows)


def yields(
    counted: Sequence[Yield], *, title: str, description: str, subtitle: str = ""
) -> alt.FacetChart:
    """Draw tokens per window by drafter, a panel a kind of text.

    Args:
        counted: in order.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    not_empty(counted, "yields")
    drawing = _drawn_yields(
        tuple(dict.fromkeys(y.panel for y in counted)),
        tuple(dict.fromkeys(y.name for y in counted)),
        max(y.tokens for y in counted),
        (title, subtitle, description),
    )
    return with_rows(drawing, [_yield_row(y) for y in counted])


def gains(
    lines: Sequence[Gain], *, title: str, description: str, subtitle: str = ""
) -> alt.LayerChart:
    """Draw gain against the price of a row, with a rule where nothing is gained.

    Args:
        lines: points of up to four lines, in order.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    not_empty(lines, "gains")
    drawing = _drawn_gains(
        tuple(dict.fromkeys(g.name for g in lines)),
        max(g.price for g in lines),
        max(g.times for g in lines),
        (title, subtitle, description),
    )
    return with_rows(drawing, [_gain_row(g, first=g is lines[0]) for g in lines])


@functools.cache
def _drawn_matches(bars: Names, title: str) -> alt.LayerChart:
    x = alt.X(
        "match:N",
        title="match length (tokens)",
        scale=alt.Scale(domain=list(bars)),
        axis=alt.Axis(labelAngle=0),
    )
    y = alt.Y(
        "share:Q",
        title="share of drafts offered (%)",
        # Room above the bars for their counts.
        scale=alt.Scale(domain=[0, 1.12]),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    colour = alt.Color("verdict:N", scale=colour_scale(*FATES))
    stacked = alt.Chart().mark_bar().encode(
        x=x, y=y, color=colour, order=alt.Order("order:Q"), **spoken()
    )  # fmt: skip
    first = alt.Chart().transform_filter("datum.order == 0")
    counts = first.mark_text(dy=-7, aria=False)
    layered = alt.LayerChart(
        layer=[stacked, counts.encode(x=x, y=alt.YDatum(1), text=alt.Text("label:N"))],
        width=max(_WIDTH // 2, 62 * len(bars)),
        height=180,
    )
    return dressed(
        layered,
        title=title,
        subtitle="above each bar: accepted of offered",
        description="Stacked bars, one a range of match lengths: the share of drafts "
        "that were accepted, were the first mismatch, or were never reached.",
    )


@functools.cache
def _drawn_yields(
    panels: Names, names: Names, most: float, said: tuple[str, str, str]
) -> alt.FacetChart:
    x = alt.X(
        "tokens:Q",
        title="tokens per window (mean)",
        # Room beside the longest bar for its number.
        scale=alt.Scale(domain=[0, round(1.25 * most, 2)], nice=False),
        axis=alt.Axis(tickCount=5),
    )
    y = alt.Y(
        "name:N",
        title=None,
        scale=alt.Scale(domain=list(names), paddingInner=0.3),
        axis=alt.Axis(labelLimit=200),
    )
    bars = alt.Chart().mark_bar(color=PALETTE["accepted"]).encode(
        x=x, y=y, **spoken()
    )  # fmt: skip
    label = alt.Chart().mark_text(align="left", dx=5, aria=False)
    panel = alt.LayerChart(
        layer=[bars, label.encode(x=x, y=y, text=alt.Text("label:N"))],
        width=_PANEL,
        height=_LINE_HEIGHT * len(names),
    )
    facet = panel.facet(
        column=alt.Column("panel:N", title=None, sort=list(panels)),
        spacing=20,
        data=alt.InlineData(values=[]),
    )
    return dressed(facet, title=said[0], subtitle=said[1], description=said[2])


@functools.cache
def _drawn_gains(
    names: Names, last: float, most: float, said: tuple[str, str, str]
) -> alt.LayerChart:
    x = alt.X(
        "price:Q",
        title="price of a further row (share of a window of one row, %)",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(format="%", tickCount=6),
    )
    y = alt.Y(
        "times:Q",
        title="gain over plain decoding (times)",
        scale=alt.Scale(domain=[0, round(1.1 * most, 2)], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    # One ink, so that no colour has to mean a kind of text.
    dash = alt.Scale(domain=list(names), range=[list(d) for d in DASHES[: len(names)]])
    look = alt.StrokeDash(
        "name:N",
        scale=dash,
        legend=alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=2),
    )
    line = alt.Chart().mark_line(stroke=INK, strokeWidth=2).encode(
        x=x, y=y, strokeDash=look, **spoken()
    )  # fmt: skip
    first = alt.Chart().transform_filter("datum.first")
    even = first.mark_rule(color=PALETTE["mismatch"], aria=False)
    # Below all lines, which fall from the left.
    note = first.mark_text(align="left", dx=6, dy=-8, aria=False)
    words = alt.value("below 1: drafts cost more than they bring")
    layered = alt.LayerChart(
        layer=[
            even.encode(y=alt.YDatum(1)),
            note.encode(x=alt.XValue(0), y=alt.YDatum(0), text=words),
            line,
        ],
        width=_WIDTH,
        height=200,
    )
    return dressed(layered, title=said[0], subtitle=said[1], description=said[2])


def bar_of(length: int) -> str:
    """The range that a match length lies in, as the bars are named."""
    below = [first for first in FIRSTS if first <= length]
    if not below:
        return f"1-{FIRSTS[0] - 1}"
    at = len(below)
    if at == len(FIRSTS):
        return f"{FIRSTS[-1]} up"
    first, last = below[-1], FIRSTS[at] - 1
    return str(first) if first == last else f"{first}-{last}"


def _fate_rows(bar: str, counts: Sequence[int]) -> list[Row]:
    offered = sum(counts)
    label = f"{counts[0]}/{offered}"
    rows = []
    for order, (role, count) in enumerate(zip(FATES, counts, strict=True)):
        says = f"match of {bar} tokens: {count} of {offered} {WORDS[role]}"
        row = {"match": bar, "verdict": WORDS[role], "order": order, "label": label}
        rows.append({**row, "share": round(count / offered, 6), "says": says})
    return rows


def _yield_row(found: Yield) -> Row:
    label = f"{found.tokens:.2f}"
    row = {"panel": found.panel, "name": found.name, "tokens": round(found.tokens, 4)}
    says = f"{found.panel}: {found.name}: {label} tokens per window"
    return {**row, "label": label, "says": says}


def _gain_row(found: Gain, *, first: bool) -> Row:
    row = {"name": found.name, "price": round(found.price, 4)}
    says = f"{found.name}: at {found.price:.0%} a row {found.times:.2f} times"
    return {**row, "times": round(found.times, 4), "says": says, "first": first}
