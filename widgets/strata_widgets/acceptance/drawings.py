"""The four charts of acceptance, without rows.

Each is made once: it takes Altair a tenth of a second to check one.
"""

import functools
from typing import Final

import altair as alt

from strata_widgets.charts import MOST_DRAFTS
from strata_widgets.draft_charts import FIRSTS, bar_of
from strata_widgets.drawing import (
    INK,
    WIDE,
    Said,
    noted,
    spoken,
)
from strata_widgets.layers import BY_WINDOW, finished, prompts, span
from strata_widgets.theme import FATES, PALETTE, WORDS, colour_scale

SPAN: Final = 64
"""Windows that the rolling chart shows."""
BARS: Final = tuple(bar_of(first) for first in (1, *FIRSTS))

_HIGH: Final = 150
_WIDTH: Final = 310
_SHARES: Final = (0, 0.25, 0.5, 0.75, 1)
# Two lines of numbers have room above the bars.
_TOP: Final = 1.3


@functools.cache
def rolling() -> alt.LayerChart:
    """Acceptance of the newest windows, of each window, and of all.

    A row of data is a window: `window`, `end` (the next index); `offered` and
    `accepted` of its own drafts, `newest_offered` and `newest_accepted` of those of
    the newest windows up to it; or `prompt` (cells of a prompt window).
    """
    x = span("window:Q", BY_WINDOW)
    middle = span("middle:Q", BY_WINDOW)
    y = alt.Y("share:Q", title="drafts accepted (%)").axis(format="%", values=_SHARES)
    y = y.scale(domain=[0, 1], nice=False)
    low, high = alt.datum(0), alt.datum(1)
    decoded = alt.Chart().transform_filter("isValid(datum.offered)")
    own = decoded.transform_filter("datum.offered > 0").transform_calculate(
        share="datum.accepted / datum.offered", middle="datum.window + 0.5"
    )
    newest = decoded.transform_calculate(
        share="datum.newest_offered > 0 "
        "? datum.newest_accepted / datum.newest_offered : null",
        middle="datum.window + 0.5",
    )
    says = (
        "'window ' + datum.window + ': ' + datum.accepted + ' of ' + datum.offered "
        "+ ' drafts accepted; newest windows: ' + datum.newest_accepted + ' of ' "
        "+ datum.newest_offered"
    )
    once = alt.Chart().transform_aggregate(pieces="count()")
    spell = once.transform_filter("0 <= spell && spell <= last && first <= spell_end")
    layers = [
        prompts(x, 1),
        spell.mark_rule(color=PALETTE["mismatch"], strokeWidth=5, aria=False).encode(
            x=alt.X(datum=alt.ExprRef("max(first, spell)"), type="quantitative"),
            x2=alt.X2Datum(alt.ExprRef("min(last, spell_end) + 1")),
            y=alt.YValue(_HIGH - 3),
        ),
        own.mark_point(
            shape="square", size=26, filled=True, opacity=1, color=PALETTE["accepted"],
            aria=False,
        ).encode(x=middle, y=y),
        once.transform_filter("overall >= 0")
        .mark_rule(color=INK, strokeDash=[7, 3], aria=False)
        .encode(y=alt.Y(datum=alt.ExprRef("overall"), type="quantitative")),
        newest.mark_line(color=INK, strokeWidth=2, aria=False).encode(
            x=middle, y=y
        ),
        # On top, over the whole height: a share of 0 leaves nothing to click.
        decoded.transform_calculate(says=says)
        .mark_rect(fill="transparent", cursor="pointer")
        .encode(x=x, x2=alt.X2("end:Q"), y=low, y2=high, **spoken()),
        alt.Chart()
        .transform_filter("datum.window === window")
        .mark_rect(fill=None, stroke=INK, strokeWidth=2)
        .encode(x=x, x2=alt.X2("end:Q"), y=low, y2=high),
        noted(WIDE, _HIGH),
    ]  # fmt: skip
    words = Said(
        "Acceptance as it goes",
        "squares: a window's own drafts; line: newest 32 windows; dashes: all; "
        "bar below: a spell of rejections",
        "The share of drafts accepted: of each window, of the newest 32 windows as a "
        "line, of all windows as dashes; a bar below marks a spell of rejections.",
    )
    values = {"window": -1, "first": 0, "last": SPAN - 1}
    values |= {"spell": -1, "spell_end": -1, "overall": -1}
    return finished(layers, words, height=_HIGH, **values)


@functools.cache
def positions() -> alt.LayerChart:
    """What became of the first, second … draft.

    A row of data is a position: `place`, `offered`, `reached`, `accepted`.
    """
    words = Said(
        "Acceptance by position",
        "above: accepted, of offered; tick: accepted of those reached",
        "Stacked bars, one a draft position: the share of drafts that were accepted, "
        "were the first mismatch, or were never reached; a tick at the share of those "
        "reached that were accepted.",
    )
    numbers = [str(place) for place in range(1, MOST_DRAFTS + 1)]
    return _fates("draft (position in its window)", "draft ", numbers, words)


