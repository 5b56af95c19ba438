"""One message for several widgets, the page's shared text, and a ticker that rests."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import traitlets

import strata_widgets
from strata_widgets import StrataWidget, Timeline, link, together
from strata_widgets.fault_switch import FaultSwitch
from strata_widgets.live_chart import LiveChart
from strata_widgets.pace import Ticker
from strata_widgets.panel import Panel
from strata_widgets.stepper import Stepper
from widgets.fake_trace import trace

FOLDER = Path(strata_widgets.__file__).parent


class Dial(StrataWidget):
    _esm = "export default { render() {} };"
    level = traitlets.Int(3).tag(sync=True)


def heard(*widgets: Any) -> list[Any]:
    """What goes to the page from here on."""
    sent: list[Any] = []
    for widget in widgets:
        widget.comm.send = lambda data, **_: sent.append(data)
    return sent


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(together, "_carrier", None)
    made = together.carrier()
    made._heard(made, {"kind": "ready"}, [])
    yield made
    made.close()


def test_what_is_sent_together_is_one_message(carrier: Any) -> None:
    one, other = Dial(), Dial()
    sent = heard(one, other, carrier)
    with together.together():
        one.level = 4
        with together.together():
            other.send({"kind": "said"})
        other.level = 5
        assert sent == []
    (message,) = sent
    parts = message["content"]["parts"]
    assert [model for model, _ in parts] == [one.model_id, *2 * [other.model_id]]
    assert [data["method"] for _, data in parts] == ["update", "custom", "update"]
    assert parts[2][1]["state"] == {"level": 5}
    one.level = 6
    assert len(sent) == 2


def test_another_thread_does_not_wait(carrier: Any) -> None:
    one, other = Dial(), Dial()
    sent = heard(one, other, carrier)
    with together.together():
        one.level = 4
        with ThreadPoolExecutor(1) as pool:
            pool.submit(other.send, {"kind": "said"}).result()
        assert [data["method"] for data in sent] == ["custom"]
    assert len(sent) == 2


def test_a_call_that_is_booked_inside_sends_by_itself(carrier: Any) -> None:
    dial = Dial()
    sent = heard(dial, carrier)

    async def book() -> None:
        with together.together():
            asyncio.get_running_loop().call_later(0.01, dial.send, {"kind": "said"})
        await asyncio.sleep(0.05)

    # In a thread of its own: browser tests leave a running loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, book()).result()
    assert [data["method"] for data in sent] == ["custom"]


def test_nothing_is_kept_back_by_an_error(carrier: Any) -> None:
    dial = Dial()
    sent = heard(dial, carrier)

    def fail() -> None:
        with together.together():
            dial.level = 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(sent[0]["content"]["parts"]) == 1
    dial.level = 2
    assert len(sent) == 2


def test_until_a_page_is_ready_each_goes_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(together, "_carrier", None)
    dial = Dial()
    sent = heard(dial, together.carrier())
    with together.together():
        dial.level = 4
        dial.level = 5
    assert [message["state"] for message in sent] == [{"level": 4}, {"level": 5}]


def test_a_closed_carrier_has_a_successor(carrier: Any) -> None:
    carrier.close()
    assert together.carrier() is not carrier
    assert not together.carrier().ready


def test_a_selection_that_moves_linked_views_is_one_message(carrier: Any) -> None:
    one, other = Timeline(trace(40)), Timeline(trace(40))
    link(one, other)
    parts = [view for each in (one, other) for view in (each, *each._live.values())]
    for part in parts:
        part._pace._gap = 0
    sent = heard(*parts, carrier)
    said = {"kind": "control", "name": "window", "value": 7, "values": {}}
    one._heard(one, {**said, "ask": "p 1"}, [])
    (message,) = sent
    models = {model for model, _ in message["content"]["parts"]}
    assert {one.model_id, other.model_id} <= models


@pytest.mark.parametrize("kind", [FaultSwitch, LiveChart, Panel, Stepper])
def test_each_module_has_the_shared_text_once(kind: type[StrataWidget]) -> None:
    shared = (FOLDER / "page.js").read_text(encoding="utf-8")
    text = str(kind._esm)
    assert text.startswith(shared)
    for name in ("function make(", "function guard(", "GONE =", "OWN ="):
        assert text.count(name) == 1, name


class Loop:
    """Notes when it is to call."""

    def __init__(self) -> None:
        self.booked: list[float] = []

    def call_later(self, later: float, call: Any) -> Any:
        self.booked.append(later)
        self.call = call


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0, 0.1), (0.02, 0.08), (0.07, 0.07), (0.5, 0.5)]
)
def test_a_ticker_keeps_its_time_and_rests_half_of_it(
    took: float, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, now = Loop(), [0.0]
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def tick() -> bool:
        now[0] += took
        return True

    ticker = Ticker(tick, hz=10)
    ticker.start(instead="nothing")
    loop.call()
    assert loop.booked == pytest.approx([0.1, rest])
