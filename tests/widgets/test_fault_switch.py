from typing import Any

import altair as alt
import pytest

from strata_widgets import FaultSwitch, LiveChart, state_charts
from strata_widgets.fault_switch import Drawn
from strata_widgets.state_charts import Box

RING, OLD = "qsa_ring", "qsa_old_tail"


class Picture:
    """Draws one box; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def __call__(self, fault: str | None) -> Drawn:
        self.asked.append(fault)
        if fault == OLD:
            raise KeyError("nothing here")
        chart = state_charts.boxes(
            [Box("now", "slot 0", "8" if fault else "4", "committed")],
            title="Slots",
            subtitle="of the tail",
            description="One slot.",
        )
        return chart, f"slot 0 holds {'8' if fault else '4'}"


@pytest.fixture
def picture() -> Picture:
    return Picture()


@pytest.fixture
def switch(picture: Picture) -> FaultSwitch:
    return FaultSwitch(picture, faults=[RING, OLD])


def view(switch: FaultSwitch) -> dict[str, Any]:
    return dict(switch.get_state()["_view"])


def hear(switch: FaultSwitch, fault: str, ask: str = "page 1") -> None:
    """What a page sends when somebody moves the control."""
    switch._heard(None, {"kind": "plant", "fault": fault, "ask": ask}, None)


def cells(switch: FaultSwitch) -> list[str]:
    return [row["text"] for row in switch._chart.rows]


def test_it_starts_sound(switch: FaultSwitch, picture: Picture) -> None:
    assert picture.asked == [None]
    assert switch.fault is None
    assert switch.faults == (RING, OLD)
    assert view(switch)["fault"] == ""
    assert view(switch)["words"] == "slot 0 holds 4"
    assert [f["name"] for f in view(switch)["faults"]] == [RING, OLD]
    assert all(f["what"] for f in view(switch)["faults"])
    assert cells(switch) == ["4"]


def test_it_may_start_with_a_fault(picture: Picture) -> None:
    switch = FaultSwitch(picture, faults=RING, planted=RING)
    assert picture.asked == [RING]
    assert (switch.fault, switch.faults) == (RING, (RING,))
    assert cells(switch) == ["8"]


def test_a_fault_is_switched_on_and_off(switch: FaultSwitch) -> None:
    drawing = switch._chart.spec
    switch.plant(RING)
    assert (switch.fault, cells(switch)) == (RING, ["8"])
    assert switch._chart.spec == drawing, "only the rows travel"
    switch.plant(None)
    assert (switch.fault, cells(switch)) == (None, ["4"])


def test_the_page_switches_and_is_answered(
    switch: FaultSwitch, picture: Picture
) -> None:
    hear(switch, RING, "page 7")
    assert switch.fault == RING
    assert view(switch)["answered"] == "page 7"
    hear(switch, "", "page 8")
    assert switch.fault is None
    assert view(switch)["answered"] == "page 8"
    assert picture.asked == [None, RING, None]


def test_to_look_runs_nothing(switch: FaultSwitch, picture: Picture) -> None:
    switch._heard(None, {"kind": "look", "ask": "page 3"}, None)
    assert picture.asked == [None]
    assert view(switch)["answered"] == "page 3"


def test_an_error_of_the_reader_s_function_is_shown_and_changes_nothing(
    switch: FaultSwitch,
) -> None:
    hear(switch, RING)
    hear(switch, OLD, "page 2")
    shown = view(switch)
    assert "KeyError: 'nothing here'" in shown["error"]
    assert (shown["fault"], shown["answered"]) == (RING, "page 2")
    assert (switch.fault, cells(switch)) == (RING, ["8"])
    hear(switch, "")
    assert view(switch)["error"] == ""


def test_from_python_the_error_is_raised(switch: FaultSwitch) -> None:
    with pytest.raises(KeyError):
        switch.plant(OLD)
    assert switch.fault is None


def test_a_fault_that_is_not_offered_is_refused(
    switch: FaultSwitch, picture: Picture
) -> None:
    words = "`fault` is 'gdn_parity', wanted None or one of qsa_ring, qsa_old_tail"
    with pytest.raises(ValueError, match=words):
        switch.plant("gdn_parity")
    with pytest.raises(ValueError, match=words):
        FaultSwitch(picture, faults=[RING, OLD], planted="gdn_parity")
    hear(switch, "gdn_parity")
    assert words in view(switch)["error"]
    assert picture.asked == [None]


def test_an_unknown_fault_is_refused_by_name(picture: Picture) -> None:
    with pytest.raises(ValueError, match="no fault is named 'qsa_wrong'; wanted one"):
        FaultSwitch(picture, faults="qsa_wrong")
    with pytest.raises(ValueError, match="at least one fault, got none; there are ple"):
        FaultSwitch(picture, faults=[])
    assert picture.asked == []


@pytest.mark.parametrize("drawn", [None, "chart", ({}, 3), ({},)])
def test_what_is_no_picture_is_refused(drawn: Any) -> None:
    with pytest.raises(TypeError, match="must return a chart and a sentence about it"):
        FaultSwitch(lambda fault: drawn, faults=RING)


def test_its_text_has_no_address_and_follows_the_fault(switch: FaultSwitch) -> None:
    assert repr(switch) == "FaultSwitch(no fault)"
    assert switch.text() == "FaultSwitch(no fault)\nseen   slot 0 holds 4"
    switch.plant(RING)
    first, what, seen = switch.text().splitlines()
    assert first == "FaultSwitch(fault qsa_ring is on)"
    assert what.startswith("fault  the tail is a ring")
    assert seen == "seen   slot 0 holds 8"


def test_a_snapshot_says_which_fault_is_on_and_stays(switch: FaultSwitch) -> None:
    switch.plant(RING)
    still = switch.snapshot()
    switch.plant(None)
    title = still.spec["title"]
    assert title["text"] == "Slots"
    assert title["subtitle"] == ["switch: fault qsa_ring is on", "of the tail"]
    assert [row["text"] for row in still.spec["data"]["values"]] == ["8"]
    assert still.png().startswith(b"\x89PNG")


def test_a_chart_of_one_s_own_will_do() -> None:
    rows = alt.InlineData(values=[{"x": 1}])
    chart = alt.Chart(rows, title="Mine").mark_bar().encode(x="x:Q")
    switch = FaultSwitch(lambda fault: (chart, "a bar"), faults=RING)
    title = switch.snapshot().spec["title"]
    assert title == {"text": "Mine", "subtitle": ["switch: no fault"]}


def test_a_page_is_told_of_the_chart_with_the_first_message(
    picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load a page draws before a second message has come."""
    opened: list[Any] = []
    for kind, name in ((FaultSwitch, "_chart"), (LiveChart, "_lib")):

        def open_it(widget: Any, name: str = name, whole: Any = kind.open) -> None:
            opened.append(getattr(widget, name))
            whole(widget)

        monkeypatch.setattr(kind, "open", open_it)
    FaultSwitch(picture, faults=RING)
    assert len(opened) == 2
    assert None not in opened
