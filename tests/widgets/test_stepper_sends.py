"""What a `Stepper` draws and sends: a key, a click and a window, each its own."""

from typing import Any

import pytest

from strata_nb import StrataError, Trace, WindowRecord
from strata_nb.trace import window_record
from strata_widgets import Stepper
from strata_widgets.stepper import shown
from strata_widgets.stepper.drawn import chart
from strata_widgets.stepper.view import Cells, known_end
from widgets.fake_model import FakeModel
from widgets.test_stepper import PROMPT, click


@pytest.fixture
def stepper() -> Stepper:
    return Stepper(FakeModel().engine(), prompt=PROMPT)


def told(stepper: Stepper) -> list[str]:
    """The traits that are sent from here on."""
    names: list[str] = []
    stepper.observe(lambda change: names.append(change["name"]))
    return names


def test_a_typed_draft_sends_its_preview_alone(stepper: Stepper) -> None:
    sent = told(stepper)
    click(stepper, "preview", draft="): x")
    click(stepper, "preview", draft="#99")
    assert sent == ["_preview", "_preview"]


def test_a_preview_that_fails_is_said(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise StrataError("no tokenizer any more")

    monkeypatch.setattr(shown, "typed", broken)
    click(stepper, "preview", draft="): x")
    said = stepper._view["message"]
    assert said == {"kind": "error", "text": "no tokenizer any more"}


def test_a_click_sends_the_page_once(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    publish = Stepper._publish

    def counted(self: Stepper) -> None:
        made.append(self._phase())
        publish(self)

    monkeypatch.setattr(Stepper, "_publish", counted)
    click(stepper, "run", draft="): x")
    click(stepper, "finish")
    click(stepper, "keep", keep=1)
    click(stepper, "commit", keep=1, force=False)
    assert made == ["run", "finished", "finished", "committed"]
    click(stepper, "abort")
    click(stepper, "look")
    assert made[4:] == ["committed", "committed"]


def test_only_what_a_window_changes_is_drawn(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def noted(name: str, *rest: Any) -> Any:
        drawn.append(name)
        return chart(name, *rest)

    monkeypatch.setattr(shown, "chart", noted)
    stepper.run(draft="): x")
    stepper.abort()
    assert drawn == ["union", "union"]
    drawn.clear()
    Stepper(stepper.engine)
    assert sorted(drawn) == ["positions", "union", "windows"]


def windows(*spans: tuple[int, list[int]]) -> list[WindowRecord]:
    """Windows of whose rows the last is rejected: a cell, and what is kept from it."""
    return [
        window_record(
            position=position,
            inputs=[*kept, 99],
            keep=len(kept),
            predictions=[0] * (len(kept) + 1),
        )
        for position, kept in spans
    ]


def test_cells_follow_a_trace_and_what_is_undone() -> None:
    cells, trace = Cells(), Trace(windows((2, [5, 6]), (4, [7])))
    assert cells.below(6, trace) == [None, None, 5, 6, 7, None]
    assert cells.below(3, trace) == [None, None, 5]
    trace.truncate(1)
    for record in windows((4, [8, 9]), (1, [4])):
        trace.append(record)
    # A restored engine may write a cell again.
    assert cells.below(6, trace) == [None, 4, 5, 6, 8, 9]
    assert cells.below(2, Trace()) == [None, None]
    assert known_end([1, None, 2, 3]) == [2, 3]
    assert known_end([1, 2]) == [1, 2]
    assert known_end([1, None]) == known_end([]) == []


def test_each_window_of_the_history_is_read_once(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    take = Cells._take

    def noted(self: Cells, record: WindowRecord) -> None:
        read.append(record.position)
        take(self, record)

    monkeypatch.setattr(Cells, "_take", noted)
    positions = []
    for _ in range(5):
        positions.append(stepper.engine.position)
        stepper.run(draft="")
        stepper.finish()
        stepper.commit()
        stepper.text()
    assert read == positions
    stepper.back(position=positions[1])
    assert [*stepper._history()][: positions[1]] == [*stepper._history()[:-1]]
