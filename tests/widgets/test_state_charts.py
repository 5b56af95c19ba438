from collections.abc import Callable
from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_widgets import state_charts
from strata_widgets.state_charts import STATES, Box, Distance, Gap, Price, Share
from strata_widgets.state_drawings import COLOURS
from strata_widgets.still import Still
from strata_widgets.theme import PALETTE

SAID: dict[str, Any] = {"title": "A title", "description": "What is to be seen."}
BOXES = [
    Box("cells|0 to 4", "slot 0", "4", "committed"),
    Box("cells|0 to 4", "slot 1", "1", "free"),
    Box("window|keep 1", "slot 0", "8 ✗", "rejected", framed=True),
    Box("window|keep 1", "slot 1", "5", "committed", framed=True),
]
DISTANCES = [
    Distance("1: 4 rows,|2 kept", 0, 0.0, "S"),
    Distance("1: 4 rows,|2 kept", 4, 2.29, "S"),
    Distance("2: 1 row", 0, 0.0012, "S"),
    Distance("2: 1 row", 4, 0.5, "S"),
]
GAPS = [Gap(8, "a pooled key", 0.5), Gap(8, "logits", 0.0), Gap(9, "logits", 0.1)]
SHARES = [Share("ring", 736, 2304), Share("contained", 0, 320)]
PRICES = [Price("contained", 0.7, 2.105), Price("up to 4 rows", 0.7, 2.533)]
MARK: dict[str, Any] = {"mark": 9, "mark_says": "a block is left out"}

AnyDrawn = alt.LayerChart | alt.FacetChart
ALL: dict[str, Callable[..., AnyDrawn]] = {
    "boxes": lambda rows=BOXES, **said: state_charts.boxes(rows, **said),
    "distances": lambda rows=DISTANCES, **said: state_charts.distances(rows, **said),
    "gaps": lambda rows=GAPS, **said: state_charts.gaps(rows, **MARK, **said),
    "shares": lambda rows=SHARES, **said: state_charts.shares(rows, **said),
    "prices": lambda rows=PRICES, **said: state_charts.prices(rows, **said),
}
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: AnyDrawn) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    (rows,) = spec["datasets"].values()
    return list(rows)


def drawing(chart: AnyDrawn) -> dict[str, Any]:
    """The chart without its rows."""
    return {k: v for k, v in chart.to_dict().items() if k not in ("data", "datasets")}


def titles(spec: Any) -> list[str]:
    """Titles of the position axes, wherever they are in `spec`."""
    found = []
    if isinstance(spec, list):
        for part in spec:
            found += titles(part)
    elif isinstance(spec, dict):
        for name, part in spec.items():
            if name in ("x", "y") and isinstance(part, dict) and part.get("title"):
                found.append(part["title"])
            found += titles(part)
    return found


@each_chart
def test_it_says_what_it_shows_and_names_its_axes(name: str) -> None:
    spec = ALL[name](**SAID).to_dict()
    assert spec["description"] == SAID["description"]
    assert spec["title"]["text"] == SAID["title"]
    named = titles(spec)
    assert named
    if name in ("distances", "gaps", "shares", "prices"):
        assert any("(" in title for title in named), "an axis has its unit in brackets"


@each_chart
def test_each_mark_has_words(name: str) -> None:
    for row in rows_of(ALL[name](**SAID)):
        assert row.get("says") or "mark" in row


@each_chart
def test_without_anything_to_draw_it_says_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match="got none; list at least one"):
        ALL[name]([], **SAID)


@each_chart
def test_an_empty_description_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="`description` must say"):
        ALL[name](title="t", description=" ")


@each_chart
def test_a_picture_can_be_made(name: str) -> None:
    png = Still(ALL[name](**SAID).to_dict(), "text").png()
    assert png.startswith(b"\x89PNG")


def test_a_box_is_where_and_what_it_says() -> None:
    rows = rows_of(state_charts.boxes(BOXES, **SAID))
    assert [row["says"] for row in rows] == [
        "cells 0 to 4: slot 0: 4, committed",
        "cells 0 to 4: slot 1: 1, does not count",
        "window keep 1: slot 0: 8 ✗, rejected (✗) or misplaced (!), used now",
        "window keep 1: slot 1: 5, committed, used now",
    ]


