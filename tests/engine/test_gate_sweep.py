"""Workers of a scheduler do what one process does, also when one of them is killed."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import pytest

import strata_nb
from gate_samples import FLOOR, report
from strata_nb.errors import GateError
from strata_nb.gates.records import PARTS
from strata_nb.gates.report.tally import GateReport
from strata_nb.gates.spread import sweep
from strata_nb.gates.spread.tasks import Results, Setup, Task, plan
from strata_nb.gates.spread.workers import run_tasks
from toy_gate import case
from worker_plugin import SameSource

# Only half of it is typed.
DASK: Any = distributed

if sys.platform == "win32":
    pytest.skip("a worker is killed by a signal here", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # Silent: a worker that is killed on purpose makes it say a lot.
    with DASK.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as found:
        with DASK.Client(found.scheduler_address, set_as_default=False) as client:
            client.register_plugin(SameSource(sweep._IDENTITY["source"]))
        yield found


def tasks(folder: Path, *does: str, **more: Any) -> list[Task]:
    """One group for each of `does`."""
    cases = [
        case(kind, number=n, group=f"{kind} {n}", **more) for n, kind in enumerate(does)
    ]
    return plan("toy_gate", cases, path=str(folder))


def compared(found: list[Results]) -> bytes:
    results = [r for task in found for r in task]
    return report(GateReport.of("toy", "", results, parts=PARTS)).compared()


def test_a_killed_worker_loses_nothing(
    cluster: Any, tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, *["advance"] * 12, seconds=0.1)
    victim = cluster.workers[0].pid
    told: list[tuple[int, int]] = []

    def kill(done: int, total: int) -> None:
        if not told:
            os.kill(victim, signal.SIGKILL)
        told.append((done, total))

    found = sweep.run_tasks(
        wanted,
        address=cluster.scheduler_address,
        model=tiny,
        floor=FLOOR,
        progress=kill,
    )
    assert told == [(n, 12) for n in range(1, 13)]
    alone = run_tasks(wanted, model=tiny, floor=FLOOR)
    assert found == alone
    assert compared(found) == compared(alone)
    with pytest.raises(ProcessLookupError):
        _alive(victim)


def _alive(pid: int) -> None:
    """Raises where there is no such process any more; gives it a moment to go."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        os.kill(pid, 0)
        time.sleep(0.05)


def test_an_exception_in_a_gate_names_the_group(
    cluster: Any, tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, "same", "raise")
    message = "group 'raise 1' of toy_gate stopped with LookupError: no such thing; the"
    with pytest.raises(GateError, match=message) as caught:
        sweep.run_tasks(
            wanted, address=cluster.scheduler_address, model=tiny, floor=None
        )
    assert "in _raise" in caught.value.__notes__[0]


def test_workers_are_counted(cluster: Any) -> None:
    cluster.wait_for_workers(2)
    assert sweep.count(cluster.scheduler_address) == 2


def test_a_run_is_cancelled(
    cluster: Any, tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    with pytest.raises(GateError, match="was cancelled after 0 of 1 cases; start it"):
        sweep.run_tasks(
            tasks(tiny_folder, "same"),
            address=cluster.scheduler_address,
            model=tiny,
            floor=None,
            cancel=lambda: True,
        )


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("source", r"source [0-9a-f]{16}, wanted 0ther: install the same on all, then"),
        ("mlx", r"mlx [0-9.]+, wanted 0ther: install the same on all, then restart"),
    ],
)
def test_workers_that_run_other_code_are_refused(
    what: str,
    words: str,
    cluster: Any,
    tiny: strata_nb.Model,
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if this process, and not the worker, were the odd one.
    monkeypatch.setitem(sweep._IDENTITY, what, "0ther")
    with pytest.raises(GateError, match=r"worker tcp://\S+ has " + words):
        sweep.run_tasks(
            tasks(tiny_folder, "same"),
            address=cluster.scheduler_address,
            model=tiny,
            floor=None,
        )


def test_a_worker_that_joins_late_with_other_code_is_refused(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    (task,) = tasks(tiny_folder, "same")
    wanted = {**sweep._IDENTITY, "mlx": "0"}
    answer = sweep._work(task, Setup.of(tiny, None), wanted)
    assert "a worker that joined late has mlx" in str(answer)


def test_each_thread_of_a_worker_has_a_rig_and_keeps_it(
    tiny: strata_nb.Model, tiny_folder: Path
) -> None:
    wanted = tasks(tiny_folder, "rig", "advance")
    setup = Setup.of(tiny, None)

    def work() -> list[Any]:
        return [sweep._work(task, setup, sweep._IDENTITY) for task in wanted * 2]

    with ThreadPoolExecutor(2) as threads:
        # Each waits for the other, so that neither does the work of both.
        met = threading.Barrier(2)
        one, two = threads.map(lambda _: (met.wait(), work())[1], range(2))
    assert one[0] == one[2] != two[0] == two[2]
    assert (
        one[1]
        == one[3]
        == two[1]
        == two[3]
        == run_tasks(wanted[1:], model=tiny, floor=None)[0]
    )


def test_a_task_that_a_scheduler_gives_up_is_named(tiny_folder: Path) -> None:
    class Lost:
        def result(self) -> None:
            raise DASK.KilledWorker("key", SimpleNamespace(address="tcp://w"), 3)

    (task,) = tasks(tiny_folder, "same")
    with pytest.raises(
        GateError, match=r"'same 0' of toy_gate was lost \(KilledWorker: Att"
    ):
        sweep._result(Lost(), task)


def test_a_scheduler_without_workers_is_refused(
    tiny: strata_nb.Model, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DASK.LocalCluster(
        n_workers=0, dashboard_address=":0", silence_logs=50
    ) as empty:
        address = empty.scheduler_address
        client = DASK.Client(address, set_as_default=False)
        monkeypatch.setattr(sweep, "CONNECT_S", 0.5)
        with pytest.raises(GateError, match=f"at '{address}' has no workers; start"):
            sweep._wait_for_workers(client, address)
        monkeypatch.setattr(sweep, "PATIENCE_S", 0.1)
        monkeypatch.setattr(sweep, "_LOOK_S", 0.0)
        left = sweep._Left(client)
        time.sleep(0.2)
        with pytest.raises(
            GateError, match=r"no worker has been left for 0\.1 s; start"
        ):
            left.look()
        client.close()


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "nonsense", "tls://127.0.0.1:1"]
)
def test_a_scheduler_that_does_not_answer_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "CONNECT_S", 0.5)
    began = time.monotonic()
    with pytest.raises(GateError, match=f"no scheduler answers at '{address}' "):
        sweep.count(address)
    # Its own patience would be 30 s.
    assert time.monotonic() - began < 20


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(GateError, match=r"`pip install 'strata-nb\[sweep\]'`, or use"):
        sweep.count("tcp://127.0.0.1:1")
