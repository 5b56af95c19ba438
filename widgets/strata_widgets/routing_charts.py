"""Approximate routing to chart: how a row votes, who is chosen, and what it costs.

Pure functions; the drawings are in `routing_drawings`. None draws without the word
approximate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import altair as alt
import numpy as np
import numpy.typing as npt

from strata_nb.gates.gate_5.comparison import APPROXIMATE, Comparison
from strata_widgets import routing_drawings
from strata_widgets.drawing import Look, Row, not_empty, with_rows
from strata_widgets.expert_charts import Axes

Ids: TypeAlias = Sequence[int]

COST: Final = (
    "cross entropy (nats more)",
    "another best token (% of rows)",
    "divergence from the exact model (KL, nats)",
)


class Mark(NamedTuple):
    """An expert that somebody has.

    Attributes:
        panel: of the chart.
        name: the line.
        expert: 0-based.
        what: the kind of mark, one of the legend.
    """

    panel: str
    name: str
    expert: int
    what: str


class Weight(NamedTuple):
    """How much an expert counts.

    Attributes:
        expert: 0-based.
        what: under which rule, one of the legend.
        share: 0 to 1.
    """

    expert: int
    what: str
    share: float


@dataclass(frozen=True)
class Vote:
    """What a row chose, and from what.

    Attributes:
        logits: of the router, [E].
        ready: experts that had a slot, bool [E].
        chosen: experts, [K].
        protect: strongest experts that are chosen in any case.
        bonus: added to the logits of ready experts.
    """

    logits: npt.NDArray[np.floating[Any]]
    ready: npt.NDArray[np.bool_]
    chosen: Ids
    protect: int
    bonus: float


def ballot(vote: Vote, *, title: str, subtitle: str, shown: int = 20) -> alt.LayerChart:
    """Draw a row's logits by rank, the bonus of ready experts, and what was chosen.

    Args:
        vote: of one row.
        title: one line above.
        subtitle: the policy's name.
        shown: ranks, at least; all that were chosen are shown.

    Raises:
        ValueError: the word approximate is missing.
    """
    order = np.argsort(-vote.logits, kind="stable").tolist()
    last = max(order.index(expert) for expert in vote.chosen)
    ranks = min(len(order), max(shown, last + 2))
    rows = [_ballot_row(vote, rank, order[rank]) for rank in range(ranks)]
    open_seats = [r["raised"] for r in rows if r["what"] in ("ready", "cold")]
    for row in rows:
        row["what"] = routing_drawings.VOTES[row["what"]][0]
    places = [row["raised"] for row in rows] + [row["logit"] for row in rows]
    drawing = routing_drawings.ballot(
        tuple(row["name"] for row in rows),
        len(vote.chosen),
        min(open_seats, default=None),
        (min(places), max(places)),
        Axes(
            title,
            "Points by rank: the logit of each expert of one row, raised by a bonus "
            "where it has a slot; marked are those protected, chosen or left out.",
            "logit of the router, with the bonus (no unit)",
            "natural rank: expert (index)",
            _approximate(subtitle),
        ),
    )
    return with_rows(drawing, rows)


def weights(
    found: Iterable[Weight], *, title: str, subtitle: str, colours: Mapping[str, Look]
) -> alt.LayerChart:
    """Draw how much each expert counts under up to three rules.

    Args:
        found: in order of the lines.
        title: one line above.
        subtitle: the policy's name.
        colours: of the rules, in the order of the legend.

    Raises:
        ValueError: there is nothing to draw, or the word approximate is missing.
    """
    listed = not_empty(list(found), "weights")
    drawing = routing_drawings.weights(
        tuple(dict.fromkeys(w.expert for w in listed)),
        tuple(colours.items()),
        max(w.share for w in listed),
        Axes(
            title,
            "Points by expert: its weight in the natural choice, in the approximate "
            "one, and as it would be if the bonus stayed in.",
            "weight (share)",
            "expert (index)",
            _approximate(subtitle),
        ),
    )
    return with_rows(drawing, [_weight_row(w) for w in listed])


def marks(
    found: Iterable[Mark], axes: Axes, *, experts: int, colours: Mapping[str, Look]
) -> alt.FacetChart:
    """Draw ticks by expert, a line a name, a panel below the other.

    Args:
        found: in order of panels and lines.
        axes: titles; `up` is that of the lines.
        experts: of a layer, E.
        colours: of the kinds of marks, in the order of the legend.

    Raises:
        ValueError: there is nothing to draw, or the word approximate is missing.
    """
    listed = not_empty(list(found), "experts")
    _approximate(axes.subtitle)
    drawing = routing_drawings.marks(
        tuple(dict.fromkeys(m.panel for m in listed)),
        tuple(dict.fromkeys(m.name for m in listed)),
        experts,
        tuple(colours.items()),
        axes,
    )
    return with_rows(drawing, [_mark_row(m) for m in listed])


def price(found: Iterable[tuple[str, str, Comparison]], axes: Axes) -> alt.FacetChart:
    """Draw what each setting of a policy costs in quality, against its misses.

    Misses are per cent of the exact model's on the same text. There is no drawing of
    misses alone: what comes in is a comparison, which has quality in it.

    Args:
        found: a line, a setting, named shortly, and its comparison on one text.
        axes: titles; the panels say what is beside them.

    Raises:
        ValueError: there is nothing to draw, the word approximate is missing, or a
            comparison is not on one text whose experts were in slots.
    """
    listed = not_empty(list(found), "comparisons")
    _approximate(axes.subtitle)
    rows = _sided(_labelled([row for each in listed for row in _price_rows(*each)]))
    drawing = routing_drawings.price(
        COST, tuple(dict.fromkeys(r["line"] for r in rows)), axes
    )
    return with_rows(drawing, rows)


def _ballot_row(vote: Vote, rank: int, expert: int) -> Row:
    ready = bool(vote.ready[expert])
    logit = float(vote.logits[expert])
    protected = rank < min(vote.protect, len(vote.chosen))
    what = "ready" if ready else "cold"
    if protected:
        what = "protected"
    elif expert not in vote.chosen:
        what = "left"
    bonus = vote.bonus if ready and not protected else 0.0
    place = "in a slot" if ready else "not there"
    said = f"rank {rank + 1}: expert {expert}, {place}"
    words = routing_drawings.VOTES[what][0]
    plus = f" and {bonus:g}" if bonus else ""
    return {
        "name": f"{rank + 1}: {expert}",
        "logit": round(logit, 3),
        "raised": round(logit + bonus, 3),
        "what": what,
        "says": f"{said}: {logit:.2f}{plus}, {words}",
    }


def _weight_row(weight: Weight) -> Row:
    says = f"expert {weight.expert}, {weight.what}: {weight.share:.3f}"
    share = round(weight.share, 4)
    return {"expert": weight.expert, "what": weight.what, "share": share, "says": says}


def _mark_row(mark: Mark) -> Row:
    says = f"{mark.panel}: {mark.name}: expert {mark.expert}, {mark.what}"
    return {**mark._asdict(), "says": says}


def _price_rows(line: str, setting: str, found: Comparison) -> list[Row]:
    if len(found.quality) != 1 or not found.exact_work.misses:
        raise ValueError(
            f"a price is of one text whose experts are in slots, got "
            f"{', '.join(found.quality)} with {found.exact_work.misses} misses; "
            "compare text by text, and let `begin` give a model with slots"
        )
    (quality,) = found.quality.values()
    misses = 100 * found.work.misses / found.exact_work.misses
    others = 100 * (1 - quality.agreement)
    costs = (quality.nats - quality.exact_nats, others, quality.kl)
    rows = []
    for panel, cost in zip(COST, costs, strict=True):
        row: Row = {"panel": panel, "line": line, "setting": setting}
        row |= {"misses": round(misses, 2), "cost": round(cost, 4)}
        says = f"{line}, {setting}: {misses:.0f} % of the misses"
        rows.append({**row, "says": f"{says}, {cost:.2f} {panel}"})
    return rows


def _labelled(rows: list[Row]) -> list[Row]:
    """`rows` with one label for all settings that came to the same point."""
    labels: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        labels.setdefault(_point(row), []).append(row["setting"])
    first: set[tuple[Any, ...]] = set()
    for row in rows:
        point = _point(row)
        row["label"] = "" if point in first else ", ".join(dict.fromkeys(labels[point]))
        first.add(point)
    return rows


def _sided(rows: list[Row]) -> list[Row]:
    """`rows` with the side of its point, up or down, where no other line runs."""
    for row in rows:
        others = [r for r in rows if r["panel"] == row["panel"]]
        others = [r for r in others if r["line"] != row["line"]]
        others.sort(key=lambda r: (r["misses"], r["cost"]))
        misses = [float(r["misses"]) for r in others]
        costs = [float(r["cost"]) for r in others]
        beside = np.interp(row["misses"], misses, costs) if others else row["cost"]
        row["side"] = "up" if row["cost"] > beside else "down"
    return rows


def _point(row: Row) -> tuple[Any, ...]:
    return row["panel"], row["misses"], row["cost"]


def _approximate(words: str) -> str:
    if APPROXIMATE not in words:
        raise ValueError(
            f"the subtitle is {words!r}, wanted the word {APPROXIMATE!r} in it: what "
            "is drawn is another model"
        )
    return words
