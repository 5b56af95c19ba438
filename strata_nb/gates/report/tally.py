"""What gates found, added up: cases by verdict, those that differ, parts that moved."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from strata_nb.faults import DEFECTS
from strata_nb.gates.records import STATES, CaseResult, Finding, Kind

Verdict: TypeAlias = Literal["same", "near-tie", "vacuous", "fault"]

FINDINGS = 8
"""Findings of a case that a report shows; it counts the rest."""

FAULTS_LISTED = 200
"""Faulty cases of a gate that a report lists; it counts the rest. Near-ties are listed
all: each is a claim that rounding did it, to be looked at."""

VERDICTS: tuple[Verdict, ...] = ("same", "near-tie", "vacuous", "fault")
"""From best to worst; "vacuous" says that nothing could have shown a fault."""


@dataclass(frozen=True)
class Counts:
    """Cases of one family by verdict."""

    same: int = 0
    near_tie: int = 0
    fault: int = 0

    @property
    def cases(self) -> int:
        """All of them."""
        return self.same + self.near_tie + self.fault


@dataclass(frozen=True)
class Listed:
    """A case that is not the same, as a report shows it.

    Attributes:
        id: of the case.
        verdict: "near-tie" or "fault".
        findings: the first of them, the worst kind first and causes before effects.
        more: findings that are not shown.
    """

    id: str
    verdict: Kind
    findings: tuple[Finding, ...]
    more: int = 0


@dataclass(frozen=True)
class GateReport:
    """What one gate found.

    Attributes:
        name: of the gate.
        title: what it asks, in one line.
        families: cases by verdict, of each family in the order of the cases.
        changed: in how many cases each part changed; a model's part is always named.
        idle: parts that cases claim to touch and none ever changed.
        listed: cases that are not the same, in order; at most `FAULTS_LISTED` faults.
        unlisted: faulty cases that are counted and not listed.
        cases_digest: SHA-256 over id and verdict of every case.
        results: every case as it came; empty in a report that was read from a file.
    """

    name: str
    title: str
    families: Mapping[str, Counts]
    changed: Mapping[str, int]
    idle: tuple[str, ...]
    listed: tuple[Listed, ...]
    unlisted: int
    cases_digest: str
    results: tuple[CaseResult, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        results: Iterable[CaseResult],
        *,
        parts: Sequence[str],
    ) -> "GateReport":
        """Add up `results`.

        Args:
            name: of the gate.
            title: what it asks, in one line.
            results: of all its cases, in their order.
            parts: kinds of state that the model has.
        """
        results = tuple(results)
        changed = Counter(part for r in results for part in set(r.changed))
        # Cases that claim nothing prove nothing of a state that none of them moved.
        claimed = {part for r in results for part in r.case.touches} or set(parts)
        listed, unlisted = _listed(results)
        return cls(
            name=name,
            title=title,
            families=_families(results),
            changed={p: changed[p] for p in STATES if p in parts or changed[p]},
            idle=tuple(
                p for p in STATES if p in parts and p in claimed and not changed[p]
            ),
            listed=listed,
            unlisted=unlisted,
            cases_digest=_digest(results),
            results=results,
        )

    @property
    def cases(self) -> int:
        """How many there were."""
        return sum(counts.cases for counts in self.families.values())

    @property
    def verdict(self) -> Verdict:
        """The worst of its cases; "vacuous" where none of them could have shown it."""
        if any(counts.fault for counts in self.families.values()):
            return "fault"
        if self.idle or not self.cases:
            return "vacuous"
        near = any(counts.near_tie for counts in self.families.values())
        return "near-tie" if near else "same"

    @property
    def near_ties(self) -> tuple[Listed, ...]:
        """Its near-ties, all of them."""
        return tuple(c for c in self.listed if c.verdict == "near-tie")

    @property
    def faults(self) -> tuple[Listed, ...]:
        """Its faulty cases, as many as are listed."""
        return tuple(c for c in self.listed if c.verdict == "fault")


@dataclass(frozen=True)
class Planted:
    """One row of the matrix: where a planted fault was caught.

    Attributes:
        fault: its name.
        part: the kind of state in which it starts.
        caught: for each part in which it showed first, how many cases each comparison
            caught; empty when nothing saw it.
    """

    fault: str
    part: str
    caught: Mapping[str, Mapping[str, int]]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Faults before near-ties, and causes before their effects."""
    return tuple(sorted(findings, key=lambda f: (f.kind != "fault", f.order)))


def _listed(results: Sequence[CaseResult]) -> tuple[tuple[Listed, ...], int]:
    listed, unlisted, faults = [], 0, 0
    for result in results:
        faults += result.verdict == "fault"
        if result.verdict == "fault" and faults > FAULTS_LISTED:
            unlisted += 1
        elif result.verdict != "same":
            found = worst_first(result.findings)
            shown, more = found[:FINDINGS], max(0, len(found) - FINDINGS)
            listed.append(Listed(result.case.id, result.verdict, shown, more))
    return tuple(listed), unlisted


def _families(results: Sequence[CaseResult]) -> dict[str, Counts]:
    found: dict[str, Counter[Kind]] = {}
    for result in results:
        found.setdefault(result.case.family, Counter())[result.verdict] += 1
    return {
        family: Counts(same=n["same"], near_tie=n["near-tie"], fault=n["fault"])
        for family, n in found.items()
    }


def _digest(results: Sequence[CaseResult]) -> str:
    lines = "".join(f"{r.case.id}\t{r.verdict}\n" for r in results)
    # Half a surrogate pair, which a parameter might hold, is no UTF-8.
    return hashlib.sha256(lines.encode("utf-8", "backslashreplace")).hexdigest()


def matrix(fault: str | None, results: Sequence[CaseResult]) -> tuple[Planted, ...]:
    """One row for each planted fault: the run's own, or those that its cases planted.

    Args:
        fault: planted into every subject of the run; None: none was.
        results: of all gates.
    """
    if fault is not None:
        caught = [entry for r in results for entry in _caught(r)]
        return (_row(fault, DEFECTS[fault].part if fault in DEFECTS else "", caught),)
    planted = [r for r in results if "fault" in dict(r.case.params)]
    return tuple(
        _row(str(r.case["fault"]), "".join(r.case.touches[:1]), r.caught)
        for r in planted
    )


def _row(fault: str, part: str, caught: Iterable[tuple[str, str, int]]) -> Planted:
    found: dict[str, Counter[str]] = {}
    for what, by, count in caught:
        found.setdefault(what, Counter())[by] += count
    return Planted(fault, part, {what: dict(n) for what, n in found.items()})


def _caught(result: CaseResult) -> list[tuple[str, str, int]]:
    """Where the cause of a fault showed: in which part, by which comparisons."""
    cause = result.cause
    if result.verdict != "fault" or cause is None:
        return []
    here = (cause.what, cause.layer, cause.moment)
    found = [f for f in result.findings if f.kind == "fault"]
    comparisons = {f.by for f in found if (f.what, f.layer, f.moment) == here}
    return [(cause.what, by, 1) for by in comparisons]
