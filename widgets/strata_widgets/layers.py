"""Axes and layers that drawings of live panels share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from strata_widgets.drawing import (
    INK,
    WIDE,
    Said,
    pale,
    params,
    spoken,
    with_rows,
    worded,
)

BY_WINDOW: Final = "window (index in the trace)"
BY_CELL: Final = "cell (absolute position)"
_LEAST: Final = 16  # windows or cells, of an axis with few


def finished(
    layers: Sequence[alt.Chart],
    words: Said,
    /,
    *,
    width: int = WIDE,
    height: int,
    **values: Any,
) -> alt.LayerChart:
    """A drawing without rows, ready for a page.

    Args:
        layers: from the lowest to the highest, none with data of its own.
        words: what it says of itself.
        width: pixels.
        height: pixels.
        **values: its parameters, which Python sets while it is on the page.
    """
    drawn = alt.LayerChart(layer=list(layers), width=width, height=height)
    if values:
        drawn = drawn.add_params(*params(**values))
    return with_rows(worded(drawn, words), [])


def span(field: str, title: str) -> alt.X:
    """An axis of windows or cells from parameter `first` to parameter `last`."""
    scale = alt.Scale(
        domainMin=alt.ExprRef("first"), domainMax=alt.ExprRef("last + 1"), nice=False
    )
    return _counted(field, title, scale)


def room(count: int, *, least: int = _LEAST) -> int:
    """Where an axis of `count` things ends.

    Twice as far when it is full, so that it seldom moves.
    """
    return max(least, 1 << max(0, count - 1).bit_length())


def until(count: str) -> str:
    """`room`, as an expression of a parameter."""
    return f"max({_LEAST}, pow(2, ceil(log(max({count}, 1)) / LN2)))"


def whole(field: str, count: str, title: str) -> alt.X:
    """An axis from 0 over all windows or cells; parameter `count` says how many."""
    end = alt.ExprRef(until(count))
    return _counted(field, title, alt.Scale(domainMin=0, domainMax=end, nice=False))


def _counted(field: str, title: str, scale: alt.Scale) -> alt.X:
    x: alt.X = alt.X(field, title=title, scale=scale).axis(
        format="d", tickMinStep=1, grid=False
    )
    return x


def prompts(x: alt.X, most: float) -> alt.Chart:
    """Prompt windows as grey columns from 0 to `most`; such a row has `prompt`."""
    cells = "'window ' + datum.window + ': ' + datum.prompt + ' cells of a prompt'"
    made: alt.Chart = (
        alt.Chart()
        .transform_filter("isValid(datum.prompt)")
        .transform_calculate(says=cells)
        .mark_rect(color=INK, opacity=0.15, cursor="pointer")
        .encode(
            x=x, x2=alt.X2("end:Q"), y=alt.YDatum(0), y2=alt.Y2Datum(most), **spoken()
        )
    )
    return made


def boxes(
    place: alt.Chart, x: alt.X, y: alt.Y, *, colours: Mapping[str, str], wrong: str
) -> list[alt.Chart]:
    """Boxes in the colour of their state, those that are wrong dashed as well.

    Args:
        place: rows with `state`, `right`, `bottom` and `says`.
        x: the left edge.
        y: the upper edge.
        colours: of each state, in the order of the legend.
        wrong: the state that must show to a reader of no colours too.
    """
    return pale(
        place,
        {"x": x, "x2": "right:Q", "y": y, "y2": "bottom:Q"},
        ("state:N", colours),
        wrong=f"datum.state === '{wrong}'",
        cursor="pointer",
    )
