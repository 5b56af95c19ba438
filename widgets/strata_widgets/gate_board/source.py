"""What a board is of: gates that can run, or a finished report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import strata_nb
from strata_nb import Model
from strata_nb.errors import CheckpointError
from strata_nb.gates import Case, Report, cases, recipe, run
from strata_nb.packs.bundled import checkpoint_folder
from strata_widgets.gate_board.book import Book
from strata_widgets.gate_board.running import GateJob

_THREAD: Final = "strata-gate-board"


class Source:
    """Gates by name, with how they run; or a report, which cannot run.

    Args:
        what: gates by name; or one report, or the path of its file.
        how: model, profile, fault, only, processes, as `gates.run` takes them.
    """

    def __init__(self, what: Sequence[Any], how: dict[str, Any]) -> None:
        self.report = _report_of(what)
        self.names: tuple[str, ...] = ()
        if self.report is not None:
            self.book = Book.of_report(self.report)
            self.profile, self.fault = self.report.profile, self.report.fault
            return
        model = how["model"]
        if isinstance(model, str | os.PathLike):
            how = {**how, "model": strata_nb.load(model)}
        self.names, self._how = tuple(what), how
        self.profile, self.fault = how["profile"], how["fault"]
        asked = {key: value for key, value in how.items() if key != "processes"}
        self._listed: dict[str, tuple[Case, ...]] = cases(*self.names, **asked)
        self.book = Book.of_cases(self._listed)

    @property
    def can_run(self) -> bool:
        """Whether gates are named, and not a report shown."""
        return self.report is None

    @property
    def can_plant(self) -> bool:
        """Whether all faults can be planted, which the profile "quick" alone does."""
        return self.can_run and self.profile == "quick"

    @property
    def plants(self) -> bool:
        """Whether the gates themselves plant each fault."""
        return self.can_run and "faults" in self._listed

    def __str__(self) -> str:
        gates = " ".join(dict.fromkeys(f.gate for f in self.book.families))
        planted = f", {self.fault} planted" if self.fault else ""
        return f"{gates}, {self.profile}{planted}"

    def gate_job(self) -> GateJob:
        """The run of the gates.

        Raises:
            ValueError: there is a report instead.
        """
        self._refuse_finished()
        names, how = self.names, self._how
        return GateJob(
            lambda each, cancel: run(*names, each=each, cancel=cancel, **how),
            kind="gate",
            name=_THREAD,
        )

    def plant_job(self) -> GateJob:
        """The run that plants each fault.

        Raises:
            ValueError: there is a report instead, or the profile is another.
        """
        self._refuse_finished()
        if not self.can_plant:
            raise ValueError(
                f"all faults are planted in the profile 'quick', got {self.profile!r}; "
                "make a board with that one"
            )
        model, count = self._how["model"], self._how["processes"]
        return GateJob(
            lambda each, cancel: run(
                "faults", model=model, processes=count, each=each, cancel=cancel
            ),
            kind="plant",
            name=_THREAD,
        )

    def recipe(self, case: str) -> str:
        """The cell that runs a case again."""
        if self.report is not None:
            origin = self.report.provenance
            slots = origin.options.get("slots")
            return recipe.of_case(
                case,
                load=_bundled(origin.model) or self.report.about.path,
                slots=slots if isinstance(slots, int) else None,
                profile=self.profile,
                fault=self.fault,
            )
        model: Model = self._how["model"]
        load = recipe.named(model.checkpoint.path)
        plain = model.dtype == "float32" and load == model.name
        return recipe.of_case(
            case,
            load=load,
            dtype=None if plain else model.dtype,
            slots=None if model.pool is None else model.pool.slots,
            profile=self.profile,
            fault=self.fault,
        )

    def _refuse_finished(self) -> None:
        if self.report is not None:
            raise ValueError(
                "this board shows a finished report; make one with a gate's name to "
                "run it"
            )


def _report_of(what: Sequence[Any]) -> Report | None:
    """The report among the arguments; None where they name gates."""
    found = [
        one
        for one in what
        if not isinstance(one, str) or one.endswith(".json") or os.sep in one
    ]
    if not found:
        return None
    if len(what) > 1:
        raise TypeError(
            "a board wants gates by name, or one report, got "
            f"{' and '.join(type(one).__name__ for one in what)}; make a board each"
        )
    (one,) = found
    if isinstance(one, Report):
        return one
    if isinstance(one, str | os.PathLike):
        return Report.load(Path(one))
    raise TypeError(
        "a board wants a gate's name, a report or the path of one, got "
        f"{type(one).__name__}; name a gate, such as 'gate_3'"
    )


def _bundled(name: str) -> str:
    """`name`, where it is that of a bundled model."""
    try:
        checkpoint_folder(name)
    except CheckpointError:
        return ""
    return name
