"""Experts to chart: who chose which, how many are needed, which are in memory.

Pure functions; the drawings are in `expert_drawings`. What is counted was counted
elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import altair as alt

from strata_nb.trace import LayerRecord
from strata_widgets import expert_drawings
from strata_widgets.drawing import INKS, Look, Row, Said, not_empty, with_rows

Presence: TypeAlias = Literal["kept", "used", "read"]

UNION: Final = "union"

PRESENCES: Final[dict[Presence, str]] = {
    "kept": "in a slot, not used",
    "used": "in a slot, used",
    "read": "not there, read",
}
LEGEND: Final = ("in a slot (short: not used)", PRESENCES["read"])


class Point(NamedTuple):
    """A point of a line.

    Attributes:
        name: the line.
        x: where.
        y: how many.
    """

    name: str
    x: float
    y: float


class Mean(NamedTuple):
    """A mean of one layer.

    Attributes:
        panel: what it is of.
        layer: 0-based.
        size: experts.
        tick: what to compare it with.
    """

    panel: str
    layer: int
    size: float
    tick: float


class Piece(NamedTuple):
    """A piece of a bar.

    Attributes:
        bar: its name.
        part: what the piece is.
        size: its length.
    """

    bar: str
    part: str
    size: float


class Held(NamedTuple):
    """What became of an expert in a window.

    Attributes:
        window: counted from 1.
        expert: 0-based.
        presence: whether it had a slot, and whether it was needed.
    """

    window: int
    expert: int
    presence: Presence


@dataclass(frozen=True)
class Axes:
    """The titles of a chart and of its axes.

    Attributes:
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        across: title of the axis below, with its unit.
        up: title of the axis beside, with its unit.
        subtitle: a smaller line.
    """

    title: str
    description: str
    across: str
    up: str
    subtitle: str = ""

    @property
    def said(self) -> Said:
        """What the drawing says of itself."""
        return Said(self.title, self.subtitle, self.description)


def picks(
    layer: LayerRecord, *, experts: int, title: str, subtitle: str = ""
) -> alt.LayerChart:
    """Draw the experts that each row of a window chose, and their union below.

    Args:
        layer: one layer of the window.
        experts: of a layer, E.
        title: one line above.
        subtitle: a smaller line.
    """
    found: list[Row] = []
    before: set[int] = set()
    names = _row_names(len(layer.expert_ids))
    for name, ids in zip(names, layer.expert_ids.tolist(), strict=True):
        chosen = {expert for expert in ids if expert >= 0}
        for expert in sorted(chosen):
            is_root = name == names[0]
            word = "root" if is_root else "again" if expert in before else "new"
            found.append(_pick_row(name, expert, word))
        before |= chosen
    root = {row["expert"] for row in found if row["row"] == names[0]}
    for expert in sorted(before):
        found.append(_pick_row(UNION, expert, "root" if expert in root else "new"))
    drawing = expert_drawings.picks(
        (*names, UNION),
        experts,
        Said(
            title,
            subtitle,
            "A line of ticks for each row of the window, one tick an expert that the "
            "row chose; below them the union, each expert once.",
        ),
    )
    return with_rows(drawing, found)


def lines(
    points: Iterable[Point],
    axes: Axes,
    *,
    bounds: Sequence[str] = (),
    doubling: bool = False,
    percent: bool = False,
) -> alt.LayerChart:
    """Draw lines, up to four of them measured, and what bounds them in grey.

    Args:
        points: in order; each line's from left to right.
        axes: titles.
        bounds: names of lines that are limits or a theory and not measured.
        doubling: the axis below doubles from tick to tick.
        percent: shares, 0.5 is 50 %.

    Raises:
        ValueError: there is nothing to draw, or a description is empty.
    """
    listed = not_empty(list(points), "points")
    names = tuple(dict.fromkeys(p.name for p in listed))
    drawing = expert_drawings.lines(
        tuple(name for name in names if name not in bounds),
        tuple(name for name in names if name in bounds),
        tuple(sorted({p.x for p in listed})),
        1.0 if percent else max(p.y for p in listed),
        (axes.across, axes.up, doubling, percent),
        axes.said,
    )
    return with_rows(drawing, [_point_row(p, percent=percent) for p in listed])


def by_layer(means: Iterable[Mean], axes: Axes) -> alt.FacetChart:
    """Draw a bar a layer, a panel a name, with a tick to compare it with.

    Args:
        means: in order of panels.
        axes: titles.

    Raises:
        ValueError: there is nothing to draw, or a description is empty.
    """
    listed = not_empty(list(means), "means")
    drawing = expert_drawings.by_layer(
        tuple(dict.fromkeys(m.panel for m in listed)),
        tuple(sorted({m.layer for m in listed})),
        max(max(m.size, m.tick) for m in listed),
        (axes.across, axes.up),
        axes.said,
    )
    rows = [_mean_row(m) for m in listed]
    return with_rows(drawing, rows)


def stacks(
    pieces: Iterable[Piece], axes: Axes, *, colours: Mapping[str, Look]
) -> alt.LayerChart:
    """Draw bars that lie, each made of pieces, with the length of each.

    Args:
        pieces: in order.
        axes: titles; `up` is that of the bars.
        colours: of the parts, in the order of the legend: a role, or a look of ink.

    Raises:
        ValueError: there is nothing to draw, a part has no colour, or a description is
            empty.
    """
    listed = not_empty(list(pieces), "pieces")
    for piece in listed:
        if piece.part not in colours:
            raise ValueError(
                f"a piece is {piece.part!r}, and `colours` has {', '.join(colours)}; "
                f"add one for {piece.part!r}"
            )
    bars = tuple(dict.fromkeys(p.bar for p in listed))
    longest = max(sum(p.size for p in listed if p.bar == bar) for bar in bars)
    drawing = expert_drawings.stacks(
        bars, tuple(colours.items()), longest, (axes.across, axes.up), axes.said
    )
    # Nothing would still be drawn as a line, the frame of an empty piece.
    some = [p for p in listed if p.size]
    inked = any(look in INKS for look in colours.values())
    rows = _piece_rows(some, longest, list(colours))
    return with_rows(drawing, _beside(rows) if inked else rows)


def presences(layers: Iterable[tuple[set[int], set[int]]]) -> list[Held]:
    """Say what became of each expert of a layer, window by window.

    Args:
        layers: of each window, the experts in slots as it began, and those it used.
    """
    found: list[Held] = []
    for window, (there, used) in enumerate(layers, 1):
        for expert in sorted(there | used):
            presence: Presence = "kept" if expert not in used else "used"
            presence = "read" if expert not in there else presence
            found.append(Held(window, expert, presence))
    return found


def residency(
    held: Iterable[Held], *, experts: int, title: str, subtitle: str = ""
) -> alt.LayerChart:
    """Draw which experts of a layer are in slots: a column a window, a line an expert.

    Args:
        held: what `presences` gives.
        experts: of a layer, E.
        title: one line above.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw.
    """
    listed = not_empty(list(held), "experts")
    drawing = expert_drawings.residency(
        max(h.window for h in listed),
        experts,
        LEGEND,
        Said(
            title,
            subtitle,
            "A map: a column for each window, a line for each expert; marked are those "
            "in a slot that were used or not, and those that had to be read.",
        ),
    )
    return with_rows(drawing, [_held_row(h) for h in listed])


def _row_names(rows: int) -> list[str]:
    return ["root", *(f"draft {row}" for row in range(1, rows))]


def _pick_row(name: str, expert: int, word: str) -> Row:
    what = expert_drawings.PICKS[word][0]
    says = f"{name}: expert {expert}, {what}"
    return {"row": name, "expert": expert, "what": what, "says": says}


def _point_row(point: Point, *, percent: bool) -> Row:
    shown = f"{point.y:.0%}" if percent else f"{point.y:.1f}"
    says = f"{point.name}: at {point.x:g} {shown}"
    return {"name": point.name, "x": point.x, "y": round(point.y, 4), "says": says}


def _mean_row(mean: Mean) -> Row:
    says = f"{mean.panel}: layer {mean.layer}: {mean.size:.1f}, tick at {mean.tick:.1f}"
    row = {"panel": mean.panel, "layer": mean.layer, "says": says}
    return {**row, "size": round(mean.size, 3), "tick": round(mean.tick, 3)}


def _piece_rows(pieces: Sequence[Piece], longest: float, order: list[str]) -> list[Row]:
    rows: list[Row] = []
    ends: dict[str, float] = {}
    digits = 0 if all(piece.size == int(piece.size) for piece in pieces) else 1
    for piece in sorted(pieces, key=lambda p: order.index(p.part)):
        begin = ends.get(piece.bar, 0.0)
        ends[piece.bar] = begin + piece.size
        shown = f"{piece.size:,.{digits}f}"
        row = {"bar": piece.bar, "part": piece.part, "size": round(piece.size, 3)}
        # A piece too short for its number has it in words alone.
        fits = piece.size > 0.022 * longest * (1 + len(shown))
        place = {"begin": round(begin, 3), "end": round(begin + piece.size, 3)}
        says = f"{piece.bar}: {shown} {piece.part}"
        label = {"label": shown if fits else "", "shown": shown}
        rows.append({**row, **place, **label, "says": says})
    return rows


def _beside(rows: list[Row]) -> list[Row]:
    """The numbers of a bar in one text at its end: none can be read on solid ink."""
    ends = {row["bar"]: row for row in rows}
    for row in rows:
        own = [one["shown"] for one in rows if one["bar"] == row["bar"]]
        row["label"] = " + ".join(own) if row is ends[row["bar"]] else ""
    return rows


def _held_row(held: Held) -> Row:
    what = PRESENCES[held.presence]
    says = f"window {held.window}: expert {held.expert}, {what}"
    return {
        "window": held.window,
        "expert": held.expert,
        "what": LEGEND[held.presence == "read"],
        "used": held.presence != "kept",
        "says": says,
    }
