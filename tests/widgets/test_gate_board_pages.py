"""`GateBoard` on its way to a page: few bytes, a place for each case, the matrix."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import vl_convert

from strata_nb import Model, gates
from strata_nb.gates import CaseResult, Report
from strata_nb.gates.report.tally import matrix as rows_of
from strata_widgets import GateBoard
from strata_widgets.drawing import with_rows
from strata_widgets.gate_board import drawings, source
from strata_widgets.gate_board.grid import Grid
from strata_widgets.job import Job
from toy_gate import FAULT, case, result
from widgets.boards import cells, toy

FEW = "gate_3/[rc]*/context=below/residue=1/*"


def test_all_faults_make_a_matrix(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def run(*names: str, each: Any, cancel: Any, **how: Any) -> Report:
        asked.append(names)
        for name, part in (("qsa_ring", "qsa_tail"), ("kv_cells_kept", "kv")):
            caught = ((part, "twin", 3), ("token", "serial", 1))
            one = case(touches=(part,), fault=name)
            answer = CaseResult(
                gates.Case("faults", "planted", one.params, one.touches),
                caught=caught if part == "kv" else (),
            )
            each(answer)
        return toy(result(case()))

    monkeypatch.setattr(source, "run", run)
    board = GateBoard("gate_3", model=small, only=FEW)
    empty = board._live["matrix"].rows
    assert empty == [{"note": "Plant all faults, and see here who catches them."}]
    board.plant_to_end()
    assert asked == [("faults",)]
    rows = board._live["matrix"].rows
    kv, tail = (drawings.COLUMNS.index(part) for part in ("kv", "qsa_tail"))
    assert [row["fault"] for row in rows] == ["qsa_ring", "kv_cells_kept"]
    assert [row["planted"] for row in rows] == [tail, kv]
    assert [rows[0]["l"][tail], rows[1]["l"][kv], rows[1]["l"][-1]] == [
        "missed",
        "T",
        "S",
    ]
    assert [sum(row["c"]) for row in rows] == [0, 4]
    assert board._live["matrix"].values["most"] == 3
    assert "1 of 2 planted faults caught" in repr(board)
    assert "kv_cells_kept  kv        kv: twin in 3; token: serial in 1" in board.text()
    assert set(cells(board)) == {"."}


def test_thousands_of_cases_stay_small_on_their_way(small: Model) -> None:
    board = GateBoard("gate_3", model=small, profile="full")
    cases = list(board._book._cases)
    sizes: list[int] = []
    live = board._live["cells"]
    live._pace._gap = board._pace._gap = 0
    live.send = lambda message: sizes.append(len(json.dumps(message)))
    held: list[int] = []
    board.observe(lambda _: held.append(len(live.rows)), "_page")
    board.observe(lambda change: sizes.append(len(json.dumps(change["new"]))), "_page")

    def work(each: Callable[[CaseResult], None], _: Any) -> Report:
        # No two that come together are neighbours: each is a row of its own.
        for number, one in enumerate([*cases[::2], *cases[1::2]]):
            each(CaseResult(one, (FAULT,) if number % 50 == 0 else ()))
            if number % 7 == 0:
                board._looked_at = 0.0
        return toy(result(case()))

    board._run_here(Job(work, kind="gate"))
    assert board._book.total == len(cases) > 8000
    assert board._book.counts()["not yet"] == 0
    assert len(sizes) > 500
    assert max(sizes) < 20_000
    assert 100 < max(held) <= 257
    assert len(live.rows[0]["v"]) <= 60 * 52


def test_a_fault_goes_to_the_page_once(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    chart = board._live["matrix"]
    chart._pace._gap = 0
    sent: list[Any] = []
    chart.send = lambda message: sent.append(message)
    one = case(touches=("kv",), fault="x")
    planted = gates.Case("faults", "planted", one.params, one.touches)
    board._planted = [*rows_of(None, [CaseResult(planted, (FAULT,))])]
    board.update()
    board.update()
    assert [[row["fault"] for row in message["rows"]] for message in sent] == [["x"]]


@pytest.mark.parametrize(
    ("most", "numbers"), [(1, ["0", "1"]), (2, ["0", "1", "2"]), (8, ["0", "4", "8"])]
)
def test_cases_are_counted_in_whole_numbers(most: int, numbers: list[str]) -> None:
    counts = [most, *[0] * (len(drawings.COLUMNS) - 1)]
    row = {"fault": "x", "planted": 1, "c": counts, "l": [""] * len(counts)}
    spec = with_rows(drawings.matrix(("x",)), [row]).to_dict()
    spec["params"] = [{"name": "most", "value": most}]
    picture = vl_convert.vegalite_to_svg(spec)
    legend = picture.split("role-legend-label")[1].split("</g>")[0]
    assert re.findall(">([0-9]+)</text>", legend) == numbers


def test_only_new_cells_travel(small: Model) -> None:
    board = GateBoard("gate_3", model=small, only=FEW)
    cases = board._book._cases
    live = board._live["cells"]
    before = live.rows
    for number in (0, 1, 5):
        board._fresh.append(board._book.take(CaseResult(cases[number])))
    board._draw()
    assert live.rows == [*before, {"at": 0, "v": "ss"}, {"at": 5, "v": "s"}]


def test_every_case_has_a_place_of_its_own(small: Model) -> None:
    board = GateBoard(model=small, profile="full")
    grid = Grid(board._book)
    places = [grid.place(number) for number in range(board._book.total)]
    assert len(set(places)) == board._book.total > 10_000
    assert [grid.case(*place) for place in places] == list(range(len(places)))
    for number in (0, 28, 29, 5000, board._book.total - 1):
        page, slot = grid.place(number)
        lines = grid.values(page)
        line, at = divmod(slot, grid.across)
        assert lines["firsts"][line] + at == number
        family = board.told(number).family
        assert lines["families"][line] == f"{family.gate} {family.name}"
        assert grid.row(page)["v"][slot] == "."
