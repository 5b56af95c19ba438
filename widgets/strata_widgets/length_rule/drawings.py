"""The two charts of the length rule, without rows."""

import functools
from typing import Final

import altair as alt

from strata_nb.refusals import MAX_ROWS
from strata_widgets.drawing import INK, Said, spoken
from strata_widgets.layers import finished
from strata_widgets.theme import PALETTE

TOP: Final = 8
"""Tokens on the axis: a window of 8 rows brings no more."""
LEAST_GAIN: Final = 2.0
_HIGH: Final = 170
_WIDTH: Final = 310


@functools.cache
def brings() -> alt.LayerChart:
    """Tokens that a window brings, and what it costs in tokens, by its length.

    A row of data is a length: `rows`, `brings`, `price`, and `beyond` where the price
    is above the axis.
    """
    y = alt.Y(
        "brings:Q",
        title="a window (tokens)",
        scale=alt.Scale(domain=[0, TOP], nice=False),
    ).axis(tickCount=5)
    x = _x()
    says = (
        "'T = ' + datum.rows + ': brings ' + format(datum.brings, '.2f') + ' tokens, "
        "costs as much as ' + format(datum.price, '.2f') + ' without drafts'"
    )
    layers = [
        alt.Chart()
        .transform_calculate(says=says)
        .mark_bar(color=PALETTE["accepted"])
        .encode(x=x, y=y, **spoken()),
        alt.Chart()
        .transform_filter("!datum.beyond")
        .mark_tick(color=INK, thickness=3, size=30, aria=False)
        .encode(x=x, y=alt.Y("price:Q")),
        alt.Chart()
        .transform_filter("datum.beyond")
        .mark_text(text="↑", color=INK, fontWeight="bold", aria=False)
        .encode(x=x, y=alt.YValue(7)),
    ]
    words = Said(
        "What a window brings, and costs",
        "bar: tokens it brings; tick: tokens decoded without drafts in its time",
        "By rows of a window: the expected tokens as a bar, and as a tick how many "
        "tokens plain decoding makes in the same time. A tick below the top of its bar "
        "pays.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH)


@functools.cache
def gains() -> alt.LayerChart:
    """How many times as fast as plain decoding, by the length of the windows.

    A row of data is a length: `rows`, `gain`, `word` ("best", "marginal rule", "both"
    or nothing).
    """
    y = alt.Y(
        "gain:Q",
        title="times as fast as plain decoding",
        scale=alt.Scale(domainMin=0, domainMax=alt.ExprRef("top_gain"), nice=False),
    ).axis(tickCount=5)
    x = _x()
    says = (
        "'T = ' + datum.rows + ': ' + format(datum.gain, '.2f') + ' times as fast as "
        "plain decoding' + (datum.word ? ', ' + datum.word : '')"
    )
    layers = [
        alt.Chart()
        .transform_calculate(says=says)
        .mark_bar(color=INK, opacity=0.5)
        .encode(x=x, y=y, **spoken()),
        alt.Chart()
        .transform_aggregate(pieces="count()")
        .mark_rule(color=INK, strokeDash=[7, 3], aria=False)
        .encode(y=alt.YDatum(1)),
        alt.Chart()
        .transform_filter("datum.word")
        .mark_text(fontWeight="bold", baseline="bottom", dy=-3, aria=False)
        .encode(x=x, y=y, text=alt.Text("word:N")),
    ]
    words = Said(
        "Times as fast",
        "E[keep] / C, plain decoding 1; the best length and the marginal rule's",
        "By rows of a window: how many times as fast as plain decoding it is, with the "
        "best length and the one of the marginal rule by name, and a dashed line at 1.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH, top_gain=LEAST_GAIN)


def _x() -> alt.X:
    return (
        alt.X("rows:O", title="rows of the window (T)")
        .axis(labelAngle=0)
        .scale(domain=list(range(1, MAX_ROWS + 1)))
    )
