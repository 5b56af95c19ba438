"""`GateBoard`: cells, words, runs on a thread, cancel, pages, the matrix."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import traitlets

import gate_samples as samples
from strata_nb import Model, gates
from strata_nb.errors import GateError
from strata_nb.gates import CaseResult, Finding, Report
from strata_widgets import GateBoard
from strata_widgets.gate_board import source
from strata_widgets.job import Job
from toy_gate import NEAR, case, result
from widgets.boards import cells, toy

FEW = "gate_3/[rc]*/context=below/residue=1/*"
THREE: Any = 3
LETTERS = {"same": "s", "near-tie": "n", "fault": "f"}


@pytest.fixture(scope="module")
def faulty(small: Model) -> Report:
    return gates.run("gate_3", model=small, fault="qsa_ring", only=FEW)


def test_a_new_board_has_a_hollow_cell_for_every_case(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    count = len(gates.cases("gate_3", model=small, only=FEW)["gate_3"])
    assert cells(board) == "." * count
    assert f"0 of {count} cases judged" in board.text()
    assert board.report is None


def test_a_run_to_its_end_shows_each_verdict(small: Model, faulty: Report) -> None:
    board = GateBoard("gate_3", model=small, fault="qsa_ring", only=FEW)
    report = board.run_to_end()
    assert report.compared() == faulty.compared()
    results = faulty.gates[0].results
    order = [r for f in ("reject", "chain") for r in results if r.case.family == f]
    assert cells(board) == "".join(LETTERS[r.verdict] for r in order)
    counts = [cells(board).count(letter) for letter in "sf"]
    assert all(counts)
    assert repr(board) == (
        f"GateBoard(gate_3, quick, qsa_ring planted: {sum(counts)} of {sum(counts)} "
        f"cases judged, {counts[0]} same, {counts[1]} fault; verdict: fault)"
    )
    again = GateBoard("gate_3", model=small, fault="qsa_ring", only=FEW)
    again.run_to_end()
    assert again.text() == board.text()
    assert GateBoard(faulty).text() == board.text()


def test_a_case_in_words_and_as_a_cell(faulty: Report) -> None:
    board = GateBoard(faulty)
    name = faulty.faults[0].id
    board.case = board.find(name)
    cause = faulty.faults[0].findings[0]
    told = board.told()
    assert (told.id, told.verdict, told.cause) == (name, "fault", cause)
    text = board.text()
    assert f"layer        {cause.layer}\ncell         {cause.cell}\n" in text
    assert "context=below, residue=1, " in text
    assert f"in qsa_tail layer {cause.layer} cell {cause.cell})" in text
    assert board.reproduce() in text + "\n"
    assert 'fault="qsa_ring"' in board.reproduce()
    # Linked views go to the place.
    assert board.selection == {
        "window": None,
        "layer": cause.layer,
        "cell": cause.cell,
    }


def test_clicks_keys_and_the_next_that_differs_select(faulty: Report) -> None:
    board = GateBoard(faulty)
    live = board._live["cells"]
    live._answer(None, {"kind": "click", "row": {"slot": 3}}, [])
    assert board.case == 3
    assert live.values["chosen"] == 3
    board._heard(None, {"kind": "control", "name": "case", "value": 4}, [])
    assert board.case == 4
    where = [n for n, letter in enumerate(cells(board)) if letter == "f"]
    board._heard(None, {"kind": "control", "name": "case", "value": None}, [])
    seen = []
    for _ in range(len(where) + 1):
        board._heard(None, {"kind": "control", "name": "next", "value": None}, [])
        seen.append(board.case)
    assert seen == [*where, where[0]]
    live._answer(None, {"kind": "click", "row": {"slot": 10_000}}, [])
    assert board.case == where[0]


def test_a_file_keeps_the_names_of_what_differs(tmp_path: Path, faulty: Report) -> None:
    faulty.save(tmp_path / "r.json")
    board = GateBoard(tmp_path / "r.json")
    assert sorted(cells(board)) == sorted(cells(GateBoard(faulty)))
    for listed in faulty.faults:
        told = board.told(board.find(listed.id))
        assert (told.verdict, told.cause) == ("fault", listed.findings[0])
    assert cells(board)[0] == "s"
    board.case = 0
    assert "not kept: a report's file names only" in board.text()
    with pytest.raises(ValueError, match="case 0 has no name: a report's file names"):
        board.reproduce()
    with pytest.raises(ValueError, match="a finished report; make one with a gate's"):
        board.start()


def test_what_proved_nothing_is_not_the_same(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only="gate_3/margin/context=below/*")
    board.run_to_end()
    assert set(cells(board)) == {"v"}
    assert "verdict: vacuous (never changed: " in repr(board)


def on_a_page(act: Callable[[], Any], board: GateBoard, until: Any) -> None:
    """Run `act` where a loop runs, and look until `until` or the end of the run."""

    async def go() -> None:
        act()
        while board.running and not until():
            await asyncio.sleep(0.01)

    asyncio.run(go())


def test_a_run_on_its_thread_fills_cells_and_is_cancelled(small: Model) -> None:
    board = GateBoard("gate_3", model=small)
    seen: list[int] = []

    def third() -> bool:
        judged = len(cells(board)) - cells(board).count(".")
        seen.append(judged)
        if judged >= 3:
            board.cancel()
        return False

    on_a_page(board.start, board, third)
    counts = board._book.counts()
    judged = board._book.total - counts["not yet"]
    assert 3 <= judged < board._book.total
    assert cells(board).count("s") == judged == counts["same"]
    assert seen == sorted(seen)
    assert f"gate_3, quick, cancelled: {judged} of 404 cases judged" in repr(board)
    assert board.report is None
    assert not board._ticker.running


def test_the_work_is_done_on_one_other_thread(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def run(*names: str, each: Any, **how: Any) -> Report:
        threads.append(threading.current_thread().name)
        return gates.run(*names, each=each, **how)

    monkeypatch.setattr(source, "run", run)
    board = GateBoard("gate_3", model=small, only=FEW)
    on_a_page(board.start, board, lambda: False)
    assert threads == ["strata-gate-board"]
    assert set(cells(board)) == {"s"}
    assert board.report is not None
    assert "verdict: same" in repr(board)


def test_a_run_that_breaks_says_why(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*names: str, each: Any, cancel: Any, **how: Any) -> Report:
        raise GateError("the disk is full; make room")

    monkeypatch.setattr(source, "run", run)
    board = GateBoard("gate_3", model=small, only=FEW)
    on_a_page(board.start, board, lambda: False)
    assert board._page["note"] == {
        "kind": "error",
        "text": "the disk is full; make room",
    }
    assert ", broken off: 0 of" in repr(board)
    with pytest.raises(GateError, match="the disk is full"):
        board.run_to_end()
    assert not board.running


def test_outside_a_notebook_nothing_starts(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    with pytest.raises(RuntimeError, match=r"nobody would look .* use `run_to_end`"):
        board.start()
    assert not board.running


def test_an_interrupt_leaves_what_was_judged(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    cases = board._book._cases

    def work(each: Callable[[CaseResult], None], _: Any) -> Report:
        for one in cases[:3]:
            each(CaseResult(one))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        board._run_here(Job(work, kind="gate"))
    assert cells(board) == "sss" + "." * (len(cases) - 3)
    assert f"gate_3, quick, cancelled: 3 of {len(cases)} cases judged" in repr(board)
    assert not board.running


def test_a_case_counts_from_nought_on_its_axis(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    spec = board._live["cells"].spec
    axes = [layer["encoding"]["x"] for layer in spec["layer"]]
    assert {axis["scale"]["domain"][0] for axis in axes} == {0}
    assert axes[0]["axis"]["values"][0] == 0
    board.case = 0
    assert board._grid.place(0)[1] % board._grid.across == 0
    words = {
        c["as"]: c["calculate"]
        for c in spec["transform"]
        if "as" in c and "calculate" in c
    }
    assert words["place"] == f"datum.slot % {board._grid.across}"
    assert words["says"].startswith("'case ' + (firsts[datum.line] + datum.place) + ")


def test_a_case_is_drawn_once(faulty: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    board = GateBoard(faulty)
    drawn: list[int | None] = []
    draw = GateBoard._draw

    def noted(self: GateBoard) -> None:
        drawn.append(self.case)
        draw(self)

    monkeypatch.setattr(GateBoard, "_draw", noted)
    board.case = number = board.find(faulty.faults[0].id)
    assert drawn == [number]
    # Nothing of the selection moves: it must be drawn all the same.
    board.case = None
    board.case = number
    assert drawn == [number, None, number]


def test_a_selected_case_turns_the_page_and_none_follows(small: Model) -> None:
    board = GateBoard("gate_3", model=small, profile="full")
    assert board._page_shown() == 0
    board.case = board._book.total - 1
    assert board._page_shown() == board._grid.pages - 1
    assert board._live["cells"].values["chosen"] >= 0
    board._act("page", 0, {})
    assert board._live["cells"].values["chosen"] == -1
    board._act("page", None, {})
    assert board._page_shown() == board._newest_page


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: GateBoard("gate_9", model=m), ValueError, "no gate is named 'gate_"),
        (
            lambda m: GateBoard("gate_3", samples.full(), model=m),
            TypeError,
            "by name, ",
        ),
        (
            lambda m: GateBoard(THREE, model=m),
            TypeError,
            "got int; name a gate, such as",
        ),
        (
            lambda m: GateBoard("gate_3", model=THREE),
            TypeError,
            "`model` wants a bundled",
        ),
        (lambda m: GateBoard("none.json"), GateError, "there is no report at"),
    ],
)
def test_misuse(
    small: Model, make: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(small)


def test_misuse_of_a_board(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW, profile="full")
    with pytest.raises(traitlets.TraitError, match="`case` must be None or 0 to"):
        board.case = 10_000
    with pytest.raises(ValueError, match="no case is selected; click one, set `case`"):
        board.reproduce()
    with pytest.raises(ValueError, match=r"a case is 0 to [0-9]* here, got -1"):
        board.told(-1)
    with pytest.raises(ValueError, match="no case here is named 'x'"):
        board.find("x")
    with pytest.raises(
        ValueError, match="all faults are planted in the profile 'quick"
    ):
        board.plant_to_end()


def test_near_ties_have_a_sign_and_a_place() -> None:
    board = GateBoard(toy(result(case(), NEAR), result(case(number=1))))
    assert cells(board) == "ns"
    board.case = 0
    assert "near-tie in token" in repr(board)
    signs = json.dumps(board._live["cells"].spec)
    assert "\\u2248" in signs
    assert isinstance(board.told().cause, Finding)
