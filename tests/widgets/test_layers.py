"""Axes and legends that drawings of live panels share."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_widgets import Acceptance, ExpertMap, SlotsAndIO, Timeline, state_charts
from strata_widgets.drawing import PALE
from strata_widgets.fold.drawings import rows_of_the_window
from strata_widgets.layers import room, until
from strata_widgets.panel import Panel
from strata_widgets.qsa_tail.drawings import blocks, slots
from strata_widgets.state_charts import Box
from strata_widgets.state_diff.drawings import parts_and_layers
from widgets import fake_trace
from widgets.test_slots_io import TWO, window


def compiled(spec: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = vl_convert.vegalite_to_vega(spec)
    return made


@pytest.mark.parametrize(
    "make",
    [
        rows_of_the_window,
        lambda: slots(4),
        lambda: blocks(4),
        lambda: parts_and_layers(("kv", "gdn_state"), (0, 1)),
        lambda: state_charts.boxes(
            [Box("now", "slot 0", "3", "committed")], title="T", description="D"
        ),
    ],
)
def test_a_legend_is_as_pale_as_the_boxes(make: Callable[[], alt.LayerChart]) -> None:
    page = compiled(make().to_dict())
    (legend,) = page["legends"]
    assert legend["encode"]["symbols"]["update"] == {"fillOpacity": {"value": PALE}}
    # Fill and edge are the box's own, and neither is fainter than the box's.
    assert {"fill", "stroke", "opacity"} <= set(legend)
    (scale,) = (s for s in page["scales"] if s["name"] == legend["opacity"])
    assert set(scale["range"]) == {1}
    box = page["marks"][0]["encode"]["update"]
    assert legend["symbolStrokeWidth"] == box["strokeWidth"]["value"]


def named(view: Panel, chart: str) -> list[str]:
    """The words of a chart's legend, as the page writes them."""
    spec = view._live[chart]._picture()
    legend = compiled(spec)["legends"][0]
    assert "signal" in legend["values"]
    picture = vl_convert.vegalite_to_svg(spec)
    groups = picture.split('class="mark-text role-legend-label"')[1:]
    return [group.split("<text")[1].split(">")[1].split("<")[0] for group in groups]


def test_a_legend_names_what_is_on_the_page() -> None:
    slow = SlotsAndIO([window(*TWO)])
    assert named(slow, "wanted") == ["in a slot", "late", "read"]
    assert named(slow, "shares") == ["in a slot, all layers", "waited for experts"]
    slow.select(layer=1)
    assert named(slow, "shares")[1] == "in a slot, selected layer"
    plain = SlotsAndIO([window((3, 1, 0))])
    assert named(plain, "wanted") == ["in a slot", "read"]
    assert named(plain, "reads") == ["wanted"]
    assert named(ExpertMap([window(*TWO)]), "unions")[2:] == [
        "in a slot",
        "late",
        "read",
    ]
    records = fake_trace.trace(2)
    assert named(ExpertMap(records), "unions") == ["root", "added by drafts"]


def test_an_axis_begins_small_and_grows_in_doublings() -> None:
    assert [room(n) for n in (0, 1, 16, 17, 37, 64, 65)] == [
        16,
        16,
        16,
        32,
        64,
        64,
        128,
    ]
    assert room(1000, least=1024) == 1024
    for made in (Timeline, Acceptance):
        ends = [made(fake_trace.trace(n))._values()["last"] for n in (0, 3, 17, 40, 90)]
        assert ends == [15, 15, 31, 63, 89]


@pytest.mark.parametrize("count", [0, 1, 16, 17, 31, 32, 33, 1000])
def test_an_axis_ends_where_its_expression_says(count: int) -> None:
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef(until("n")), nice=False)
    spec = (
        alt.Chart(alt.InlineData(values=[{"x": 0}]))
        .mark_point()
        .encode(x=alt.X("x:Q", scale=scale, axis=alt.Axis(values=[room(count)])))
        .add_params(alt.param(name="n", value=count))
    )
    picture = vl_convert.vegalite_to_svg(spec.to_dict())
    ticks = picture.split("role-axis-tick")[1].split("</g>")[0]
    assert ticks.count("translate(300,0)") == 1, ticks
