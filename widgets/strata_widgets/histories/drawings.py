"""The charts of histories, without rows; each is made once."""

import functools
from typing import Any, Final

import altair as alt

from strata_widgets.drawing import (
    INK,
    WIDE,
    Names,
    Said,
    noted,
    spoken,
)
from strata_widgets.layers import BY_CELL, finished, span
from strata_widgets.theme import PALETTE

LANES: Final = (
    "prompt",
    "emitted",
    "pad",
    "open window",
    "not in the trace",
    "differs",
)

# As where states are drawn as boxes: committed in the page's ink, rows of the open
# window added, grey what does not count, wrong the mismatch's colour.
_COLOURS: Final = {
    "prompt": INK,
    "emitted": INK,
    "pad": PALETTE["unreached"],
    "open window": PALETTE["added"],
    "not in the trace": PALETTE["unreached"],
    "differs": PALETTE["mismatch"],
}
# With the names of the lanes beside it a chart fits a narrow page.
_WIDTH: Final = WIDE - 40
_LANE: Final = 20
_HEIGHT: Final = 90


@functools.cache
def cells(lanes: Names) -> alt.LayerChart:
    """What each cell is: a square in the lane of what it is.

    A row of data is a square: `cell`, `end`, `lane`, `window` where there is one,
    `says`.

    Args:
        lanes: of `LANES`, from the top.
    """
    x, y = _across(), _lanes(lanes)
    colour = alt.Scale(domain=list(lanes), range=[_COLOURS[lane] for lane in lanes])
    squares = (
        alt.Chart()
        .transform_filter("isValid(datum.lane)")
        .mark_rect(cursor="pointer", fillOpacity=0.55, strokeWidth=1)
        .encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=y,
            fill=alt.Fill("lane:N", scale=colour, legend=None),
            stroke=alt.Stroke("lane:N", scale=colour, legend=None),
            **spoken(),
        )
    )
    height = _LANE * len(lanes)
    words = Said(
        "What each cell is",
        "outlined: the selected window; frame: the selected cell; click a cell to "
        "select it",
        "Squares by cell: prompt, emitted, pad, or a row of the open window; cells "
        "that differ beside another engine have one more, in a lane of their own.",
    )
    return _made([squares, *_chosen(x, height), noted(_WIDTH, height)], height, words)


@functools.cache
def penalised() -> alt.LayerChart:
    """How many tokens are penalised after each cell.

    A row of data is a bar: `cell`, `end`, `size`, `window`, `says`.
    """
    # Twice as high when it is full, so that the axis seldom moves.
    top = alt.Scale(domainMin=0, domainMax=alt.ExprRef("most"), nice=False)
    y = alt.Y("size:Q", title="tokens (count)", scale=top).axis(
        format="d", tickMinStep=1, tickCount=4
    )
    words = Said(
        "Tokens penalised after each cell",
        "of the whole vocabulary; light blue: rows of the open window",
        "Bars by cell: how many tokens the penalties would penalise next.",
    )
    return _bars(y, words, "No token is penalised after these cells.", most=8)


@functools.cache
def progress(longest: int) -> alt.LayerChart:
    """How much of an unwanted phrase the text ends with.

    A row of data is a bar, as of `penalised`.

    Args:
        longest: bytes of the longest phrase.
    """
    top = alt.Scale(domain=[0, max(longest, 1)], nice=False)
    y = alt.Y("size:Q", title="phrase (bytes)", scale=top).axis(
        format="d", tickMinStep=1, tickCount=4
    )
    words = Said(
        "How far an unwanted phrase has come",
        "the top is the longest phrase; light blue: rows of the open window",
        "Bars by cell: bytes at the end of the text that begin an unwanted phrase.",
    )
    return _bars(y, words, "No unwanted phrase has begun in these cells.")


def _bars(y: alt.Y, words: Said, quiet: str, **values: int) -> alt.LayerChart:
    """Bars by cell; `quiet` is written while the parameter of that name is true."""
    x = _across()
    colour = alt.condition("datum.open", alt.value(PALETTE["added"]), alt.value(INK))
    bars = (
        alt.Chart()
        .transform_filter("datum.size > 0")
        .mark_rect(cursor="pointer", fillOpacity=0.55, strokeWidth=1)
        .encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=y,
            y2=alt.Y2Datum(0),
            fill=colour,
            stroke=colour,
            **spoken(),
        )
    )
    once = alt.Chart().transform_aggregate(bars="count()").transform_filter("quiet")
    # At the right, where cells come last: the frame of a selected one seldom meets it.
    note = once.mark_text(fontStyle="italic", align="right", aria=False).encode(
        x=alt.XValue(_WIDTH - 8), y=alt.YValue(_HEIGHT / 2), text=alt.TextValue(quiet)
    )
    layers = [bars, note, *_chosen(x, _HEIGHT), noted(_WIDTH, _HEIGHT)]
    return _made(layers, _HEIGHT, words, quiet=False, **values)


def _chosen(x: alt.X, height: int) -> list[alt.Chart]:
    place: dict[str, Any] = {
        "x": x,
        "x2": "end:Q",
        "y": alt.value(0),
        "y2": alt.value(height),
    }
    look: dict[str, Any] = {"fillOpacity": 0, "stroke": INK, "aria": False}
    window = alt.Chart().transform_filter("datum.window === window")
    cell = alt.Chart().transform_filter("datum.cell === cell")
    return [
        window.mark_rect(**look, strokeWidth=1, strokeDash=[2, 2]).encode(**place),
        cell.mark_rect(**look, strokeWidth=2).encode(**place),
    ]


def _made(
    layers: list[alt.Chart], height: int, words: Said, **values: int
) -> alt.LayerChart:
    shared = {"window": -1, "cell": -1, "first": 0, "last": 15}
    return finished(layers, words, width=_WIDTH, height=height, **shared, **values)


def _across() -> alt.X:
    return span("cell:Q", BY_CELL)


def _lanes(lanes: Names) -> alt.Y:
    scale = alt.Scale(domain=list(lanes), paddingInner=0.2, paddingOuter=0.1)
    axis = alt.Axis(domain=False, ticks=False, labelPadding=6, grid=False)
    return alt.Y("lane:N", title=None, scale=scale, axis=axis)
