"""The fold's chart, without rows: what became of each row of a window."""

from typing import Final

import altair as alt

from strata_nb.refusals import MAX_ROWS
from strata_widgets.drawing import (
    INK,
    WIDE,
    Row,
    Said,
    noted,
)
from strata_widgets.layers import boxes, finished
from strata_widgets.theme import PALETTE

WIDTH: Final = WIDE - 60
LINES: Final = ("run begins", "run", "commit", "next run")
TAKEN, ROOT, SAVED, REJECTED = (
    "in S",
    "state after row 0 (partial)",
    "saved, replayed if kept",
    "rejected (✗)",
)

_COLOURS: Final = {
    TAKEN: INK,
    ROOT: PALETTE["root"],
    SAVED: PALETTE["added"],
    REJECTED: PALETTE["mismatch"],
}
_LINE: Final = 30


def rows_of_the_window() -> alt.LayerChart:
    """Rows of the window across, from the beginning of its run to the next run down.

    A row of data is a box: `line`, `row`, `end` (the row after its last), `text`,
    `state`, `replayed` (now), `window` (whose rows these are). The lines have their
    names from rows of their own, `labels()`.
    """
    height = _LINE * len(LINES)
    x = alt.X("left:Q", title="row of the window (index)")
    x = x.scale(domain=[-0.5, MAX_ROWS - 0.5], nice=False)
    x = x.axis(values=list(range(MAX_ROWS)), format="d", grid=False, ticks=False)
    y = alt.Y("top:Q", title="moment, in order")
    y = y.scale(domain=[len(LINES) - 0.5, -0.5], nice=False)
    y = y.axis(labels=False, ticks=False, grid=False, titlePadding=72)
    place = (
        alt.Chart()
        .transform_filter("isValid(datum.state)")
        .transform_calculate(
            left="datum.row - 0.45",
            right="datum.end - 0.55",
            top="datum.line - 0.42",
            bottom="datum.line + 0.42",
            middle="(datum.row + datum.end - 1) / 2",
            says=f"{list(LINES)}[datum.line] + ': window ' + datum.window + ', row ' "
            "+ datum.row + ': ' + datum.text + ', ' + datum.state",
        )
    )
    frame = place.transform_filter("datum.replayed").mark_rect(
        fill=None, stroke=INK, strokeWidth=3.5, aria=False
    )
    named = alt.Chart().transform_filter("isValid(datum.label)")
    label = named.mark_text(align="right", aria=False)
    text = place.mark_text(aria=False, cursor="pointer")
    layers = [
        *boxes(place, x, y, colours=_COLOURS, wrong=REJECTED),
        frame.encode(x=x, x2=alt.X2("right:Q"), y=y, y2=alt.Y2("bottom:Q")),
        text.encode(x=alt.X("middle:Q"), y=alt.Y("line:Q"), text=alt.Text("text:N")),
        label.encode(x=alt.XValue(-8), y=alt.Y("line:Q"), text=alt.Text("label:N")),
        noted(WIDTH, height),
    ]
    words = Said(
        "What becomes of each row",
        "thick frame: replayed now; run begins with what the window before left due",
        "A grid: rows of a window across, and down what its run begins with, the run, "
        "the commit and the next run. A row is in the memory S, saved, or rejected.",
    )
    return finished(layers, words, width=WIDTH, height=height, window=-1)


def labels() -> list[Row]:
    """The rows that name the lines."""
    return [{"line": line, "label": label} for line, label in enumerate(LINES)]
