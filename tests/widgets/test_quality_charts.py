"""What a policy saves and what it costs, in one picture."""

from typing import Any

import altair as alt
import pytest

from strata_nb.gates.gate_5.comparison import Comparison, Quality, Setting, Work
from strata_widgets import LiveChart, quality_charts, theme


def compared(**texts: tuple[float, float, float]) -> Comparison:
    """Of each text: exact nats, nats, agreement."""
    return Comparison(
        policy="a few, approximate",
        lossless=False,
        setting=Setting(tuple((name, 11) for name in texts), rows=8, decoded=4),
        quality={
            name: Quality(10, exact, nats, agreement, 0.1, 4, 4)
            for name, (exact, nats, agreement) in texts.items()
        },
        exact_work=Work(windows=3, experts_read=200),
        work=Work(windows=3, experts_read=150),
    )


TWO = compared(code=(2.0, 2.1, 0.9), prose=(4.0, 3.9, 1.0))


def rows_of(chart: alt.FacetChart) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    rows: list[dict[str, Any]] = spec["datasets"][spec["data"]["name"]]
    return rows


def test_what_is_of_the_exact_model_and_what_is_of_rows_stand_apart() -> None:
    rows = rows_of(quality_charts.beside(TWO))
    assert [(r["panel"], r["side"], r["name"], r["label"]) for r in rows] == [
        (quality_charts.CHANGE, "quality", "code: cross entropy", "+5.0 %"),
        (quality_charts.CHANGE, "quality", "prose: cross entropy", "-2.5 %"),
        (quality_charts.CHANGE, "work", "all texts: experts read", "-25.0 %"),
        (quality_charts.SHARE, "quality", "code: another best token", "10.0 %"),
        (quality_charts.SHARE, "quality", "prose: another best token", "0.0 %"),
    ]
    assert rows[3]["says"] == "code: another best token: 10.0 % of rows"
    sizes = [5, -2.5, -25, 10, 0]
    assert [row["size"] for row in rows] == pytest.approx(sizes)


def test_it_says_what_it_shows_and_that_the_policy_approximates() -> None:
    spec = quality_charts.beside(TWO).to_dict()
    assert "approximate" in spec["title"]["subtitle"][0]
    assert "a few, approximate" in spec["description"]
    bars = spec["spec"]["layer"][0]["encoding"]
    assert bars["x"]["title"] == "per cent, of what the panel says"
    assert spec["facet"]["row"]["sort"] == [quality_charts.CHANGE, quality_charts.SHARE]
    assert bars["description"]["field"] == "says"
    assert all(row["says"] for row in rows_of(quality_charts.beside(TWO)))


def test_every_bar_and_its_number_have_room() -> None:
    for found in (TWO, compared(code=(2.0, 2.1, 0.9)), compared(code=(2.0, 2.0, 1.0))):
        chart = quality_charts.beside(found)
        low, high = chart.to_dict()["spec"]["layer"][0]["encoding"]["x"]["scale"][
            "domain"
        ]
        sizes = [row["size"] for row in rows_of(chart)]
        assert low < min(sizes)
        assert max(sizes) < high


def test_colours_are_of_the_palette_and_the_chart_can_be_live() -> None:
    assert set(quality_charts.COLOURS.values()) <= set(theme.PALETTE.values())
    one, other = (LiveChart(quality_charts.beside(TWO)) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
