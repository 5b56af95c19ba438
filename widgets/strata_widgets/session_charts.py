"""Session to chart: what each request found, read and emitted, and what is kept.

Pure functions; what a request took was counted elsewhere.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import altair as alt

from strata_widgets.drawing import INK, Names, Row, spoken, with_rows
from strata_widgets.theme import PALETTE, dressed

Part: TypeAlias = Literal["reused", "read", "emitted"]

# What is new has the colours of a window: given tokens that of a root, tokens that the
# model chose that of a bonus. What was there already is grey: nothing happens to it.
PARTS: Final[dict[Part, tuple[str, str]]] = {
    "reused": ("reused", PALETTE["unreached"]),
    "read": ("read", PALETTE["root"]),
    "emitted": ("emitted", PALETTE["bonus"]),
}

_KEPT: Final = "checkpoint"
_DROPPED: Final = "dropped"
_WIDTH: Final = 400
_LINE_HEIGHT: Final = 44
_BAR: Final = 15
# Two checkpoints may be at one cell, on two branches: one stands below the other.
_BELOW: Final = (9, 17)


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        name: the bar.
        reused: cells of the prompt that were there already.
        read: cells of the prompt that were run.
        emitted: tokens.
        checkpoints: cells of each, after the request.
    """

    name: str
    reused: int
    read: int
    emitted: int
    checkpoints: tuple[int, ...] = ()


def requests(
    asked: Iterable[Asked], *, title: str, description: str, subtitle: str = ""
) -> alt.LayerChart:
    """Draw what each request took, a bar each, with the checkpoints below it.

    A checkpoint that the request before had and this one has no more is drawn as a
    cross: the ring has dropped it.

    Args:
        asked: in order, each with a name of its own.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is no request, two have one name, or `description` is empty.
    """
    listed = list(asked)
    names = tuple(one.name for one in listed)
    if not listed:
        raise ValueError("a picture wants requests, got none; list at least one")
    if len({*names}) < len(names):
        raise ValueError(f"two requests have one name in {list(names)}; number them")
    ends = [one.reused + one.read + one.emitted for one in listed]
    marks = [cell for one in listed for cell in one.checkpoints]
    drawing = _drawn(names, max([*ends, *marks]), (title, subtitle, description))
    rows = [row for one in listed for row in _bars(one)]
    before: Sequence[int] = ()
    for one in listed:
        rows += _marks(one, before)
        before = one.checkpoints
    return with_rows(drawing, rows)


@functools.cache
def _drawn(names: Names, last: int, said: tuple[str, str, str]) -> alt.LayerChart:
    scale = alt.Scale(domain=[0, last + 4], nice=False)
    x = alt.X("begin:Q", title="cells of the request's text (count)", scale=scale)
    y = alt.Y(
        "name:N",
        title=None,
        scale=alt.Scale(domain=list(names), padding=0),
        axis=alt.Axis(labelLimit=220, ticks=False, domain=False),
    )
    words = [word for word, _ in PARTS.values()]
    fill = alt.Scale(domain=words, range=[colour for _, colour in PARTS.values()])
    bars = alt.Chart().transform_filter("isValid(datum.part)")
    marks = alt.Chart().transform_filter("isValid(datum.mark)")
    shape = alt.Scale(domain=[_KEPT, _DROPPED], range=["triangle-up", "cross"])
    look = alt.Legend(symbolType="square", columns=3)
    bar = bars.mark_bar(size=_BAR, yOffset=-8).encode(
        x=x,
        x2=alt.X2("end:Q"),
        y=y,
        color=alt.Color("part:N", scale=fill, legend=look),
        **spoken(),
    )
    number = bars.mark_text(dy=-8, fontSize=10, aria=False).encode(
        x=alt.X("middle:Q"),
        y=y,
        text=alt.Text("label:N"),
        # Black stands out from grey, white from the two colours.
        color=alt.condition("datum.grey", alt.value("black"), alt.value("white")),
    )
    points = [
        marks.transform_filter(f"datum.nth == {nth}")
        .mark_point(size=44, yOffset=offset, color=INK, filled=True, opacity=1)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape(
                "mark:N", scale=shape, legend=alt.Legend(symbolFillColor=INK)
            ),
            **spoken(),
        )
        for nth, offset in enumerate(_BELOW)
    ]
    layered = alt.LayerChart(
        layer=[bar, number, *points], width=_WIDTH, height=_LINE_HEIGHT * len(names)
    )
    return dressed(layered, title=said[0], subtitle=said[1], description=said[2])


def _bars(one: Asked) -> Iterable[Row]:
    begin = 0
    counts: dict[Part, int] = {
        "reused": one.reused,
        "read": one.read,
        "emitted": one.emitted,
    }
    for part, count in counts.items():
        end = begin + count
        if count:
            says = f"{one.name}: {count} {PARTS[part][0]}"
            row = {"name": one.name, "part": PARTS[part][0], "begin": begin, "end": end}
            row |= {"middle": (begin + end) / 2, "grey": part == "reused", "says": says}
            yield {**row, "label": str(count) if count > 5 else ""}
        begin = end


def _marks(one: Asked, before: Sequence[int]) -> Iterable[Row]:
    kept = Counter(one.checkpoints)
    gone = Counter(before) - kept
    for cell in dict.fromkeys([*one.checkpoints, *before]):
        words = [_KEPT] * kept[cell] + [_DROPPED] * gone[cell]
        for nth, word in enumerate(words):
            says = f"{one.name}: cell {cell}: {word}" + (", one more" if nth else "")
            row = {"name": one.name, "mark": word, "begin": cell, "says": says}
            yield {**row, "nth": min(nth, len(_BELOW) - 1)}