def test_moments_and_places_stand_in_the_order_they_came_in() -> None:
    backwards = list(reversed(BOXES))
    (body, *_) = state_charts.boxes(backwards, **SAID).to_dict()["layer"]
    assert body["encoding"]["x"]["scale"]["domain"] == ["window|keep 1", "cells|0 to 4"]
    assert body["encoding"]["y"]["scale"]["domain"] == ["slot 1", "slot 0"]


def test_the_same_moments_and_places_give_the_same_drawing() -> None:
    """So a picture whose fault is switched sends rows to the page and nothing else."""
    other = [Box(b.moment, b.place, "x", "drafted") for b in BOXES]
    one, two = (state_charts.boxes(rows, **SAID) for rows in (BOXES, other))
    assert drawing(one) == drawing(two)
    assert rows_of(one) != rows_of(two)


def test_a_state_has_the_colour_of_its_kin_elsewhere() -> None:
    assert set(COLOURS) == set(STATES)
    assert COLOURS["rejected"] == PALETTE["mismatch"]
    assert COLOURS["drafted"] == PALETTE["added"]
    assert COLOURS["committed"] == "currentColor"
    (body, *_) = state_charts.boxes(BOXES, **SAID).to_dict()["layer"]
    scale = body["encoding"]["fill"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        STATES[state]: colour for state, colour in COLOURS.items()
    }


def test_what_is_rejected_shows_without_colours_too() -> None:
    chart = state_charts.boxes(BOXES, **SAID)
    assert [row["wrong"] for row in rows_of(chart)] == [False, False, True, False]
    solid, dashed, *_ = chart.to_dict()["layer"]
    assert "strokeDash" not in solid["mark"]
    assert dashed["mark"]["strokeDash"]
    drawn = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version="6.4")
    assert drawn.count("stroke-dasharray") == 1


def test_a_legend_has_words_of_its_own_and_only_those() -> None:
    legend: dict[Any, str] = {"committed": "its own", "rejected": "somebody else's"}
    boxes = [BOXES[0], BOXES[2]]
    rows = rows_of(state_charts.boxes(boxes, legend=legend, **SAID))
    assert [row["state"] for row in rows] == ["its own", "somebody else's"]
    with pytest.raises(ValueError, match="a box is 'free', and `legend` has words"):
        state_charts.boxes(BOXES, legend=legend, **SAID)


def test_a_distance_is_written_and_zero_means_none() -> None:
    rows = rows_of(state_charts.distances(DISTANCES, highest=1.5, **SAID))
    assert [row["label"] for row in rows] == ["0", "229", "<1", "50"]
    assert rows[1]["drawn"] == 1.5, "a bar ends with the axis"
    assert rows[1]["says"] == "1: 4 rows, 2 kept: S: layer 4: 229 %"


def test_parts_have_a_line_of_panels_each() -> None:
    found = [Distance("m", 0, 0.1, part) for part in ("S", "convolution")]
    facet = state_charts.distances(found, **SAID).to_dict()["facet"]
    assert facet["row"]["sort"] == ["S", "convolution"]


def test_a_gap_beyond_the_axis_makes_the_axis_longer() -> None:
    def top(size: float) -> float:
        chart = state_charts.gaps([Gap(1, "keys", size)], **MARK, **SAID)
        (dots, *_) = chart.to_dict()["layer"]
        return float(dots["encoding"]["y"]["scale"]["domain"][1])

    assert top(0.1) == 2
    assert top(50) > 50


def test_a_rule_is_drawn_once() -> None:
    rows = rows_of(state_charts.gaps(GAPS, **MARK, **SAID))
    assert [row["mark"] for row in rows if "mark" in row] == [9]


def test_so_many_of_so_many() -> None:
    rows = rows_of(state_charts.shares(SHARES, **SAID))
    assert [row["label"] for row in rows] == ["736 of 2,304", "0 of 320"]
    (bars, *_) = state_charts.shares(SHARES, **SAID).to_dict()["layer"]
    assert bars["encoding"]["x"]["scale"]["domain"] == [0, 2304]


def test_prices_by_acceptance() -> None:
    rows = rows_of(state_charts.prices(PRICES, **SAID))
    assert [row["panel"] for row in rows] == ["acceptance 0.7"] * 2
    assert [row["label"] for row in rows] == ["2.10", "2.53"]
