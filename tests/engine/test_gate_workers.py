"""Who runs the cases cannot be seen in the results, and no process stays behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strata_nb
from gate_samples import FLOOR, report
from strata_nb.errors import GateError
from strata_nb.gates.records import PARTS
from strata_nb.gates.report.tally import GateReport
from strata_nb.gates.spread.tasks import Results, Task, plan
from strata_nb.gates.spread.workers import run_tasks
from toy_gate import case

if sys.platform == "win32":
    pytest.skip("processes are ended by signals here", allow_module_level=True)

MODULE = "toy_gate"


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def tasks(
    folder: Path, *does: str, fault: str | None = None, **more: Any
) -> list[Task]:
    """One group for each of `does`."""
    cases = [
        case(kind, number=n, group=f"{kind} {n}", **more) for n, kind in enumerate(does)
    ]
    return plan(MODULE, cases, path=str(folder), fault=fault)


def compared(found: list[Results]) -> bytes:
    results = [r for task in found for r in task]
    return report(GateReport.of("toy", "", results, parts=PARTS)).compared()


def notes(found: list[Results]) -> list[str]:
    return [f.note for task in found for r in task for f in r.findings]


def test_a_plan_has_a_task_a_group_and_keeps_the_order() -> None:
    groups = ["b", "a", "b", "", "a"]
    cases = [case(number=n, group=group) for n, group in enumerate(groups)]
    planned = plan(MODULE, cases, path="x", fault="qsa_ring")
    numbers = [[c["number"] for c in task.cases] for task in planned]
    assert numbers == [[0, 2], [1, 4], [3]]
    assert {(t.module, t.path, t.fault) for t in planned} == {(MODULE, "x", "qsa_ring")}


def test_the_results_do_not_show_how_many_workers_there_were(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, *["advance"] * 5, "same", "near-tie", "fault")
    wanted += tasks(tiny_folder, *["advance"] * 2, fault="qsa_ring")
    told: list[tuple[int, int]] = []
    one = run_tasks(wanted, model=tiny, floor=FLOOR, progress=lambda *n: told.append(n))
    assert told == [(n, 10) for n in range(1, 11)]
    told.clear()
    three = run_tasks(
        wanted, model=tiny, floor=FLOOR, workers=3, progress=lambda *n: told.append(n)
    )
    assert told == [(n, 10) for n in range(1, 11)]
    assert three == one
    assert compared(three) == compared(one)
    assert "qsa_ring" in notes(one)[-1]
    assert str(FLOOR) in notes(one)[0]


def test_results_keep_the_order_of_tasks_and_workers_share_them(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    cases = [
        case("pid", number=n, group=str(n), seconds=3.0 if n == 0 else 0.05)
        for n in range(8)
    ]
    wanted = plan(MODULE, cases, path=str(tiny_folder))
    found = run_tasks(wanted, model=tiny, floor=None, workers=2)
    assert [r.case for task in found for r in task] == cases
    pids = set(notes(found))
    assert len(pids) == 2
    assert str(os.getpid()) not in pids


def test_a_rig_is_opened_once_for_each_fault(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, "rig", "rig")
    wanted += tasks(tiny_folder, "rig", "rig", fault="qsa_ring")
    rigs = notes(run_tasks(wanted, model=tiny, floor=None))
    assert rigs[0] == rigs[1] != rigs[2] == rigs[3]


def test_the_task_of_a_process_that_dies_runs_again(
    tiny: strata_nb.Model, tiny_folder: Path, tmp_path: Path
) -> None:
    wanted = tasks(
        tiny_folder, "advance", "die", "same", flag=str(tmp_path / "f"), always=False
    )
    found = run_tasks(wanted, model=tiny, floor=None, workers=2)
    assert (tmp_path / "f").exists()
    # Here the flag is there already, so that nothing dies in this process.
    assert compared(found) == compared(run_tasks(wanted, model=tiny, floor=None))


def test_a_task_that_ends_every_process_is_named(
    tiny: strata_nb.Model, tiny_folder: Path, tmp_path: Path
) -> None:
    wanted = tasks(tiny_folder, "die", flag=str(tmp_path / "f"), always=True)
    message = (
        r"group 'die 0' of toy_gate was begun 3 times and each time its process died, "
        r"at last with code -9; use fewer workers if memory ran out"
    )
    with pytest.raises(GateError, match=message):
        run_tasks(wanted, model=tiny, floor=None, workers=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_in_a_gate_names_the_group(
    workers: int, tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, "same", "raise")
    message = "group 'raise 1' of toy_gate stopped with LookupError: no such thing; the"
    with pytest.raises(GateError, match=message) as caught:
        run_tasks(wanted, model=tiny, floor=None, workers=workers)
    if workers == 1:
        assert isinstance(caught.value.__cause__, LookupError)
    else:
        assert "in _raise" in caught.value.__notes__[0]


def test_answers_to_other_cases_are_refused(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, "other")
    with pytest.raises(
        GateError, match="'other 0' of toy_gate answered 1 cases, wanted"
    ):
        run_tasks(wanted, model=tiny, floor=None)


def test_another_model_at_the_path_is_refused_by_its_digest(
    tiny: strata_nb.Model, small: strata_nb.Model
) -> None:
    wanted = tasks(small.checkpoint.path, "same")
    message = r"group 'same 0' of toy_gate has no model .*: the model there has digest"
    with pytest.raises(GateError, match=message):
        run_tasks(wanted, model=tiny, floor=None, workers=2)


def test_a_model_that_is_gone_is_named(tiny: strata_nb.Model, tmp_path: Path) -> None:
    wanted = tasks(tmp_path / "gone", "same")
    with pytest.raises(GateError, match=r"has no model .*gone: there is no folder"):
        run_tasks(wanted, model=tiny, floor=None, workers=2)


class StopError(Exception):
    pass


def _stop(done: int, total: int) -> None:
    raise StopError


def _interrupt(done: int, total: int) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("progress", "error"), [(_stop, StopError), (_interrupt, KeyboardInterrupt)]
)
def test_whatever_stops_a_run_ends_its_processes_at_once(
    progress: Any,
    error: type[BaseException],
    workers: int,
    tiny: strata_nb.Model,
    tiny_folder: Path,
) -> None:
    wanted = tasks(tiny_folder, "same") + tasks(tiny_folder, "same", seconds=600)
    began = time.monotonic()
    with pytest.raises(error):
        run_tasks(wanted, model=tiny, floor=None, workers=workers, progress=progress)
    assert time.monotonic() - began < 300


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_cancelled_between_two_cases(
    workers: int, tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    asked = threading.Event()
    wanted = tasks(tiny_folder, "same") + tasks(tiny_folder, *["same"] * 3, seconds=60)
    with pytest.raises(GateError, match="was cancelled after 1 of 4 cases; start it"):
        run_tasks(
            wanted,
            model=tiny,
            floor=None,
            workers=workers,
            progress=lambda done, total: asked.set(),
            cancel=asked.is_set,
        )


def test_fewer_workers_than_one_are_refused(tiny: strata_nb.Model) -> None:
    with pytest.raises(ValueError, match="`workers` is 0, wanted 1 or more processes"):
        run_tasks([], model=tiny, floor=None, workers=0)


def test_no_tasks_have_no_results(tiny: strata_nb.Model) -> None:
    assert run_tasks([], model=tiny, floor=None, workers=4) == []


UNGUARDED = """
import sys
import strata_nb, toy_gate
from strata_nb.gates.spread.tasks import plan
from strata_nb.gates.spread.workers import run_tasks

model = strata_nb.load(sys.argv[1])
tasks = plan("toy_gate", [toy_gate.case()], path=sys.argv[1])
run_tasks(tasks, model=model, floor=None, workers=2)
"""


def test_a_script_that_cannot_be_imported_is_told_why(
    tiny_folder: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(script), str(tiny_folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "ended with code 1 before it could work; put what starts the run" in last
