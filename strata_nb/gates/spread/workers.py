"""Spread the tasks of gates over processes of this machine; the results do not show it.

A pool of our own, and not the standard library's executor: when a process of that one
dies, nobody can say whose task it was, and every task that runs has to run again.
"""

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait

from strata_nb.errors import GateError
from strata_nb.gates.judge.floor import Floor
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
    run_task,
)
from strata_nb.model import Model

TRIES = 3
"""How often a task is begun at most while the processes that run it die."""

_POLL_S = 0.1
_GOODBYE_S = 5.0


def run_tasks(
    tasks: Sequence[Task],
    *,
    model: Model,
    floor: Floor | None,
    workers: int = 1,
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
    each: Each | None = None,
) -> list[Results]:
    """Run `tasks`; the results are the same whatever the number of workers.

    Ctrl-C, an exception that `progress` raises and `cancel` end the run and every
    process of it. A process that dies is replaced and its task runs again.

    Args:
        tasks: all on `model`.
        model: the model that the tasks name, as this process has it.
        floor: its rounding floor.
        workers: processes; 1 runs in this one.
        progress: called in this thread with (cases done, cases in all); it may raise
            to cancel.
        cancel: asked now and then; True ends the run.
        each: called in this thread with each result as it comes.

    Returns:
        For each task its results, in the order of `tasks`.

    Raises:
        ValueError: `workers` is below 1.
        GateError: a gate raised, a task's process died `TRIES` times, or the run was
            cancelled; the message names the group.
    """
    if workers < 1:
        raise ValueError(f"`workers` is {workers}, wanted 1 or more processes")
    setup = Setup.of(model, floor)
    watch = Watch(tasks, progress, cancel, each)
    if workers == 1:
        rigs = Rigs(setup, {task.path: model for task in tasks})
        return [run_task(task, rigs, each=watch.add) for task in tasks]
    pool = _Pool(tasks, setup, watch)
    try:
        pool.start(min(workers, len(tasks)))
        found = pool.run()
    except BaseException:
        pool.kill()
        raise
    pool.close()
    return found


class _Worker:
    """One process, its end of a pipe, and the number of the task it has."""

    def __init__(self, setup: Setup) -> None:
        # A forked copy of a process with MLX's threads would hang: always a new one.
        context = multiprocessing.get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        # A daemon: it ends with this process even where nobody ends it.
        self.process = context.Process(
            target=_serve, args=(self._theirs, setup), daemon=True
        )
        self.ready = False
        self.task: int | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it will still say something."""
        return not self.ready or self.task is not None

    def start(self) -> None:
        self.process.start()
        # With a copy of it open here, the death of the process would not be noticed.
        self._theirs.close()


class _Pool:
    """Hands tasks out, gathers results, replaces processes that die."""

    def __init__(self, tasks: Sequence[Task], setup: Setup, watch: Watch) -> None:
        self._tasks, self._setup, self._watch = tasks, setup, watch
        self._waiting = deque(range(len(tasks)))
        self._begun = [0] * len(tasks)
        self._found: dict[int, Results] = {}
        self._workers: list[_Worker] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            worker = _Worker(self._setup)
            # In the list before it runs, or Ctrl-C between the two would lose it.
            self._workers.append(worker)
            worker.start()

    def run(self) -> list[Results]:
        while len(self._found) < len(self._tasks):
            self._watch.go_on()
            ready = wait([w.connection for w in self._workers if w.is_busy], _POLL_S)
            for worker in [w for w in self._workers if w.connection in ready]:
                try:
                    answer = worker.connection.recv()
                except (EOFError, OSError):
                    self._replace(worker)
                else:
                    self._take(worker, answer)
                    self._hand_out(worker)
        return [self._found[index] for index in range(len(self._tasks))]

    def _take(self, worker: _Worker, answer: Results | Failure | None) -> None:
        """None is the first word of a process: it is there."""
        if isinstance(answer, Failure):
            raise answer.error()
        worker.ready = True
        if worker.task is None or answer is None:
            return
        self._found[worker.task] = answer
        worker.task = None
        self._watch.add(*answer)

    def _hand_out(self, worker: _Worker) -> None:
        if self._waiting:
            worker.task = self._waiting.popleft()
            self._begun[worker.task] += 1
            # Where it has just died, the next look at its connection says so.
            with contextlib.suppress(OSError):
                worker.connection.send(self._tasks[worker.task])

    def _replace(self, worker: _Worker) -> None:
        worker.process.join()
        code = worker.process.exitcode
        if not worker.ready:
            raise GateError(
                f"a worker process ended with code {code} before it could work; put "
                "what starts the run under `if __name__ == '__main__':`, or use one "
                "worker"
            )
        if worker.task is not None:
            task = self._tasks[worker.task]
            if self._begun[worker.task] == TRIES:
                raise GateError(
                    f"{task.name} was begun {TRIES} times and each time its process "
                    f"died, at last with code {code}; use fewer workers if memory ran "
                    "out, or one to see where"
                )
            self._waiting.appendleft(worker.task)
        self._workers.remove(worker)
        self.start(1)

    def close(self) -> None:
        """Let the processes end by themselves: nothing more will come."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_GOODBYE_S)
        self.kill()

    def kill(self) -> None:
        """End every process, whatever it does."""
        for worker in self._workers:
            worker.connection.close()
            if worker.process.pid is not None:
                worker.process.kill()
                worker.process.join()
                worker.process.close()


def _serve(connection: Connection, setup: Setup) -> None:
    """What a process does: tasks, until nobody sends any."""
    # Ctrl-C reaches every process of a terminal; the one that started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rigs = Rigs(setup)
    try:
        connection.send(None)
        while True:
            connection.send(attempt(connection.recv(), rigs))
    except (EOFError, OSError):
        return
