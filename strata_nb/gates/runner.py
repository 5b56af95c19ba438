"""Runs gates by name, here or on many workers, and says what came of it."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from weakref import WeakKeyDictionary

from strata_nb.errors import GateError
from strata_nb.faults import find
from strata_nb.gates.judge.floor import Floor, measure
from strata_nb.gates.records import (
    HEAD_PARTS,
    PARTS,
    PROFILES,
    STATES,
    Case,
    Profile,
    Scalar,
)
from strata_nb.gates.report import Report, as_text, provenance
from strata_nb.gates.report.tally import GateReport
from strata_nb.gates.spread import sweep, workers
from strata_nb.gates.spread.tasks import Each, Progress, Task, plan
from strata_nb.gates.stage.places import can_be_made, needed, parts_of
from strata_nb.model import Model, load

GATES: Mapping[str, str] = MappingProxyType(
    {
        "gate_1": "strata_nb.gates.gate_1.defaults",
        "gate_2": "strata_nb.gates.gate_2.widths",
        "gate_3": "strata_nb.gates.gate_3.rejection",
        "gate_4": "strata_nb.gates.gate_4.resume",
        "gate_5": "strata_nb.gates.gate_5.quality",
        "known": "strata_nb.gates.known",
        "tail": "strata_nb.gates.tail.engine",
        "faults": "strata_nb.gates.planted",
    }
)
"""Every gate and the module that holds it."""

RELEASE = ("gate_1", "gate_2", "gate_3", "gate_4", "gate_5", "known")
"""What a release has to pass; the others test the gates themselves."""

_floors: WeakKeyDictionary[Model, Floor | None] = WeakKeyDictionary()


def run(
    *names: str,
    model: str | os.PathLike[str] | Model = "strata-tiny",
    profile: Profile = "quick",
    fault: str | None = None,
    only: str = "*",
    processes: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
    each: Each | None = None,
) -> Report:
    """Run gates and report; a fault found is a result, not an exception.

    Args:
        names: of `GATES`; none: those of `RELEASE`, and in the larger profiles the
            two that test the gates themselves.
        model: a bundled name, a folder, or a loaded model.
        profile: "quick" (a minute), "full" (half an hour) or "exhaustive" (hours).
        fault: planted into every subject, never into what it is compared with.
        only: cases whose id matches, with * and ? as in file names.
        processes: of this machine that share the cases.
        scheduler: address of a dask scheduler to share them with instead.
        progress: called with (cases done, cases in all); it may raise to cancel.
        cancel: asked now and then; True ends the run.
        each: called with each result as it comes; from other processes a task's
            together, in no fixed order. It may raise to cancel.

    Raises:
        ValueError: no such gate, profile or fault, nothing matches `only`, or
            `processes` is below 1, or above it for a model with experts in slots.
        TypeError: `model`, `only` or `processes` is of another kind.
        GateError: a gate or its workers broke; the message names the cases.
        CheckpointError: the model cannot be read.
    """
    began = time.monotonic()
    _refuse_processes(processes)
    loaded, asked = _asked(names, model, profile, fault, only)
    if loaded.pool is not None and (processes > 1 or scheduler):
        raise ValueError(
            "other processes would load the model with all its experts in memory, and "
            "this one has them in slots; leave `processes` at 1 and `scheduler` out"
        )
    # Absolute: a worker may have another current folder.
    path = str(loaded.checkpoint.path.resolve())
    floor = _floor(loaded)
    # Asked before: a scheduler may be gone when the cases are done.
    count = sweep.count(scheduler) if scheduler else processes
    tasks = [
        task
        for name, cases in asked.items()
        for task in plan(GATES[name], cases, path=path, fault=fault)
    ]
    watched = {"progress": progress, "cancel": cancel, "each": each}
    done = _run_tasks(tasks, loaded, floor, processes, scheduler, watched)
    options: dict[str, Scalar] = {"gates": ",".join(asked), "only": only}
    if loaded.pool is not None:
        options["slots"] = loaded.pool.slots
    return Report.of(
        _reports(asked, tasks, done, parts_of(loaded.config)),
        profile=profile,
        fault=fault,
        floor=floor,
        provenance=provenance.provenance(loaded, options=options),
        about=provenance.about(
            seconds=time.monotonic() - began,
            workers=count,
            path=path,
        ),
    )


def cases(
    *names: str,
    model: str | os.PathLike[str] | Model = "strata-tiny",
    profile: Profile = "quick",
    fault: str | None = None,
    only: str = "*",
) -> dict[str, tuple[Case, ...]]:
    """The cases that `run` would run, of each gate in their order.

    Args:
        names: as `run` takes them, like the others.
        model: a bundled name, a folder, or a loaded model.
        profile: "quick", "full" or "exhaustive".
        fault: planted into every subject.
        only: cases whose id matches.

    Raises:
        ValueError: as `run` raises it.
        TypeError: as `run` raises it.
        GateError: the model is too small for a gate.
        CheckpointError: the model cannot be read.
    """
    _, asked = _asked(names, model, profile, fault, only)
    return {name: tuple(found) for name, found in asked.items()}


def _asked(
    names: Sequence[str],
    model: str | os.PathLike[str] | Model,
    profile: Profile,
    fault: str | None,
    only: str,
) -> tuple[Model, dict[str, list[Case]]]:
    """The model and the cases of a run, or why there can be none."""
    chosen = _chosen(names, profile)
    _refuse_kinds(model, only)
    if fault is not None:
        find(fault)
        chosen = tuple(name for name in chosen if name != "faults")
        if not chosen:
            raise ValueError(
                "the gate 'faults' plants each fault by itself; leave `fault` out, or "
                "name another gate"
            )
    loaded = model if isinstance(model, Model) else load(model)
    _refuse_unfit(loaded, fault)
    asked = {name: _cases(name, loaded, profile, only) for name in chosen}
    _refuse_blind(fault, [case for some in asked.values() for case in some])
    if not any(asked.values()):
        raise ValueError(f"no case of {', '.join(chosen)} matches `only`, {only!r}")
    return loaded, asked


def _refuse_kinds(model: object, only: object) -> None:
    """What would break later, inside other code, breaks here by its own name."""
    if not isinstance(model, str | os.PathLike | Model):
        raise TypeError(
            "`model` wants a bundled name, a folder or a loaded model, got "
            f"{model!r}; leave it out for 'strata-tiny'"
        )
    if not isinstance(only, str):
        raise TypeError(
            f"`only` wants a pattern such as 'gate_3/*', got {only!r}; leave it out "
            "for every case"
        )


def _refuse_processes(processes: object) -> None:
    if isinstance(processes, bool) or not isinstance(processes, int):
        raise TypeError(
            f"`processes` wants a whole number, 1 or more, got {processes!r}; leave "
            "it out to run in this process"
        )
    if processes < 1:
        raise ValueError(
            f"`processes` is {processes}, wanted 1 or more; 1 runs in this process"
        )


def _refuse_blind(fault: str | None, cases: Sequence[Case]) -> None:
    """A fault of what no case looks at would pass for none."""
    if fault is None or not cases:
        return
    part = find(fault).part
    if not any(part in case.touches for case in cases):
        raise ValueError(
            f"no case asked for looks at the {part}, where the fault {fault!r} is; "
            f"ask for one of {', '.join(find(fault).families)}, such as "
            f"`only='*/{find(fault).families[0]}/*'`"
        )


def _refuse_unfit(model: Model, fault: str | None) -> None:
    """No gate that could not look everywhere, and no fault that cannot be."""
    config = model.config
    if config.max_position_embeddings < needed(config):
        raise GateError(
            f"{model.name} has {config.max_position_embeddings} positions, and the "
            f"gates want {needed(config)}, to look beyond its sparse threshold and the "
            "end of a page; take a model with more, or a smaller indexer budget"
        )
    if fault is not None and not can_be_made(find(fault), config):
        raise ValueError(
            f"{model.name} cannot have the fault {fault!r} of {find(fault).part}; it "
            f"has {', '.join(parts_of(config))}"
        )


def _chosen(names: Sequence[str], profile: Profile) -> tuple[str, ...]:
    if profile not in PROFILES:
        raise ValueError(f"`profile` is {profile!r}, wanted {', '.join(PROFILES)}")
    for name in names:
        if name not in GATES:
            raise ValueError(f"no gate is named {name!r}; wanted {', '.join(GATES)}")
    everything = RELEASE if profile == "quick" else tuple(GATES)
    return tuple(dict.fromkeys(names)) or everything


def _cases(name: str, model: Model, profile: Profile, only: str) -> list[Case]:
    module: Any = import_module(GATES[name])
    config = model.config
    found = module.cases(config, profile, config.max_position_embeddings)
    return [case for case in found if fnmatchcase(case.id, only)]


def _floor(model: Model) -> Floor | None:
    if model not in _floors:
        _floors[model] = measure(model)
    return _floors[model]


def _run_tasks(
    tasks: Sequence[Task],
    model: Model,
    floor: Floor | None,
    processes: int,
    scheduler: str | None,
    watched: Mapping[str, Any],
) -> list[Any]:
    shared: dict[str, Any] = {"model": model, "floor": floor, **watched}
    if scheduler is not None:
        return sweep.run_tasks(tasks, address=scheduler, **shared)
    return workers.run_tasks(tasks, workers=processes, **shared)


def _reports(
    cases: Mapping[str, Sequence[Case]],
    tasks: Sequence[Task],
    done: Sequence[Any],
    parts: Sequence[str],
) -> list[GateReport]:
    """One report a gate, its results in the order of its cases."""
    found = []
    for name, asked in cases.items():
        if not asked:
            continue
        results = {
            result.case: result
            for task, answers in zip(tasks, done, strict=True)
            if task.module == GATES[name]
            for result in answers
        }
        module: Any = import_module(GATES[name])
        in_order = [results[case] for case in asked]
        found.append(
            GateReport.of(name, module.TITLE, in_order, parts=_watched(parts, asked))
        )
    return found


def _watched(parts: Sequence[str], cases: Sequence[Case]) -> list[str]:
    """What has to change: parts of every engine, and what these cases are about.

    A gate of defaults has no engine with a draft head.
    """
    touched = {name for case in cases for name in case.touches}
    lacking = {*PARTS, *HEAD_PARTS} - {*parts}
    there = ({*parts} - {*HEAD_PARTS}) | (touched - lacking)
    return [name for name in STATES if name in there]


def check(
    *names: str,
    expect: Literal["same", "fault"] = "same",
    folder: str | os.PathLike[str] = "reports",
    **how: Any,
) -> Report:
    """Run gates, show the verdict, write the report, and raise on a miss.

    Args:
        names: of `GATES`.
        expect: "same", which near-ties do not hurt; or "fault", where `fault` is
            planted and has to be caught first in the part where it starts.
        folder: where the report is written, as JSON.
        how: as `run` takes it.

    Raises:
        GateError: the verdict is not the one expected; the report is written all the
            same.
        ValueError: as `run` raises it, or a fault is expected and none planted.
    """
    fault = how.get("fault")
    if expect not in ("same", "fault"):
        raise ValueError(f"`expect` is {expect!r}, wanted 'same' or 'fault'")
    if (expect == "fault") != (fault is not None):
        raise ValueError(
            f"`expect` is {expect!r} and the fault planted is {fault!r}; with a fault "
            "expect 'fault', without one 'same'"
        )
    report = run(*names, **how)
    path = _written(report, Path(folder), fault)
    sys.stdout.writelines(f"{line}\n" for line in as_text.short(report))
    sys.stdout.write(f"report: {path.as_posix()}\n")
    _raise_on_miss(report, expect, fault)
    return report


def _written(report: Report, folder: Path, fault: str | None) -> Path:
    names = [gate.name for gate in report.gates]
    path = folder / ("-".join([*names, *([fault] if fault else [])]) + ".json")
    folder.mkdir(parents=True, exist_ok=True)
    report.save(path)
    return path


def _raise_on_miss(report: Report, expect: str, fault: str | None) -> None:
    if expect == "same":
        if report.exit_code:
            raise GateError(
                f"the verdict is {report.verdict}, wanted same; the lines above say "
                "where"
            )
        return
    assert fault is not None
    part = find(fault).part
    causes = {
        what: sum(counts.values())
        for planted in report.matrix
        for what, counts in planted.caught.items()
    }
    # Where several windows went by, what a part spoiled may be seen before it.
    first = max(causes, key=lambda what: causes[what], default=None)
    if report.verdict != "fault" or first != part:
        raise GateError(
            f"{fault} was planted and has to show first in {part}, in most cases; the "
            f"verdict is {report.verdict}, seen in {', '.join(causes) or 'no part'}"
        )
