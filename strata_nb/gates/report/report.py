"""The report of a gate run: what was found, where from, and its file."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from strata_nb.errors import GateError
from strata_nb.files import write_bytes
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.records import PROFILES, Profile
from strata_nb.gates.report import as_json as form
from strata_nb.gates.report.provenance import About, Provenance
from strata_nb.gates.report.tally import (
    VERDICTS,
    GateReport,
    Listed,
    Planted,
    Verdict,
    matrix,
)

FORMAT = "strata-nb gate 1"


@dataclass(frozen=True)
class Report:
    """What a run found.

    Attributes:
        profile: how much was run.
        fault: the fault that was planted into every subject, None: none was.
        gates: what each gate found, in the order in which they ran.
        matrix: where planted faults were caught; empty when none was planted.
        floor: the engine's rounding; None where nothing could measure it.
        provenance: what has to be the same for the run to repeat.
        about: when and where it ran; equal reports may differ in it.
    """

    profile: Profile
    fault: str | None
    gates: tuple[GateReport, ...]
    matrix: tuple[Planted, ...]
    floor: Floor | None
    provenance: Provenance
    about: About = field(compare=False)

    @classmethod
    def of(
        cls,
        gates: Iterable[GateReport],
        *,
        profile: Profile,
        fault: str | None,
        floor: Floor | None,
        provenance: Provenance,
        about: About,
    ) -> "Report":
        """A report of `gates`, which still hold their results."""
        gates = tuple(gates)
        results = [r for gate in gates for r in gate.results]
        return cls(
            profile=profile,
            fault=fault,
            gates=gates,
            matrix=matrix(fault, results),
            floor=floor,
            provenance=provenance,
            about=about,
        )

    @property
    def verdict(self) -> Verdict:
        """The worst of its gates; without any "vacuous"."""
        verdicts = [gate.verdict for gate in self.gates]
        return max(verdicts, key=VERDICTS.index, default="vacuous")

    @property
    def exit_code(self) -> int:
        """0 when all was the same or a near-tie, else 1."""
        return 0 if self.verdict in ("same", "near-tie") else 1

    @property
    def near_ties(self) -> tuple[Listed, ...]:
        """Of all gates."""
        return tuple(case for gate in self.gates for case in gate.near_ties)

    @property
    def faults(self) -> tuple[Listed, ...]:
        """Of all gates, as many as are listed."""
        return tuple(case for gate in self.gates for case in gate.faults)

    @property
    def changed(self) -> dict[str, dict[str, int]]:
        """For each gate, in how many cases each part changed."""
        return {gate.name: dict(gate.changed) for gate in self.gates}

    def compared(self) -> bytes:
        """The part that repeats, as JSON: equal bytes whenever the run was the same.

        Neither paths, times, names of machines nor the number of workers are in it.
        """
        return form.encoded(self._compared())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as one JSON file, whole or not at all.

        Raises:
            OSError: the file cannot be written; an older one survives.
        """
        whole = {
            "format": FORMAT,
            "compared": self._compared(),
            "about": form.about(self.about),
        }
        write_bytes(path, form.encoded(whole))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Report":
        """Read a report; cases that were the same are in it as counts only.

        Raises:
            GateError: there is no such file, or it is not a report; the message names
                what is wrong in it.
            OSError: the file cannot be read.
        """
        whole = form.opened(path, FORMAT)
        told = whole["compared"].object(*_COMPARED)
        report = cls(
            profile=told["profile"].choice(PROFILES),
            fault=told["fault"].optional(form.Node.text),
            gates=tuple(form.read_gate(gate) for gate in told["gates"].list()),
            matrix=tuple(form.read_planted(row) for row in told["matrix"].list()),
            floor=told["floor"].optional(form.read_floor),
            provenance=form.read_provenance(told["provenance"]),
            about=form.read_about(whole["about"]),
        )
        said = told["verdict"].choice(VERDICTS)
        if said != report.verdict:
            raise GateError(
                f"{told['verdict'].where} is {said!r}, but the gates in it make "
                f"{report.verdict!r}: the file was altered; run the gate again"
            )
        return report

    def _compared(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "fault": self.fault,
            "verdict": self.verdict,
            "gates": [form.gate(gate) for gate in self.gates],
            "matrix": [form.planted(row) for row in self.matrix],
            "floor": None if self.floor is None else form.floor(self.floor),
            "provenance": form.provenance(self.provenance),
        }


_COMPARED = ("profile", "fault", "verdict", "gates", "matrix", "floor", "provenance")
