"""The four charts of slots and reads, without rows; a column is a window."""

import functools
from typing import Any, Final

import altair as alt

from strata_widgets.drawing import (
    DASHES,
    INK,
    INKS,
    WIDE,
    Said,
    drawn_as,
    noted,
    spoken,
)
from strata_widgets.layers import BY_WINDOW, finished, span, whole
from strata_widgets.slots_io.counts import HERE, LATE, READ

WANTED: Final = "wanted"
AHEAD: Final = "ahead of need"
WAIT: Final = "waited for experts"
HITS: Final = "in a slot, all layers"
OWN: Final = "in a slot, selected layer"
GONE: Final = "lost their slot"

_HEIGHT: Final = 110
_LOW: Final = 60
_SAID: Final = "'window ' + datum.window + ': ' + "


@functools.cache
def wanted() -> alt.LayerChart:
    """What the experts that a window wanted were: in a slot, late, or read.

    A row of data is a window: `window`, `here`, `late`, `read`, and `gone` (evicted),
    where they were measured.
    """
    begin = {
        "begin": "{here: 0, late: datum.here, read: datum.here + datum.late}"
        "[datum.piece]",
        "who": f"{{here: '{HERE}', late: '{LATE}', read: '{READ}'}}[datum.piece]",
    }
    # Ink cannot be seen on ink: the line has a place beside the bar.
    bars = _pieces(["here", "late", "read"], begin, right=0.72).encode(
        x=_window("left:Q"),
        x2=alt.X2("right:Q"),
        y=_count("begin:Q", "experts (count)", "most"),
        y2=alt.Y2("end:Q"),
        # No hues: those of the palette say what became of drafts.
        **drawn_as(
            "who:N",
            {HERE: "light", LATE: "hollow", READ: "solid"},
            named=f"late ? {[HERE, LATE, READ]} : {[HERE, READ]}",
        ),
        **spoken(),
    )
    gone = (
        alt.Chart()
        .transform_filter("isValid(datum.gone)")
        .transform_calculate(
            says=_SAID + f"datum.gone + ' {GONE}'",
            left="datum.window + 0.76",
            right="datum.window + 1",
        )
        .mark_rule(color=INK, strokeWidth=2)
        .encode(
            x=_window("left:Q"),
            x2=alt.X2("right:Q"),
            y=_count("gone:Q", "experts (count)", "most"),
            **spoken(),
        )
    )
    return _finished(
        [bars, gone],
        Said(
            "Experts that a window wanted",
            f"all layers together; line beside: experts that {GONE}; click a window",
            "Bars by window: how many experts of all layers were in a slot when they "
            "were wanted, late (on their way), or read; a line at those that lost "
            "their slot.",
        ),
        most=16,
        late=False,
    )


@functools.cache
def reads() -> alt.LayerChart:
    """Bytes that a window read: those that were waited for, and those ahead of need.

    A row of data is a window: `window`, `wanted`, `ahead`, where they were measured.
    """
    begin = {
        "begin": "datum.piece === 'wanted' ? 0 : datum.wanted",
        "who": f"datum.piece === 'wanted' ? '{WANTED}' : '{AHEAD}'",
    }
    says = _SAID + "format(datum.size, ',') + ' bytes ' + datum.who"
    bars = _pieces(["wanted", "ahead"], begin, says=says).encode(
        x=_window("left:Q"),
        x2=alt.X2("right:Q"),
        y=_count("begin:Q", "read (bytes)", "bytes", format="~s"),
        y2=alt.Y2("end:Q"),
        **drawn_as(
            "who:N",
            {WANTED: "solid", AHEAD: "hollow"},
            named=f"ahead ? {[WANTED, AHEAD]} : {[WANTED]}",
        ),
        **spoken(),
    )
    return _finished(
        [bars],
        Said(
            "Bytes read by a window",
            "k: a thousand, M: a million",
            "Bars by window: bytes read because a layer waited for them, and bytes "
            "read ahead of need.",
        ),
        bytes=1000,
        ahead=False,
    )


