"""The timeline's two charts, without rows."""

from typing import Final

import altair as alt

from strata_nb.refusals import MAX_ROWS
from strata_widgets.drawing import (
    INK,
    WIDE,
    Said,
    noted,
    spoken,
)
from strata_widgets.layers import BY_WINDOW, finished, prompts, span, until, whole
from strata_widgets.theme import WORDS, Role, colour_scale

_HEIGHT: Final = 150
_LOW: Final = 50
_ROLES: Final[tuple[Role, ...]] = ("root", "accepted", "mismatch", "unreached")


def rows_of_windows() -> alt.LayerChart:
    """Each window a column, each row of it a square in the colour of its verdict.

    A row of data is a window: `window`, `end` (the next index), `verdicts` and `rows`
    (arrays, one entry a row), `prompt` (cells of a prompt window, or none). So a window
    costs some 90 bytes on its way to the page, not that for each square.
    """
    x = span("window:Q", BY_WINDOW)
    y = alt.Y("row:Q", title="row of the window").axis(
        values=list(range(MAX_ROWS + 1)), format="d", grid=False
    )
    y = y.scale(domain=[0, MAX_ROWS], nice=False)
    squares = (
        alt.Chart()
        .transform_filter("isValid(datum.verdicts)")
        .transform_flatten(["verdicts", "rows"], as_=["verdict", "row"])
        .transform_calculate(
            above="datum.row + 1",
            says="'window ' + datum.window + ', row ' + datum.row + ': ' "
            "+ datum.verdict",
        )
        .mark_rect(cursor="pointer", stroke="transparent", strokeWidth=1)
        .encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=y,
            y2=alt.Y2("above:Q"),
            color=alt.Color("verdict:N", scale=colour_scale(*_ROLES)).legend(columns=4),
            **spoken(),
        )
    )
    chosen = (
        alt.Chart()
        .transform_filter("datum.window === window")
        .mark_rect(fill=None, stroke=INK, strokeWidth=2)
        .encode(x=x, x2=alt.X2("end:Q"), y=alt.YDatum(0), y2=alt.Y2Datum(MAX_ROWS))
    )
    layers = [squares, prompts(x, MAX_ROWS), chosen, noted(WIDE, _HEIGHT)]
    words = Said(
        "Rows of each window",
        "a column is a window; grey: a prompt; click one to select it",
        "Each column is a window, each square a row in the colour of its verdict: "
        "root, accepted, first mismatch, never reached.",
    )
    return finished(layers, words, height=_HEIGHT, window=-1, first=0, last=15)


def overview() -> alt.LayerChart:
    """Tokens a window over the whole run, with the span that is shown above.

    A row of data is a piece of the run: `from`, `to` (window indices, `to` is not in
    it), `tokens` (emitted, the mean a window).
    """
    x = whole("from:Q", "windows", BY_WINDOW)
    y = alt.Y("tokens:Q", title="tokens a window").scale(
        domain=[0, MAX_ROWS], nice=False
    )
    bars = (
        alt.Chart()
        .transform_filter("isValid(datum.tokens)")
        .transform_calculate(
            says="'windows ' + datum.from + ' to ' + (datum.to - 1) + ': ' "
            "+ format(datum.tokens, '.2f') + ' tokens a window'"
        )
        .mark_rect(color=INK, opacity=0.5)
        .encode(
            x=x,
            x2=alt.X2("to:Q"),
            y=y.axis(values=[0, 4, 8]),
            y2=alt.Y2Datum(0),
            **spoken(),
        )
        .add_params(alt.selection_interval(name="zoom", encodings=["x"]))
    )
    shown = (
        alt.Chart()
        .transform_aggregate(pieces="count()")
        .mark_rule(color=INK, strokeWidth=3)
        .encode(
            x=alt.X(datum=alt.ExprRef("first"), type="quantitative"),
            x2=alt.X2Datum(alt.ExprRef(f"min(last + 1, {until('windows')})")),
            y=alt.YValue(0),
        )
    )
    layers = [bars, shown, noted(WIDE, _LOW)]
    words = Said(
        "The whole run",
        "drag over it to zoom; the line is what is shown above",
        "Tokens emitted a window over the whole run, and the span shown above.",
    )
    return finished(layers, words, height=_LOW, windows=0, first=0, last=15)


def word(role: str) -> str:
    """The word of a verdict on the page; empty for a draft that took no part."""
    return WORDS[role] if role in _ROLES else ""
