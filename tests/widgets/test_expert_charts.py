"""Charts of experts: what they count, what they say, how they look."""

import re
from collections.abc import Callable
from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_nb.trace import LayerRecord
from strata_widgets import LiveChart, expert_charts
from strata_widgets.drawing import Look
from strata_widgets.expert_charts import Axes, Held, Mean, Piece, Point
from strata_widgets.theme import PALETTE

AXES = Axes("A title", "What is to be seen.", "slots (count)", "experts (count)")
LAYER = LayerRecord.from_decisions(2, [[5, 1], [1, 7], [7, 5]], 1)
POINTS = [Point("lru", 1, 0.5), Point("lru", 2, 0.25), Point("all", 2, 0.2)]
MEANS = [Mean("edit", 0, 7.5, 9.0), Mean("code", 0, 6.0, 9.0)]
PIECES = [
    Piece("first", "late", 3),
    Piece("first", "there", 50),
    Piece("second", "late", 0),
    Piece("second", "there", 20),
]
COLOURS: dict[str, Look] = {"there": "accepted", "late": "mismatch"}
LIGHT = 'opacity="0.5"'
INKED: dict[str, Look] = {"there": "light", "late": "solid"}
HELD = expert_charts.presences([(set(), {1, 2}), ({1, 2}, {2, 3})])

AnyDrawn = alt.LayerChart | alt.FacetChart
ALL: dict[str, Callable[[], AnyDrawn]] = {
    "picks": lambda: expert_charts.picks(LAYER, experts=8, title="Picks"),
    "lines": lambda: expert_charts.lines(
        POINTS, AXES, bounds=("all",), doubling=True, percent=True
    ),
    "counts": lambda: expert_charts.lines(POINTS, AXES),
    "by_layer": lambda: expert_charts.by_layer(MEANS, AXES),
    "stacks": lambda: expert_charts.stacks(PIECES, AXES, colours=COLOURS),
    "inked": lambda: expert_charts.stacks(PIECES, AXES, colours=INKED),
    "residency": lambda: expert_charts.residency(HELD, experts=8, title="Held"),
}
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: AnyDrawn) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_each_expert_is_in_the_union_once() -> None:
    rows = rows_of(ALL["picks"]())
    assert [(r["row"], r["expert"], r["what"]) for r in rows] == [
        ("root", 1, "of the root"),
        ("root", 5, "of the root"),
        ("draft 1", 1, "in the union already"),
        ("draft 1", 7, "added by a draft"),
        ("draft 2", 5, "in the union already"),
        ("draft 2", 7, "in the union already"),
        ("union", 1, "of the root"),
        ("union", 5, "of the root"),
        ("union", 7, "added by a draft"),
    ]


def test_unused_picks_are_no_experts() -> None:
    layer = LayerRecord.from_decisions(0, [[3, -1]], 1)
    rows = rows_of(expert_charts.picks(layer, experts=8, title="Picks"))
    assert {r["expert"] for r in rows} == {3}


def test_an_expert_is_kept_used_or_read() -> None:
    found = expert_charts.presences([(set(), {1, 2}), ({1, 2}, {2, 3})])
    assert found == [
        Held(1, 1, "read"),
        Held(1, 2, "read"),
        Held(2, 1, "kept"),
        Held(2, 2, "used"),
        Held(2, 3, "read"),
    ]
    assert rows_of(ALL["residency"]())[-1]["says"] == (
        "window 2: expert 3, not there, read"
    )


def test_shares_and_counts_are_said_as_such() -> None:
    assert rows_of(ALL["lines"]())[1]["says"] == "lru: at 2 25%"
    assert rows_of(ALL["counts"]())[1]["says"] == "lru: at 2 0.2"
    says = rows_of(ALL["by_layer"]())[0]["says"]
    assert says == "edit: layer 0: 7.5, tick at 9.0"


def test_pieces_lie_end_to_end_in_the_order_of_the_legend() -> None:
    rows = rows_of(ALL["stacks"]())
    assert [(r["bar"], r["part"], r["begin"], r["end"]) for r in rows] == [
        ("first", "there", 0, 50),
        ("second", "there", 0, 20),
        ("first", "late", 50, 53),
    ]
    assert rows[0]["label"] == "50"


def test_a_number_that_does_not_fit_is_said_only() -> None:
    pieces = [Piece("a", "there", 99.5), Piece("a", "late", 0.5)]
    rows = rows_of(expert_charts.stacks(pieces, AXES, colours=COLOURS))
    assert [r["label"] for r in rows] == ["99.5", ""]
    assert rows[1]["says"] == "a: 0.5 late"


def test_numbers_stand_beside_a_bar_of_ink() -> None:
    labels = [(r["bar"], r["label"]) for r in rows_of(ALL["inked"]())]
    assert labels == [("first", ""), ("second", "20"), ("first", "50 + 3")]


@pytest.mark.parametrize("name", ["inked", "residency"])
def test_where_an_expert_is_has_no_hue(name: str) -> None:
    text = vl_convert.vegalite_to_svg(ALL[name]().to_dict(), vl_version="6.4")
    assert not {c for c in PALETTE.values() if c in text}
    # Both looks are told apart by opacity, of marks and of the legend's symbols.
    marks = re.findall(r'<path aria-label="[^"]*" role[^>]*>', text)
    light = {"read" in mark or "late" in mark for mark in marks if LIGHT in mark}
    solid = {"read" in mark or "late" in mark for mark in marks if LIGHT not in mark}
    assert (light, solid) == ({False}, {True})


def test_a_part_without_a_colour_is_refused() -> None:
    with pytest.raises(ValueError, match="a piece is 'odd', and `colours` has there"):
        expert_charts.stacks([Piece("a", "odd", 1)], AXES, colours=COLOURS)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: expert_charts.lines([], AXES),
        lambda: expert_charts.by_layer([], AXES),
        lambda: expert_charts.stacks([], AXES, colours=COLOURS),
        lambda: expert_charts.residency([], experts=8, title="Held"),
    ],
)
def test_nothing_is_no_picture(draw: Callable[[], AnyDrawn]) -> None:
    with pytest.raises(ValueError, match="got none; list at least one"):
        draw()


def test_a_chart_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="`description` must say"):
        expert_charts.lines(POINTS, Axes("A title", " ", "x (count)", "y (count)"))


@each_chart
def test_it_says_what_it_shows_in_words_and_units(name: str) -> None:
    spec = ALL[name]().to_dict()
    assert spec["description"]
    assert "(count)" in str(spec) or "(index)" in str(spec)
    assert all(row["says"] for row in rows_of(ALL[name]()))


@each_chart
def test_colours_are_of_the_palette_and_it_can_be_live(name: str) -> None:
    text = vl_convert.vegalite_to_svg(ALL[name]().to_dict(), vl_version="6.4")
    assert {c for c in PALETTE.values() if c in text} or name in (
        "counts",
        "inked",
        "residency",
    )
    one, other = (LiveChart(ALL[name]()) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