@functools.cache
def matches() -> alt.LayerChart:
    """What became of drafts by the length of the match that they rest on.

    A row of data is a range of lengths: `place`, `offered`, `reached`, `accepted`.
    """
    words = Said(
        "Acceptance by match length",
        "above: accepted, of offered; tick: accepted of those reached",
        "Stacked bars, one a range of match lengths: the share of drafts that were "
        "accepted, were the first mismatch, or were never reached; a tick at the share "
        "of those reached that were accepted.",
    )
    return _fates("match length (tokens)", "match of ", list(BARS), words)


@functools.cache
def keeps() -> alt.LayerChart:
    """Rows kept by drafts offered: observed, and as the formulas expect.

    A row of data is a number of drafts: `drafts`, `windows` (with a natural keep),
    `observed` (or none), `expected`.
    """
    domain = list(range(1, MOST_DRAFTS + 1))
    x = alt.X("drafts:O", title="drafts offered (count)").axis(labelAngle=0)
    x = x.scale(domain=domain)
    y = alt.Y("observed:Q", title="rows kept (mean)").axis(values=[0, 2, 4, 6, 8])
    y = y.scale(domain=[0, 9], nice=False)
    known = alt.Chart().transform_filter("isValid(datum.drafts)")
    says = (
        "datum.drafts + ' drafts: ' + format(datum.expected, '.2f') "
        "+ ' rows expected, ' + (datum.windows > 0 ? format(datum.observed, '.2f') "
        "+ ' kept by ' + datum.windows + ' windows' : 'no window')"
    )
    layers = [
        known.transform_calculate(says=says)
        .mark_bar(color=INK, opacity=0.5)
        .encode(x=x, y=y, **spoken()),
        known.mark_tick(color=INK, thickness=3, size=34, aria=False).encode(
            x=x, y=alt.Y("expected:Q")
        ),
        known.mark_text(fontSize=10, aria=False).encode(
            x=x, y=alt.YDatum(8.6), text=alt.Text("windows:Q")
        ),
        noted(_WIDTH, _HIGH),
    ]
    words = Said(
        "Rows kept, expected and observed",
        "bar: observed; tick: E[keep] of the acceptances; above: windows",
        "Bars, one a number of drafts offered: the mean of rows kept, with a tick at "
        "the keep that the acceptances by position lead to, and the windows above.",
    )
    return finished(layers, words, width=_WIDTH, height=_HIGH)


def _fates(title: str, name: str, domain: list[str], words: Said) -> alt.LayerChart:
    x = alt.X("place:O", title=title).axis(labelAngle=0).scale(domain=domain)
    y = alt.Y("share:Q", title="share of drafts offered (%)")
    y = y.axis(format="%", values=_SHARES).scale(domain=[0, _TOP], nice=False)
    known = alt.Chart().transform_filter("isValid(datum.place)")
    counted = known.transform_calculate(
        mismatch="datum.reached - datum.accepted",
        unreached="datum.offered - datum.reached",
    )
    named = " : ".join(f"datum.fate === '{f}' ? '{WORDS[f]}'" for f in FATES)
    order = " : ".join(f"datum.fate === '{f}' ? {i}" for i, f in enumerate(FATES))
    stacked = counted.transform_fold(list(FATES), as_=["fate", "count"])
    stacked = stacked.transform_calculate(
        verdict=f"{named} : ''",
        order=f"{order} : 9",
        share="datum.count / datum.offered",
    ).transform_calculate(
        says=f"'{name}' + datum.place + ': ' + datum.count + ' of ' + datum.offered "
        "+ ' ' + datum.verdict + '; ' + datum.accepted + ' of ' + datum.reached "
        "+ ' reached were accepted'"
    )
    colour = alt.Color("verdict:N", scale=colour_scale(*FATES))
    ticks = known.transform_filter("datum.reached > 0").transform_calculate(
        chance="datum.accepted / datum.reached"
    )
    # Numbers in two lines stay apart where a bar is narrow.
    label = known.transform_calculate(
        label="[datum.accepted, datum.offered]",
    )
    layers = [
        stacked.mark_bar().encode(
            x=x, y=y, color=colour, order=alt.Order("order:Q"), **spoken()
        ),
        ticks.mark_tick(color=INK, thickness=3, size=34, aria=False).encode(
            x=x, y=alt.Y("chance:Q")
        ),
        label.mark_text(
            fontSize=10, baseline="bottom", lineHeight=11, dy=-12, aria=False
        ).encode(x=x, y=alt.YDatum(1.0), text=alt.Text("label:N")),
        noted(_WIDTH, _HIGH),
    ]  # fmt: skip
    return finished(layers, words, width=_WIDTH, height=_HIGH)
