"""What runs in one go: cases of one group on one rig, and how to run them anywhere."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import mlx.core as mx

from strata_nb.errors import GateError, StrataError
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.report.provenance import device
from strata_nb.gates.stage.rig import Rig
from strata_nb.model import Model, load

Progress: TypeAlias = Callable[[int, int], None]
Each: TypeAlias = Callable[[CaseResult], None]
Results: TypeAlias = tuple[CaseResult, ...]


@dataclass(frozen=True)
class Task:
    """Cases of one gate that run in one go, in one process.

    Attributes:
        module: import path of the gate.
        cases: of one group, in order.
        path: the model, as `strata_nb.load` takes it.
        fault: planted into every subject; None: none is.
    """

    module: str
    cases: tuple[Case, ...]
    path: str
    fault: str | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        group = self.cases[0].group if self.cases else ""
        return f"group {group!r} of {self.module.removeprefix('strata_nb.gates.')}"


def plan(
    module: str, cases: Iterable[Case], *, path: str, fault: str | None = None
) -> list[Task]:
    """One task for each group of `cases`, in the order in which groups begin.

    Args:
        module: import path of the gate whose cases they are.
        cases: in their order, which their group keeps.
        path: the model, as `strata_nb.load` takes it.
        fault: planted into every subject; None: none is.
    """
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.group, []).append(case)
    return [Task(module, tuple(group), path, fault) for group in groups.values()]


@dataclass(frozen=True)
class Setup:
    """What every process must share with the one that asked.

    Attributes:
        floor: the rounding floor, measured once, so that all judge by the same numbers.
        digest: of the model.
        dtype: of its weights and activations.
        device: "cpu" or "gpu".
    """

    floor: Floor | None
    digest: str
    dtype: Any
    device: str

    @classmethod
    def of(cls, model: Model, floor: Floor | None) -> "Setup":
        """Of the process that has `model`."""
        return cls(floor, model.digest, model.dtype, device())


@dataclass
class Rigs:
    """The rigs of one process, or of one thread; each is opened once.

    Attributes:
        setup: what they share with the process that asked.
        models: those loaded so far, by path.
    """

    setup: Setup
    models: dict[str, Model] = field(default_factory=dict)
    _open: dict[tuple[str, str | None], Rig] = field(default_factory=dict)

    def rig(self, task: Task) -> Rig:
        """The rig that `task` runs on.

        Raises:
            GateError: the model here is another one than where the run was started.
            CheckpointError: there is none at that path, or it cannot be read.
        """
        key = (task.path, task.fault)
        if key not in self._open:
            model = self._model(task.path)
            self._open[key] = Rig(model, fault=task.fault, floor=self.setup.floor)
        return self._open[key]

    def _model(self, path: str) -> Model:
        if path not in self.models:
            mx.set_default_device(mx.cpu if self.setup.device == "cpu" else mx.gpu)
            self.models[path] = load(path, dtype=self.setup.dtype)
        model = self.models[path]
        if model.digest != self.setup.digest:
            raise GateError(
                f"the model there has digest {model.digest[:16]}, where the run was "
                f"started {self.setup.digest[:16]}; give all workers the same files"
            )
        return model


def run_task(task: Task, rigs: Rigs, *, each: Each = lambda _: None) -> Results:
    """Run one task in this thread.

    Args:
        task: what to run.
        rigs: where it finds its rig.
        each: called with each result; it may raise to cancel.

    Raises:
        GateError: the model does not open, the gate raised, or it answered other cases
            than it was asked; the message names the group.
    """
    try:
        rig = rigs.rig(task)
    except StrataError as error:
        raise GateError(f"{task.name} has no model {task.path}: {error}") from error
    found = []
    for result in _answers(task, rig):
        found.append(result)
        each(result)
    if tuple(result.case for result in found) != task.cases:
        raise GateError(
            f"{task.name} answered {len(found)} cases, wanted just the "
            f"{len(task.cases)} it was asked, in their order; mend its `run`"
        )
    return tuple(found)


def _answers(task: Task, rig: Rig) -> Iterator[CaseResult]:
    """What the gate answers; an exception inside it names the group."""
    try:
        yield from import_module(task.module).run(task.cases, rig)
    except Exception as error:
        raise GateError(
            f"{task.name} stopped with {type(error).__name__}: {error}; the gate "
            "itself is wrong: run that group with one worker to see where"
        ) from error


@dataclass(frozen=True)
class Failure:
    """An exception as words: not every exception survives a journey."""

    message: str
    trace: str

    def error(self) -> GateError:
        """The error to raise where the results are wanted."""
        found = GateError(self.message)
        found.add_note(self.trace)
        return found


def attempt(task: Task, rigs: Rigs) -> Results | Failure:
    """`run_task` in another process, whose answer travels."""
    try:
        return run_task(task, rigs)
    except Exception as error:
        kind = "" if isinstance(error, GateError) else f"{type(error).__name__}: "
        return Failure(f"{kind}{error}", traceback.format_exc())


class Watch:
    """Counts cases that are done, tells, and asks whether to go on.

    Args:
        tasks: all there are.
        progress: called with (cases done, cases in all); it may raise to cancel.
        cancel: True ends the run.
        each: called with each result as it comes; it may raise to cancel.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        progress: Progress | None,
        cancel: Callable[[], bool] | None,
        each: Each | None,
    ) -> None:
        self._all = sum(len(task.cases) for task in tasks)
        self._done = 0
        self._progress, self._cancel, self._each = progress, cancel, each

    def add(self, *results: CaseResult) -> None:
        """These are done as well.

        Raises:
            GateError: the run is cancelled.
        """
        self._done += len(results)
        if self._each is not None:
            for result in results:
                self._each(result)
        if self._progress is not None:
            self._progress(self._done, self._all)
        self.go_on()

    def go_on(self) -> None:
        """Nothing, unless the run is cancelled.

        Raises:
            GateError: it is.
        """
        if self._cancel is not None and self._cancel():
            raise GateError(
                f"the run was cancelled after {self._done} of {self._all} cases; "
                "start it again for a report"
            )
