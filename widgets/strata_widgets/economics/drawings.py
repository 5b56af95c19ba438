"""The three charts of length economics, without rows.

Each is made once: it takes Altair a tenth of a second to check one.
"""

import functools
from typing import Final

import altair as alt

from strata_nb.refusals import MAX_ROWS
from strata_widgets.drawing import INK, Said, noted, spoken
from strata_widgets.layers import finished
from strata_widgets.theme import PALETTE

TOP: Final = 1.25
"""Tokens on the axis of gains, at least: a row brings one token at most."""

_HIGH: Final = 160
_WIDTH: Final = 310
_KNOWN: Final = "isValid(datum.rows)"


@functools.cache
def times() -> alt.LayerChart:
    """Time of a window by its length: median and spread, and what it may take.

    A row of data is a length: `rows`, `windows`, `median`, `low`, `high` (5 % and
    95 %), `first`, `third` (quartiles), `even` (or none).
    """
    y = _y("median:Q", "time of a window (ms)", "top_ms")
    x = _x()
    known = alt.Chart().transform_filter(_KNOWN)
    even = known.transform_filter("isValid(datum.even)")
    once = alt.Chart().transform_aggregate(pieces="count()")
    says = (
        "'T = ' + datum.rows + ': ' + format(datum.median, '.2f') + ' ms, half of '"
        "+ datum.windows + ' windows between ' + format(datum.first, '.2f') + ' and ' "
        "+ format(datum.third, '.2f') + (isValid(datum.even) ? '; breaks even at ' "
        "+ format(datum.even, '.2f') : '')"
    )
    layers = [
        known.mark_rule(color=INK, aria=False).encode(
            x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")
        ),
        known.transform_calculate(says=says)
        .mark_bar(color=PALETTE["unreached"], size=22)
        .encode(x=x, y=alt.Y("first:Q"), y2=alt.Y2("third:Q"), **spoken()),
        known.mark_tick(color=INK, thickness=3, size=26, aria=False).encode(x=x, y=y),
        even.mark_line(color=INK, strokeDash=[7, 3], strokeWidth=2, aria=False).encode(
            x=x, y=alt.Y("even:Q")
        ),
        even.mark_point(color=INK, size=30, opacity=1, aria=False).encode(
            x=x, y=alt.Y("even:Q")
        ),
        once.transform_filter("chosen_ms > 0")
        .transform_calculate(at="chosen_rows", ms="chosen_ms")
        .mark_point(
            shape="diamond", filled=True, color=PALETTE["root"], size=110, opacity=1,
            aria=False,
        )
        .encode(x=alt.X("at:O"), y=alt.Y("ms:Q")),
        noted(_WIDTH, _HIGH),
    ]  # fmt: skip
    words = Said(
        "Time of a window",
        "tick: median; box: half; rule: 90 %; dashes: break-even; diamond: selected",
        "By rows of a window: the median of its time, the middle half as a box, 90 % "
        "as a rule, and as dashes the time in which it is as fast as without drafts.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH, chosen_rows=-1, **_TOPS)


@functools.cache
def further() -> alt.LayerChart:
    """What each further row brings, and what it costs, both in tokens.

    A row of data is a length: `rows`, `gain` (or none), `price` (or none), `cost` (ms).
    """
    y = _y("gain:Q", "a further row (tokens)", "top_price")
    x = _x()
    known = alt.Chart().transform_filter(_KNOWN)
    says = (
        "'row ' + datum.rows + ': brings ' + (isValid(datum.gain) "
        "? format(datum.gain, '.2f') : 'an unknown number of') + ' tokens, costs ' "
        "+ format(datum.cost, '.2f') + ' ms' + (isValid(datum.price) "
        "? ', in which ' + format(datum.price, '.2f') + ' are decoded without' : '')"
    )
    layers = [
        known.transform_calculate(says=says)
        .mark_bar(color=PALETTE["accepted"])
        .encode(x=x, y=y, **spoken()),
        known.transform_filter("isValid(datum.price)")
        .transform_calculate(shown="max(datum.price, 0)")
        .mark_tick(color=INK, thickness=3, size=34, aria=False)
        .encode(x=x, y=alt.Y("shown:Q")),
        noted(_WIDTH, _HIGH),
    ]
    words = Said(
        "What a further row brings, and costs",
        "bar: tokens it brings; tick: tokens decoded without drafts in its time",
        "By rows of a window: the tokens that a further row brings as a bar, and what "
        "it costs as a tick, in tokens decoded without drafts in the same time.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH, **_TOPS)


@functools.cache
def speeds() -> alt.LayerChart:
    """Tokens a second by length, observed and expected, and without drafts.

    A row of data is a length: `rows`, `observed`, `expected` (or none), `best`.
    """
    y = _y("observed:Q", "tokens a second", "top_speed")
    x = _x()
    known = alt.Chart().transform_filter(_KNOWN)
    once = alt.Chart().transform_aggregate(pieces="count()")
    says = (
        "'T = ' + datum.rows + ': ' + format(datum.observed, '.1f') "
        "+ ' tokens a second' + (isValid(datum.expected) ? ', expected ' "
        "+ format(datum.expected, '.1f') : '') + (datum.best ? ', the best' : '')"
    )
    layers = [
        known.transform_calculate(says=says)
        .mark_bar(color=INK, opacity=0.5)
        .encode(x=x, y=y, **spoken()),
        once.transform_filter("plain_speed > 0")
        .mark_rule(color=INK, strokeDash=[7, 3], aria=False)
        .encode(y=alt.Y(datum=alt.ExprRef("plain_speed"), type="quantitative")),
        known.transform_filter("isValid(datum.expected)")
        .mark_tick(color=INK, thickness=3, size=34, aria=False)
        .encode(x=x, y=alt.Y("expected:Q")),
        known.transform_filter("datum.best")
        .mark_text(fontWeight="bold", aria=False)
        .encode(x=x, y=alt.YValue(-4), text=alt.TextValue("best")),
        noted(_WIDTH, _HIGH),
    ]
    words = Said(
        "Tokens a second",
        "bar: observed; tick: E[keep] / C, best marked; dashes: without drafts",
        "By rows of a window: tokens emitted a second as a bar, those expected by the "
        "acceptances as a tick, the best length by name, and plain decoding as dashes.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH, **_TOPS)


_TOPS: Final = {
    "top_ms": 1.0,
    "top_price": TOP,
    "top_speed": 1.0,
    "plain_speed": -1.0,
    "chosen_ms": -1.0,
}


def _x() -> alt.X:
    return (
        alt.X("rows:O", title="rows of the window (T)")
        .axis(labelAngle=0)
        .scale(domain=list(range(1, MAX_ROWS + 1)))
    )


def _y(field: str, title: str, top: str) -> alt.Y:
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef(top), nice=False)
    return alt.Y(field, title=title, scale=scale).axis(tickCount=5)