@functools.cache
def shares() -> alt.LayerChart:
    """Hit rate, of all layers and of the selected one, and the share of time waited.

    A row of data is a window: `window`, `hits`, `own`, `wait`, each 0 to 1, where they
    were measured.
    """
    names: list[str | alt.FieldName] = ["hits", "own", "wait"]
    made = (
        alt.Chart()
        .transform_filter("isValid(datum.window)")
        .transform_fold(names, as_=["piece", "share"])
        .transform_filter("isValid(datum.share)")
        .transform_calculate(
            who=f"{{hits: '{HITS}', own: '{OWN}', wait: '{WAIT}'}}[datum.piece]",
            middle="datum.window + 0.5",
        )
        .transform_calculate(
            says=_SAID + "format(datum.share, '.0%') + ' ' + datum.who"
        )
    )
    x = _window("middle:Q")
    y = alt.Y("share:Q", title="share (%)").axis(
        format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=True
    )
    y = y.scale(domain=[0, 1], nice=False, clamp=True)
    domain = [HITS, OWN, WAIT]
    dashes = [list(DASHES[at]) for at in (0, 2, 1)]
    named = alt.ExprRef(f"layer >= 0 ? {domain} : {[HITS, WAIT]}")
    legend = alt.Legend(
        symbolType="stroke", symbolSize=300, symbolStrokeWidth=2, values=named
    )
    dash = alt.StrokeDash(
        "who:N", scale=alt.Scale(domain=domain, range=dashes), legend=legend
    )
    line = made.mark_line(strokeWidth=2, color=INK, aria=False)
    lines = line.encode(x=x, y=y, strokeDash=dash)
    # A window alone is no line; and these can be clicked and read.
    points = made.mark_point(
        size=24, cursor="pointer", filled=True, opacity=1, color=INK
    )
    dots = points.encode(x=x, y=y, **spoken())
    return _finished(
        [lines, dots],
        Said(
            "Hits and waits",
            "of the wanted experts, and of the time of run",
            "Lines by window: the share of wanted experts that were in a slot, of all "
            "layers and of the selected one, and the share of the time of run that "
            "was spent waiting for experts.",
        ),
        layer=-1,
    )


@functools.cache
def overview() -> alt.LayerChart:
    """Hit rate over the whole run.

    A row of data is a piece of the run: `from`, `to` (window indices, `to` is not in
    it), `hits` (0 to 1) and `bytes` (read, the mean of a window, where measured).
    """
    x = whole("from:Q", "windows", BY_WINDOW)
    y = alt.Y("hits:Q", title="in a slot (%)").scale(domain=[0, 1], nice=False)
    bars = (
        alt.Chart()
        .transform_filter("isValid(datum.hits)")
        .transform_calculate(
            says="'windows ' + datum.from + ' to ' + (datum.to - 1) + ': ' "
            "+ format(datum.hits, '.0%') + ' in a slot' + (isValid(datum.bytes) "
            "? ', ' + format(datum.bytes, ',.0f') + ' bytes a window' : '')"
        )
        .mark_rect(color=INK, opacity=INKS["light"].opacity)
        .encode(
            x=x,
            x2=alt.X2("to:Q"),
            y=y.axis(format="%", values=[0, 0.5, 1]),
            y2=alt.Y2Datum(0),
            **spoken(),
        )
    )
    chosen = (
        alt.Chart()
        .transform_aggregate(pieces="count()")
        .transform_filter("window >= 0 && window < windows")
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x=alt.X(datum=alt.ExprRef("window + 0.5"), type="quantitative"))
    )
    layers = [bars, chosen, noted(WIDE, _LOW)]
    words = Said(
        "The whole run",
        "share of wanted experts that were in a slot",
        "The share of wanted experts that were in a slot, over the whole run.",
    )
    return finished(layers, words, height=_LOW, window=-1, windows=0)


def _pieces(
    names: list[str | alt.FieldName],
    begin: dict[str, str],
    *,
    says: str = _SAID + "datum.size + ' ' + datum.who",
    right: float = 0.92,
) -> alt.Chart:
    """A box for each number of a window, one above the other."""
    made: alt.Chart = (
        alt.Chart()
        .transform_filter("isValid(datum.window)")
        .transform_fold(names, as_=["piece", "size"])
        .transform_filter("isValid(datum.size) && datum.size > 0")
        .transform_calculate(**begin)
        .transform_calculate(
            end="datum.begin + datum.size",
            left="datum.window + 0.08",
            right=f"datum.window + {right}",
            says=says,
        )
        .mark_rect(cursor="pointer")
    )
    return made


def _window(field: str) -> alt.X:
    return span(field, BY_WINDOW)


def _count(field: str, title: str, most: str, *, format: str = "d") -> alt.Y:
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef(most), nice=False)
    y: alt.Y = alt.Y(field, title=title, scale=scale).axis(format=format, tickCount=4)
    return y


def _finished(marks: list[alt.Chart], words: Said, **more: int) -> alt.LayerChart:
    """`marks` over what a click beside them finds, and what is selected."""
    column = {"left": "datum.window", "right": "datum.window + 1"}
    whole: dict[str, Any] = {
        "x": _window("left:Q"),
        "x2": "right:Q",
        "y": alt.value(0),
        "y2": alt.value(_HEIGHT),
    }
    room = (
        alt.Chart()
        .transform_filter("isValid(datum.window)")
        .transform_calculate(**column)
        .mark_rect(fill="transparent", cursor="pointer", aria=False)
        .encode(**whole)
    )
    chosen = (
        alt.Chart()
        .transform_filter("datum.window === window")
        .transform_calculate(**column)
        .mark_rect(fill=None, stroke=INK, strokeWidth=2, aria=False)
        .encode(**whole)
    )
    layers = [room, *marks, chosen, noted(WIDE, _HEIGHT)]
    return finished(layers, words, height=_HEIGHT, window=-1, first=0, last=15, **more)
