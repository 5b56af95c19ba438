"""State to chart: what lies where, cell by cell, and how far it is from right.

Pure functions; what a box holds and how large a distance is was found out elsewhere.
Equal moments and places give equal drawings, so that a picture in which only a fault
is switched moves nothing but its boxes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from strata_widgets import state_drawings
from strata_widgets.drawing import Said, not_empty, with_rows
from strata_widgets.state_drawings import LINE, State

STATES: Final[dict[State, str]] = {
    "committed": "committed",
    "drafted": "row of the open window",
    "rejected": "rejected (✗) or misplaced (!)",
    "free": "does not count",
}


@dataclass(frozen=True)
class Box:
    """What lies in one place at one moment.

    Attributes:
        moment: the column; `|` breaks the line.
        place: the row of boxes.
        text: what is written into the box; a few letters.
        state: gives the box its colour.
        framed: drawn with a thick frame: what is used at this moment.
    """

    moment: str
    place: str
    text: str
    state: State
    framed: bool = False


@dataclass(frozen=True)
class Distance:
    """How far a layer's state is from what it should be, at one moment.

    Attributes:
        moment: the panel.
        layer: 0-based.
        size: of the difference, as a share of the right one: 0.5 is 50 %.
        part: the line of panels; the same for all where there is one part only.
    """

    moment: str
    layer: int
    size: float
    part: str = ""


@dataclass(frozen=True)
class Gap:
    """Largest difference between two engines at one cell.

    Attributes:
        cell: absolute.
        what: the line that it belongs to.
        size: 0 for none.
    """

    cell: int
    what: str
    size: float


@dataclass(frozen=True)
class Share:
    """So many of so many.

    Attributes:
        name: the bar.
        count: how many.
        total: of how many.
    """

    name: str
    count: int
    total: int


@dataclass(frozen=True)
class Price:
    """Tokens that a window brings.

    Attributes:
        rule: the bar: how many rows a window may have.
        acceptance: chance that a draft is right once those before it are, 0 to 1.
        tokens: emitted by a window, on average.
    """

    rule: str
    acceptance: float
    tokens: float


def boxes(
    filled: Iterable[Box],
    *,
    title: str,
    description: str,
    subtitle: str = "",
    across: str = "what happens, in order",
    down: str = "place",
    legend: Mapping[State, str] = STATES,
) -> alt.LayerChart:
    """Draw what lies where: a column a moment, a row a place.

    Args:
        filled: in order; moments and places stand in the order they first come in.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.
        across: title of the axis below.
        down: title of the axis beside.
        legend: what the states are called here; a state without a word has no box.

    Raises:
        ValueError: there is no box, a box has a state without a word, or
            `description` is empty.
    """
    listed = not_empty(list(filled), "boxes")
    for box in listed:
        if box.state not in legend:
            raise ValueError(
                f"a box is {box.state!r}, and `legend` has words for "
                f"{', '.join(legend)}; add one for {box.state!r}"
            )
    drawing = state_drawings.boxes(
        tuple(dict.fromkeys(b.moment for b in listed)),
        tuple(dict.fromkeys(b.place for b in listed)),
        tuple(legend.items()),
        (across, down),
        Said(title, subtitle, description),
    )
    return with_rows(drawing, [_box_row(b, legend[b.state]) for b in listed])


def distances(
    found: Iterable[Distance],
    *,
    title: str,
    description: str,
    subtitle: str = "",
    highest: float = 1.0,
) -> alt.FacetChart:
    """Draw how far each layer is from right, a panel a moment.

    Args:
        found: in order of moments.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.
        highest: end of the axis, as a share; what is larger is cut and its number
            stays.

    Raises:
        ValueError: there is no distance, or `description` is empty.
    """
    listed = not_empty(list(found), "distances")
    drawing = state_drawings.distances(
        tuple(dict.fromkeys(d.moment for d in listed)),
        tuple(dict.fromkeys(d.part for d in listed)),
        tuple(sorted({d.layer for d in listed})),
        highest,
        Said(title, subtitle, description),
    )
    rows = [_distance_row(d, highest) for d in listed]
    return with_rows(drawing, rows)


def gaps(
    found: Iterable[Gap],
    *,
    mark: int,
    mark_says: str,
    title: str,
    description: str,
    subtitle: str = "",
) -> alt.LayerChart:
    """Draw differences cell by cell, with a rule before cell `mark`.

    Args:
        found: one or two lines of differences.
        mark: the cell at which something begins.
        mark_says: what begins there, in a few words.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is no difference, or `description` is empty.
    """
    listed = not_empty(list(found), "gaps")
    cells = [g.cell for g in listed]
    drawing = state_drawings.gaps(
        tuple(dict.fromkeys(g.what for g in listed)),
        (min(cells), max(cells)),
        max(2.0, 1.5 * max(g.size for g in listed)),
        Said(title, subtitle, description),
    )
    rule = {"mark": mark, "label": mark_says}
    return with_rows(drawing, [*(_gap_row(g) for g in listed), rule])


def shares(
    counted: Iterable[Share],
    *,
    title: str,
    description: str,
    subtitle: str = "",
    unit: str = "cases that fail (count)",
) -> alt.LayerChart:
    """Draw how many of how many, a bar each, with its numbers.

    Args:
        counted: in order, from the top.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.
        unit: what is counted.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    listed = not_empty(list(counted), "shares")
    drawing = state_drawings.shares(
        tuple(dict.fromkeys(s.name for s in listed)),
        max(s.total for s in listed),
        unit,
        Said(title, subtitle, description),
    )
    return with_rows(drawing, [_share_row(s) for s in listed])


