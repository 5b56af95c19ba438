"""The tail's two charts, without rows: slots over time, and what each block pools."""

from typing import Any, Final

import altair as alt

from strata_widgets.drawing import INK, Said
from strata_widgets.layers import boxes, finished
from strata_widgets.state_charts import STATES
from strata_widgets.state_drawings import COLOURS, State

MOMENTS: Final = 14
"""Columns: before, eight rows, the commit, and four right rows at most."""
LINES: Final = 5
"""Blocks that a window can touch, and the one before."""

_SLOT: Final = 28
_LINE: Final = 24
_NAMES: Final = 66
_GAP: Final = 0.05
_HALF: Final = 0.5 - _GAP


def slots(ratio: int) -> alt.LayerChart:
    """Slots down, moments across; a box says whose key lies there.

    A row of data is a moment: `at`, `name`, `under`, `pooled` (a block was), and the
    arrays `slot`, `text`, `state`, `cell`, one entry a slot.

    Args:
        ratio: slots.
    """
    x = alt.X("left:Q", title="what happens, in order; below it the cell written")
    x = x.scale(domain=[0, MOMENTS], nice=False)
    x = x.axis(labels=False, ticks=False, grid=False, titlePadding=30)
    y = alt.Y("top:Q", title="slot (cell modulo R)")
    y = y.scale(domain=[ratio - 0.5, -0.5], nice=False)
    y = y.axis(
        values=list(range(ratio)),
        format="d",
        labelOverlap=False,
        grid=False,
        ticks=False,
    )
    shown = alt.Chart().transform_filter("datum.at <= moment")
    flat = shown.transform_flatten(["slot", "text", "state", "cell"])
    place = flat.transform_calculate(
        left=f"datum.at + {_GAP}",
        right=f"datum.at + {1 - _GAP}",
        top=f"datum.slot - {_HALF}",
        bottom=f"datum.slot + {_HALF}",
        middle="datum.at + 0.5",
        centre="datum.slot",
        says="datum.name + ' ' + datum.under + ': slot ' + datum.slot + ': ' "
        "+ (datum.text || 'nothing') + ', ' + datum.state",
    )
    columns = shown.transform_calculate(left="datum.at", right="datum.at + 1")
    framed = columns.transform_filter("datum.pooled").mark_rect(
        fill=None, stroke=INK, strokeWidth=3.5, aria=False
    )
    now = columns.transform_filter("datum.at === moment").mark_rule(
        color=INK, strokeWidth=4, aria=False
    )
    layers = [
        *_boxes(place, x, y),
        framed.encode(
            x=x, x2=alt.X2("right:Q"), y=alt.YValue(0), y2=alt.Y2Value(_SLOT * ratio)
        ),
        now.encode(x=x, x2=alt.X2("right:Q"), y=alt.YValue(-5)),
        _word("name", _SLOT * ratio + 12),
        _word("under", _SLOT * ratio + 25),
    ]
    words = Said(
        "Which cell's key lies in which slot",
        "thick frame: these are pooled; filled: the selected cell",
        "A column a moment of one window, a box a slot: the cell whose raw key lies "
        "there, committed, of the open window, or left by a rejected row.",
    )
    return finished(layers, words, height=_SLOT * ratio, moment=0, cell=-1)


def blocks(ratio: int) -> alt.LayerChart:
    """What each block pools, a line a block, at one moment.

    A row of data is a block at a moment: `at`, `line`, `block`, `verdict`, and the
    arrays `slot`, `text`, `state`, `cell`, one entry a key.

    Args:
        ratio: keys of a block.
    """
    wide = min(44, 200 // ratio)
    edge = _NAMES + wide * ratio
    x = alt.X("left:Q", title="place in the block (cell modulo R)")
    x = x.scale(domain=[-0.5, ratio - 0.5], range=[_NAMES, edge], nice=False)
    x = x.axis(
        values=list(range(ratio)),
        format="d",
        labelOverlap=False,
        grid=False,
        ticks=False,
        domain=False,
        titleAnchor="start",
    )
    y = alt.Y("top:Q", title="block (index)")
    y = y.scale(domain=[LINES, 0], nice=False)
    y = y.axis(labels=False, ticks=False, grid=False)
    shown = alt.Chart().transform_filter("datum.at === moment")
    flat = shown.transform_flatten(["slot", "text", "state", "cell"])
    place = flat.transform_calculate(
        left=f"datum.slot - {_HALF}",
        right=f"datum.slot + {_HALF}",
        top=f"datum.line + {_GAP}",
        bottom=f"datum.line + {1 - _GAP}",
        middle="datum.slot",
        centre="datum.line + 0.5",
        says="'block ' + datum.block + ', place ' + datum.slot + ': ' "
        "+ (datum.text || 'nothing') + ', ' + datum.state",
    )
    lines = shown.transform_calculate(
        centre="datum.line + 0.5", label="'block ' + datum.block"
    )
    label = lines.mark_text(align="right", aria=False)
    verdict = lines.mark_text(align="left", aria=False)
    layers = [
        *_boxes(place, x, y),
        label.encode(
            x=alt.XValue(_NAMES - 8), y=alt.Y("centre:Q"), text=alt.Text("label:N")
        ),
        verdict.encode(
            x=alt.XValue(edge + 8), y=alt.Y("centre:Q"), text=alt.Text("verdict:N")
        ),
    ]
    words = Said(
        "What each block pools at this moment",
        "the keys that went into the pooled key, and the block that is still open",
        "A line a block: the cells whose raw keys it pools, and whether they are its "
        "own.",
    )
    return finished(layers, words, height=_LINE * LINES, moment=0, cell=-1)


def _boxes(place: alt.Chart, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Boxes in the colour of their state, what is wrong dashed, with their text."""
    states: list[State] = ["committed", "drafted", "rejected", "free"]
    colours = {STATES[state]: COLOURS[state] for state in states}
    chosen = place.transform_filter("cell >= 0 && datum.cell === cell").mark_rect(
        fill=INK, fillOpacity=0.3, aria=False
    )
    size: Any = alt.ExprRef("datum.text.length > 5 ? 8 : 11")
    text = place.mark_text(fontSize=size, aria=False, cursor="pointer")
    return [
        *boxes(place, x, y, colours=colours, wrong=STATES["rejected"]),
        chosen.encode(x=x, x2=alt.X2("right:Q"), y=y, y2=alt.Y2("bottom:Q")),
        text.encode(x=alt.X("middle:Q"), y=alt.Y("centre:Q"), text=alt.Text("text:N")),
    ]


def _word(field: str, y: int) -> alt.Chart:
    """A word below each column, as an axis would have it."""
    centred = alt.Chart().transform_calculate(middle="datum.at + 0.5")
    made: alt.Chart = centred.mark_text(fontSize=10, aria=False).encode(
        x=alt.X("middle:Q"), y=alt.YValue(y), text=f"{field}:N"
    )
    return made
