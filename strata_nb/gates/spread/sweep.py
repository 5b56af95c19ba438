"""Spread the tasks of gates over machines, by a scheduler of dask.distributed.

Tasks and results travel between processes that trust each other; whoever can reach the
scheduler can run anything on its workers. No file ever holds what travels.
"""

import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from strata_nb.errors import GateError
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.report.provenance import source_digest, versions
from strata_nb.gates.spread.tasks import (
    Each,
    Failure,
    Progress,
    Results,
    Rigs,
    Setup,
    Task,
    Watch,
    attempt,
)
from strata_nb.model import Model

CONNECT_S = 10.0
"""How long a scheduler may take to answer, and then to have a worker, seconds."""

PATIENCE_S = 60.0
"""How long a run waits for a new worker when the last one is gone, seconds."""

_POLL_S = 0.05
_LOOK_S = 2.0  # between two looks at who is left

# As this module is imported: who edits code under a running worker changes the files,
# but not what that worker runs.
_IDENTITY = {
    "source": source_digest()[:16],
    "system": f"{platform.system()} {platform.machine()}",
    **versions(),
}
_here = threading.local()


def run_tasks(
    tasks: Sequence[Task],
    *,
    address: str,
    model: Model,
    floor: Floor | None,
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
    each: Each | None = None,
) -> list[Results]:
    """Run `tasks` on the workers of a scheduler; the results are those of one process.

    When a worker dies, what it had runs again on another one. Whatever ends the run
    early, tasks that have not begun are dropped; those that have end by themselves.

    Args:
        tasks: all on `model`; their path has to lead every worker to the same files.
        address: of a running scheduler, as "tcp://host:8786".
        model: the model that the tasks name, as this process has it.
        floor: its rounding floor.
        progress: called in this thread with (cases done, cases in all); it may raise
            to cancel.
        cancel: asked now and then; True ends the run.
        each: called in this thread with each result as it comes.

    Returns:
        For each task its results, in the order of `tasks`.

    Raises:
        GateError: dask.distributed is not installed, no scheduler answers, it has no
            workers or some that run other code, a gate raised, a task's worker died
            again and again, or the run was cancelled.
    """
    setup = Setup.of(model, floor)
    watch = Watch(tasks, progress, cancel, each)
    with _connected(address) as client:
        _check_workers(client, address)
        # Never "pure": a task with the name of an earlier one would not run again.
        futures = [
            client.submit(_work, task, setup, _IDENTITY, pure=False) for task in tasks
        ]
        try:
            found = _gathered(client, futures, tasks, watch)
        finally:
            client.cancel([future for future in futures if not future.done()])
    return [found[index] for index in range(len(tasks))]


def count(address: str) -> int:
    """How many workers the scheduler at `address` has.

    Raises:
        GateError: no scheduler answers, or it has no workers.
    """
    with _connected(address) as client:
        return len(_wait_for_workers(client, address))


def _work(task: Task, setup: Setup, wanted: Mapping[str, str]) -> Results | Failure:
    """On a worker: run one task."""
    other = _difference(_IDENTITY, wanted)
    if other:
        return Failure(f"a worker that joined late has {other}", trace="")
    # A rig each thread: MLX's streams belong to threads.
    if getattr(_here, "setup", None) != setup:
        _here.setup, _here.rigs = setup, Rigs(setup)
    return attempt(task, _here.rigs)


def _identity() -> Mapping[str, str]:
    """On a worker: what has to be the same everywhere."""
    return _IDENTITY


def _difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """In words what a worker has otherwise, with the remedy; empty if nothing."""
    found = [
        f"{name} {theirs.get(name)}, wanted {ours[name]}"
        for name in ours
        if theirs.get(name) != ours[name]
    ]
    if not found:
        return ""
    return f"{'; '.join(found)}: install the same on all, then restart the workers"


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise GateError(
            "a scheduler wants dask.distributed, which is not installed here; "
            "`pip install 'strata-nb[sweep]'`, or use workers of this machine"
        ) from error
    client = distributed.Client.__new__(distributed.Client)
    try:
        client.__init__(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
        # Made in two goes for this line: a client that never connected would wait many
        # seconds, when it is thrown away, for its own connection to close.
        client.status = "closed"
        raise GateError(
            f"no scheduler answers at {address!r} ({error}); start one with `dask "
            "scheduler` and give the address that it prints, as tcp://host:8786"
        ) from error
    try:
        yield client
    finally:
        client.close()


def _wait_for_workers(client: Any, address: str) -> list[str]:
    ends = time.monotonic() + CONNECT_S
    while not (found := sorted(client.nthreads())):
        if time.monotonic() > ends:
            raise GateError(
                f"the scheduler at {address!r} has no workers; start some with `dask "
                f"worker {address}` where strata-nb[sweep] is installed"
            )
        time.sleep(_POLL_S)
    return found


def _check_workers(client: Any, address: str) -> None:
    _wait_for_workers(client, address)
    for worker, theirs in sorted(client.run(_identity, on_error="return").items()):
        if isinstance(theirs, BaseException):
            raise GateError(
                f"worker {worker} cannot run a gate ({type(theirs).__name__}: {theirs})"
                "; install strata-nb[sweep] where it runs, and restart it"
            )
        other = _difference(theirs, _IDENTITY)
        if other:
            raise GateError(f"worker {worker} has {other}")


def _gathered(
    client: Any, futures: Sequence[Any], tasks: Sequence[Task], watch: Watch
) -> dict[int, Results]:
    """The results by number of their task, as they come."""
    number = {future.key: index for index, future in enumerate(futures)}
    coming = import_module("distributed").as_completed(futures, loop=client.loop)
    left = _Left(client)
    found: dict[int, Results] = {}
    while len(found) < len(futures):
        watch.go_on()
        batch = coming.next_batch(block=False)
        for future in batch:
            index = number[future.key]
            found[index] = _result(future, tasks[index])
            # Or it would run again when the worker that did it dies later.
            future.release()
            watch.add(*found[index])
        if not batch:
            left.look()
            time.sleep(_POLL_S)
    return found


def _result(future: Any, task: Task) -> Results:
    try:
        answer: Results | Failure = future.result()
    # Whatever can happen to a task: its worker died too often, it was forgotten …
    except Exception as error:
        raise GateError(
            f"{task.name} was lost ({type(error).__name__}: "
            f"{str(error).partition('. ')[0]}); if its workers ran out of memory, give "
            "them more, or run that group with one worker"
        ) from error
    if isinstance(answer, Failure):
        raise answer.error()
    return answer


class _Left:
    """Looks now and then whether any worker is left."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = self._looked = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        if self._client.nthreads():
            self._seen = now
        elif now - self._seen > PATIENCE_S:
            raise GateError(
                f"no worker has been left for {PATIENCE_S:g} s; start some with `dask "
                "worker`, then the run again"
            )
