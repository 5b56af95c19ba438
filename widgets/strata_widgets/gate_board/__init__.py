"""`GateBoard`: the cases of a gate as cells that fill while it runs."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import traitlets

from strata_nb import Model
from strata_nb.gates import CaseResult, Report
from strata_nb.gates.records import Profile
from strata_nb.gates.report.tally import Planted
from strata_nb.gates.report.tally import matrix as rows_of
from strata_widgets.drawing import nothing, with_rows
from strata_widgets.gate_board import drawings, tables
from strata_widgets.gate_board.book import Told
from strata_widgets.gate_board.grid import Grid
from strata_widgets.gate_board.running import GateJob, RunningPanel
from strata_widgets.gate_board.source import Source
from strata_widgets.panel.control import Control, Table, button

# Rows of cells after which a page of cells goes in one piece again, or a browser that
# is opened again would be told each case by itself.
_MOST_ROWS: Final = 256


class GateBoard(RunningPanel):
    """The cases of gates: run them, watch them being judged, read one.

    Example:
        >>> board = GateBoard("gate_3", fault="qsa_ring")
        >>> board.run_to_end()  # or the button Run
        >>> board.case = 7
        >>> print(board.reproduce())
    """

    TITLE = "Gate board"

    case = traitlets.Int(None, allow_none=True)
    """The case that is looked at, by its number on the board; None: none is."""

    def __init__(
        self,
        *what: str | os.PathLike[str] | Report,
        model: str | os.PathLike[str] | Model = "strata-tiny",
        profile: Profile = "quick",
        fault: str | None = None,
        only: str = "*",
        processes: int = 1,
        **traits: Any,
    ) -> None:
        """Make a board of gates that are to run, or of a report.

        Args:
            *what: gates by name, as `gates.run` takes them; or one report, or the path
                of its JSON file.
            model: a bundled name, a folder, or a loaded model.
            profile: "quick", "full" or "exhaustive".
            fault: planted into every subject.
            only: cases whose id matches.
            processes: of this machine that share the cases.
            **traits: `case`, `selection`.

        Raises:
            ValueError: as `gates.run` raises it.
            TypeError: as `gates.run` raises it, or a report and something else.
            GateError: the file is no report, or the model is too small.
            CheckpointError: the model cannot be read.
        """
        how = {"model": model, "profile": profile, "fault": fault, "only": only}
        self._source = Source(what, {**how, "processes": processes})
        self._book, self._report = self._source.book, self._source.report
        self._planted: list[Planted] = list(self._report.matrix if self._report else ())
        self._grid = Grid(self._book)
        self._fresh: list[int] = []
        # The page of the newest case is shown, unless a person chose one.
        self._newest_page = 0
        self._page_chosen: int | None = None
        self._drawn: tuple[int, int] | None = None
        self._faults: tuple[str, ...] = ()
        super().__init__(**traits)
        if self._grid.dense:
            # A thousand marks with a label each are more than a page can move.
            self._live["cells"].renderer = "canvas"

    @property
    def report(self) -> Report | None:
        """What came of the last run to its end; None before."""
        return self._report

    def start(self) -> None:
        """Run on a thread of its own; nothing while something runs.

        Raises:
            ValueError: the board is of a finished report.
            RuntimeError: outside a notebook, where nobody would look; `run_to_end`.
        """
        self._run_there(self._source.gate_job())

    def run_to_end(self) -> Report:
        """Run here, to the end, and show it.

        Raises:
            ValueError: the board is of a finished report.
            RuntimeError: something runs already.
            GateError: as `gates.run` raises it.
        """
        return self._run_here(self._source.gate_job())

    def plant(self) -> None:
        """Plant all faults, one after the other, on a thread of its own.

        Raises:
            ValueError: the board is of a finished report, or not quick.
            RuntimeError: outside a notebook; use `plant_to_end`.
        """
        self._run_there(self._source.plant_job())

    def plant_to_end(self) -> Report:
        """Plant all faults here, and show who caught them.

        Raises:
            ValueError: the board is of a finished report, or not quick.
            RuntimeError: something runs already.
        """
        return self._run_here(self._source.plant_job())

    def told(self, case: int | None = None) -> Told:
        """What is known of a case.

        Args:
            case: its number; None: the one that is selected.

        Raises:
            ValueError: none is selected, or there is no such case.
        """
        number = self.case if case is None else case
        if number is None:
            raise ValueError(
                "no case is selected; click one, set `case`, or give its number"
            )
        if not 0 <= number < self._book.total:
            raise ValueError(
                f"a case is 0 to {self._book.total - 1} here, got {number}"
            )
        return self._book.told(number)

    def find(self, name: str) -> int:
        """The number of the case that reports call `name`.

        Raises:
            ValueError: no case here has that id.
        """
        return self._book.number(name)

    def reproduce(self, case: int | None = None) -> str:
        """The source of a cell that runs a case again, alone.

        Args:
            case: its number; None: the one that is selected.

        Raises:
            ValueError: none is selected, or a report's file does not name it.
        """
        told = self.told(case)
        if not told.id:
            raise ValueError(
                f"case {told.number} has no name: a report's file names only cases "
                "that are not the same; run the gate to have all names"
            )
        return self._source.recipe(told.id)

    # ---------------------------------------------------------------- a run's news

    def _clear(self, job: GateJob) -> None:
        if job.kind == "gate":
            self._book.forget()
            self._report, self._fresh, self._drawn = None, [], None
            self._newest_page = 0
        if job.kind == "plant" or self._source.plants:
            self._planted = []

    def _take(self, job: GateJob) -> None:
        for result in job.taken():
            if job.kind == "gate":
                self._fresh.append(self._book.take(result))
            self._planted += _planted_by(result)
        if self._fresh:
            self._newest_page = self._grid.place(self._fresh[-1])[0]

    def _finished(self, report: Report, job: GateJob) -> None:
        if job.kind == "gate":
            self._report = report
            self._book.end(report)
            self._planted = list(report.matrix) or self._planted
            # Cases that were the same may be vacuous now.
            self._drawn = None

    # ---------------------------------------------------------------- the page

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        grid = self._grid
        return {
            "cells": drawings.cells(grid.across, grid.side, grid.lines),
            "matrix": drawings.matrix(()),
        }

    def _page_shown(self) -> int:
        return self._newest_page if self._page_chosen is None else self._page_chosen

    def _values(self) -> dict[str, Any]:
        page, chosen = self._page_shown(), -1
        if self.case is not None:
            where, slot = self._grid.place(self.case)
            chosen = slot if where == page else -1
        lines = self._grid.values(page)
        return {"chosen": chosen, "most": drawings.most(self._planted), **lines}

    def _draw(self) -> None:
        page, board = self._page_shown(), self._live["cells"]
        rows = self._grid.rows(page, self._fresh)
        self._fresh = []
        sent = self._drawn[1] + len(rows) if self._drawn else 0
        if self._drawn is None or self._drawn[0] != page or sent > _MOST_ROWS:
            board.replace([self._grid.row(page)])
            sent = 1
        elif rows:
            board.append(*rows)
        self._drawn = (page, sent)
        self._draw_matrix()

    def _draw_matrix(self) -> None:
        faults = tuple(dict.fromkeys(row.fault for row in self._planted))
        rows = [drawings.crossing(row) for row in self._planted]
        rows = rows or nothing(_no_matrix(self._source.can_plant))
        chart = self._live["matrix"]
        if faults != self._faults:
            self._faults = faults
            chart.show(with_rows(drawings.matrix(faults), rows))
        elif rows != chart.rows:
            chart.replace(rows)

    def _controls(self) -> Sequence[Control]:
        total, pages = self._book.total, self._grid.pages
        shown: list[Control] = []
        if self._source.can_run:
            stopping = self._job is not None and self._job.stopping
            shown += [
                button("run", "Run", enabled=not self.running),
                button("cancel", "Cancel", enabled=self.running and not stopping),
                button(
                    "plant",
                    "Plant all faults",
                    enabled=not self.running and self._source.can_plant,
                    why="" if self._source.can_plant else "only in the profile quick",
                ),
            ]
        shown.append(
            Control("range", "case", "Case", self.case, most=total - 1, clears=True)
        )
        unlike = self._book.next_unlike(None) is not None
        shown.append(button("next", "Next that differs", enabled=unlike))
        if pages > 1:
            chosen = self._page_chosen
            last = pages - 1
            shown.append(
                Control("range", "page", "Page", chosen, most=last, clears=True)
            )
        return shown

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "run":
            self.start()
        elif name == "cancel":
            self.cancel()
        elif name == "plant":
            self.plant()
        elif name == "case":
            self.case = None if value is None else int(value)
        elif name == "next":
            self.case = self._book.next_unlike(self.case)
        elif name == "page":
            self._page_chosen = None if value is None else int(value)
            self.update()

    def _clicked(self, row: dict[str, Any]) -> None:
        slot = row.get("slot")
        if isinstance(slot, int | float):
            found = self._grid.case(self._page_shown(), int(slot))
            if found is not None:
                self.case = found

    @traitlets.validate("case")
    def _check_case(self, proposal: Any) -> int | None:
        number: int | None = proposal["value"]
        if number is not None and not 0 <= number < self._book.total:
            raise traitlets.TraitError(
                f"`case` must be None or 0 to {self._book.total - 1}, got {number}"
            )
        return number

    @traitlets.observe("case")
    def _case_moved(self, _: Any) -> None:
        if not hasattr(self, "_live"):
            return
        if self.case is not None and self._grid.pages > 1:
            page = self._grid.place(self.case)[0]
            self._page_chosen = None if page == self._page_shown() else page
        cause = None if self.case is None else self._book.told(self.case).cause
        before = self.selection
        if cause is not None:
            # So that linked views show the place where it went wrong.
            self.select(layer=cause.layer, cell=cause.cell)
        if self.selection == before:
            # Otherwise the selection has drawn the case already.
            self.update()

    def _status(self) -> str:
        said = f"{self._source}{self._doing()}: {tables.counted(self._book)}"
        if self._report is not None:
            said += f"; {tables.verdict(self._report)}"
        if self._planted and self._source.fault is None:
            seen = sum(bool(row.caught) for row in self._planted)
            said += f"; {seen} of {len(self._planted)} planted faults caught"
        if self.case is not None:
            said += f"; {tables.in_words(self.told())}"
        return said

    def _tables(self) -> Sequence[Table]:
        shown = []
        if self.case is not None:
            told = self.told()
            shown.append(tables.case(told))
            if told.id:
                shown.append(tables.cell(self.reproduce()))
        shown.append(tables.families(self._book))
        if self._planted:
            shown.append(tables.planted(self._planted))
        return shown


def _planted_by(result: CaseResult) -> tuple[Planted, ...]:
    """The row of the matrix that a case of the gate `faults` makes."""
    return rows_of(None, [result]) if result.case.gate == "faults" else ()


def _no_matrix(possible: bool) -> str:
    if possible:
        return "Plant all faults, and see here who catches them."
    return "No fault was planted in this run."
