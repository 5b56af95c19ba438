"""Charts of approximate routing: what they show, and that they say so."""

from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np
import pytest
import vl_convert

from strata_nb.gates.gate_5.comparison import Comparison, Quality, Setting, Work
from strata_widgets import LiveChart, routing_charts
from strata_widgets.drawing import Look
from strata_widgets.expert_charts import Axes
from strata_widgets.routing_charts import Mark, Vote, Weight
from strata_widgets.theme import PALETTE, Role

SAID = "moce, approximate"
AXES = Axes("A title", "What is to be seen.", "expert (index)", "", SAID)
# Ranks: 3, 1, 0, 4, 2. Experts 0 and 4 are ready; with a bonus of 1 both pass 1.
VOTE = Vote(
    logits=np.array([1.0, 1.5, -1.0, 3.0, 0.75]),
    ready=np.array([True, False, False, False, True]),
    chosen=[3, 0, 4],
    protect=1,
    bonus=1.0,
)
MARKS = [Mark("one", "root", 3, "there"), Mark("two", "draft 1", 4, "read")]
KINDS: dict[str, Look] = {"there": "light", "read": "solid"}
WEIGHTS = [Weight(3, "natural", 0.5), Weight(3, "chosen", 0.75)]
# None that says what became of drafts: this is of experts and of bills.
HUES: dict[str, set[Role]] = {
    "ballot": {"root", "bonus", "unreached"},
    "weights": {"unreached"},
}
RULES: dict[str, Look] = {"natural": "unreached", "chosen": "solid"}

AnyDrawn = alt.LayerChart | alt.FacetChart


def compared(misses: int, nats: float, *, exact_misses: int = 200) -> Comparison:
    return Comparison(
        policy=SAID,
        lossless=False,
        setting=Setting((("code", 11),), rows=8, decoded=0),
        quality={"code": Quality(10, 2.0, nats, 0.9, 0.1, 0, 0)},
        exact_work=Work(misses=exact_misses),
        work=Work(misses=misses),
    )


def with_subtitle(subtitle: str) -> dict[str, Callable[[], AnyDrawn]]:
    axes = Axes(AXES.title, AXES.description, AXES.across, AXES.up, subtitle)
    said = {"title": "A title", "subtitle": subtitle}
    found = [("code", "0", compared(200, 2.0)), ("code", "1", compared(50, 2.25))]
    return {
        "ballot": lambda: routing_charts.ballot(VOTE, shown=3, **said),
        "weights": lambda: routing_charts.weights(WEIGHTS, colours=RULES, **said),
        "marks": lambda: routing_charts.marks(MARKS, axes, experts=8, colours=KINDS),
        "price": lambda: routing_charts.price(found, axes),
    }


ALL = with_subtitle(SAID)
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: AnyDrawn) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_a_vote_shows_ranks_the_bonus_and_who_is_chosen() -> None:
    rows = rows_of(ALL["ballot"]())
    assert [(r["name"], r["logit"], r["raised"], r["what"]) for r in rows] == [
        ("1: 3", 3.0, 3.0, "protected"),
        ("2: 1", 1.5, 1.5, "not chosen"),
        ("3: 0", 1.0, 2.0, "chosen, in a slot"),
        ("4: 4", 0.75, 1.75, "chosen, in a slot"),
        ("5: 2", -1.0, -1.0, "not chosen"),
    ]
    assert rows[2]["says"] == (
        "rank 3: expert 0, in a slot: 1.00 and 1, chosen, in a slot"
    )


def test_a_cold_expert_is_chosen_without_a_bonus() -> None:
    cold = Vote(VOTE.logits, ~VOTE.ready, [3, 1], 0, 0.5)
    rows = rows_of(routing_charts.ballot(cold, title="A title", subtitle=SAID))
    assert [(r["raised"], r["what"]) for r in rows[:3]] == [
        (3.5, "chosen, in a slot"),
        (2.0, "chosen, in a slot"),
        (1.0, "not chosen"),
    ]
    assert len(rows) == len(VOTE.logits)


def test_misses_stand_beside_what_they_cost() -> None:
    rows = rows_of(ALL["price"]())
    assert [(r["label"], r["misses"], r["cost"]) for r in rows] == [
        ("0", 100, 0),
        ("0", 100, 10),
        ("0", 100, 0.1),
        ("1", 25, 0.25),
        ("1", 25, 10),
        ("1", 25, 0.1),
    ]
    assert [r["panel"] for r in rows] == [*routing_charts.COST] * 2
    assert rows[3]["says"] == (
        "code, 1: 25 % of the misses, 0.25 cross entropy (nats more)"
    )


def test_settings_that_come_to_the_same_share_a_label() -> None:
    found = [("code", setting, compared(50, 2.25)) for setting in ("2", "5")]
    rows = rows_of(routing_charts.price(found, AXES))
    assert [r["label"] for r in rows] == ["2, 5"] * 3 + [""] * 3


def test_a_label_stands_where_the_other_line_does_not_run() -> None:
    dear = [("code", "1", compared(50, 2.5)), ("code", "0", compared(100, 2.0))]
    cheap = [("edit", "1", compared(60, 2.1)), ("edit", "0", compared(100, 2.0))]
    rows = rows_of(routing_charts.price([*dear, *cheap], AXES))
    first = [r for r in rows if r["panel"] == next(iter(routing_charts.COST))]
    assert [r["side"] for r in first] == ["up", "down", "down", "down"]


def test_without_misses_there_is_no_price() -> None:
    with pytest.raises(ValueError, match="got code with 0 misses"):
        routing_charts.price([("code", "0", compared(0, 2.0, exact_misses=0))], AXES)


def test_marks_and_weights_are_said() -> None:
    says = [rows_of(ALL[name]())[-1]["says"] for name in ("marks", "weights")]
    assert says == ["two: draft 1: expert 4, read", "expert 3, chosen: 0.750"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: routing_charts.weights([], title="t", subtitle=SAID, colours=RULES),
        lambda: routing_charts.marks([], AXES, experts=8, colours=KINDS),
        lambda: routing_charts.price([], AXES),
    ],
)
def test_nothing_is_no_picture(draw: Callable[[], AnyDrawn]) -> None:
    with pytest.raises(ValueError, match="got none; list at least one"):
        draw()


@each_chart
def test_no_chart_is_drawn_without_the_word(name: str) -> None:
    with pytest.raises(ValueError, match="the subtitle is 'moce', wanted the word"):
        with_subtitle("moce")[name]()
    assert "approximate" in str(ALL[name]().to_dict()["title"])


@each_chart
def test_it_draws_in_colours_of_the_palette_and_can_be_live(name: str) -> None:
    chart = ALL[name]()
    text = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version="6.4")
    hues = {role for role, colour in PALETTE.items() if colour in text}
    assert hues == HUES.get(name, set())
    assert all(row["says"] for row in rows_of(chart))
    one, other = (LiveChart(ALL[name]()) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