def prices(
    found: Iterable[Price], *, title: str, description: str, subtitle: str = ""
) -> alt.FacetChart:
    """Draw tokens per window by rule, a panel an acceptance.

    Args:
        found: in order.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    listed = not_empty(list(found), "prices")
    drawing = state_drawings.prices(
        tuple(dict.fromkeys(p.rule for p in listed)),
        max(p.tokens for p in listed),
        Said(title, subtitle, description),
    )
    rows = [_price_row(p) for p in listed]
    return with_rows(drawing, rows)


def _box_row(box: Box, word: str) -> dict[str, Any]:
    used = ", used now" if box.framed else ""
    moment = " ".join(box.moment.split(LINE))
    says = f"{moment}: {box.place}: {box.text or 'nothing'}, {word}{used}"
    row = {"moment": box.moment, "place": box.place, "text": box.text}
    wrong = box.state == "rejected"
    seen = {"state": word, "wrong": wrong, "framed": box.framed, "says": says}
    return {**row, **seen}


def _distance_row(distance: Distance, highest: float) -> dict[str, Any]:
    label = _percent(distance.size)
    moment = " ".join(distance.moment.split(LINE))
    part = f"{distance.part}: " if distance.part else ""
    says = f"{moment}: {part}layer {distance.layer}: {label} %"
    drawn = round(min(distance.size, highest), 6)
    row = {"moment": distance.moment, "part": distance.part, "layer": distance.layer}
    return {**row, "drawn": drawn, "label": label, "says": says}


def _percent(size: float) -> str:
    """Return a share in per cent; 0 only where there is no difference at all."""
    if size == 0:
        return "0"
    shown = f"{100 * size:.0f}"
    return shown if shown != "0" else "<1"


def _gap_row(gap: Gap) -> dict[str, Any]:
    says = f"cell {gap.cell}: {gap.what}: {gap.size:.1e}"
    return {"cell": gap.cell, "what": gap.what, "size": gap.size, "says": says}


def _share_row(share: Share) -> dict[str, Any]:
    label = f"{share.count:,} of {share.total:,}"
    row = {"name": share.name, "count": share.count, "label": label}
    return {**row, "says": f"{share.name}: {label}"}


def _price_row(price: Price) -> dict[str, Any]:
    panel, label = f"acceptance {price.acceptance:g}", f"{price.tokens:.2f}"
    row = {"rule": price.rule, "panel": panel, "tokens": round(price.tokens, 4)}
    says = f"{panel}: {price.rule}: {label} tokens per window"
    return {**row, "label": label, "says": says}
