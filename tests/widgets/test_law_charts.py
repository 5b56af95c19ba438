"""Charts of laws: which bar is called wrong, what is said, how it looks."""

import math
from collections.abc import Callable
from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_widgets import LiveChart, law_charts
from strata_widgets.law_charts import FITS, WRONG, Drawn, Halves, Rate
from strata_widgets.theme import PALETTE

SAID: dict[str, Any] = {"title": "A title", "description": "What is to be seen."}
DRAWN = [
    Drawn("sound", "a", 0.61, 0.6, 1000),
    Drawn("sound", "b", 0.39, 0.4, 1000),
    Drawn("wrong", "a", 0.7, 0.6, 1000),
    Drawn("wrong", "b", 0.3, 0.4, 1000),
]
HALVES = [Halves("a", 0.6, 0.25), Halves("b", 0.4, 0.75)]
RATES = [Rate("equality", "likeliest", 0.5, 0.52), Rate("ratio", "likeliest", 1, 1)]

AnyDrawn = alt.LayerChart | alt.FacetChart
ALL: dict[str, Callable[..., AnyDrawn]] = {
    "laws": lambda rows=DRAWN, **said: law_charts.laws(rows, **{**SAID, **said}),
    "halves": lambda rows=HALVES, **said: law_charts.halves(rows, **{**SAID, **said}),
    "rates": lambda rows=RATES, **said: law_charts.rates(rows, **{**SAID, **said}),
}
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: AnyDrawn) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_a_bar_is_wrong_from_four_standard_deviations_on() -> None:
    assert [r["fits"] for r in rows_of(ALL["laws"]())] == [FITS, FITS, WRONG, WRONG]
    # Of 100 draws at one half the spread is 5 %.
    for share, off, fits in ((0.7, 4.0, FITS), (0.71, 4.2, WRONG), (0.29, 4.2, WRONG)):
        drawn = Drawn("", "a", share, 0.5, 100)
        assert drawn.off == pytest.approx(off)
        assert rows_of(ALL["laws"]([drawn]))[0]["fits"] == fits


def test_a_law_alone_has_no_ticks_and_no_verdict() -> None:
    for draws, layers in ((0, 1), (10, 2)):
        spec = ALL["laws"]([Drawn("", "a", 0.3, 0.3, draws)]).to_dict()["spec"]
        assert len(spec["layer"]) == layers
        legend = spec["layer"][0]["encoding"]["color"].get("legend")
        assert (legend is None) == (draws == 0)


def test_what_cannot_come_is_wrong_when_it_comes() -> None:
    assert Drawn("", "a", 0.0, 0.0, 100).off == 0
    assert Drawn("", "a", 0.01, 0.0, 100).off == math.inf
    assert Drawn("", "a", 0.3, 0.0).off == 0


def test_the_two_halves_are_the_law() -> None:
    rows = rows_of(ALL["halves"]())
    assert [r["share"] for r in rows] == [0.25, 0.35, 0.4, 0]
    assert [r["q"] for r in rows] == [0.25, 0.25, 0.75, 0.75]
    assert rows[1]["says"] == "a: 35.0% drawn from what is left over; drafted in 25.0%"


def test_rates_have_their_number_beside_bar_and_tick() -> None:
    rows = rows_of(ALL["rates"]())
    assert [(r["label"], r["end"]) for r in rows] == [("50%", 0.52), ("100%", 1)]


def test_the_axis_has_room_and_ends_at_all() -> None:
    for share, top in ((0.6, 0.7), (0.61, 0.8), (0.95, 1.0), (0.05, 0.1)):
        spec = ALL["laws"]([Drawn("", "a", share, 0.0)]).to_dict()
        scale = spec["spec"]["layer"][0]["encoding"]["y"]["scale"]
        assert scale["domain"] == [0, top]


@each_chart
def test_nothing_is_no_picture(name: str) -> None:
    with pytest.raises(ValueError, match="got none; list at least one"):
        ALL[name]([])
    with pytest.raises(ValueError, match="`description` must say"):
        ALL[name](description=" ")


@each_chart
def test_it_says_what_it_shows_in_words_and_units(name: str) -> None:
    chart = ALL[name]()
    assert chart.to_dict()["description"] == SAID["description"]
    assert "(%)" in str(chart.to_dict())
    assert all(row["says"] for row in rows_of(chart))


@each_chart
def test_colours_are_of_the_palette_and_it_can_be_live(name: str) -> None:
    text = vl_convert.vegalite_to_svg(ALL[name]().to_dict(), vl_version="6.4")
    assert any(colour in text for colour in PALETTE.values())
    one, other = (LiveChart(ALL[name]()) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
