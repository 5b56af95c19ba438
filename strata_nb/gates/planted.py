"""The gate of the gates: each fault is planted, and has to be caught in its part."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from strata_nb.faults import DEFECTS, Defect, find
from strata_nb.gates.gate_2 import widths
from strata_nb.gates.gate_3 import rejection
from strata_nb.gates.gate_4 import resume
from strata_nb.gates.records import Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.places import can_be_made
from strata_nb.gates.stage.rig import Rig
from strata_nb.packs import ModelConfig

NAME = "faults"
TITLE = "each fault, planted, is caught in the part where it starts"

_GATES: Mapping[str, Any] = {g.NAME: g for g in (rejection, resume, widths)}

MOST = {
    "reject": 12,
    "chain": 2,
    "drafted": 4,
    "choices": 6,
    "law": 4,
    "requests": 6,
    "streamed": 3,
    "routers": 3,
}
"""Cases of a family that a fault is tried on; of any other family as many as OTHERS."""
OTHERS = 2


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """One case a fault that the model can have.

    Args:
        config: of the model.
        profile: the same for all; a fault has to show in the quick one.
        context: cells that the sequence may have.
    """
    return [
        Case(NAME, "planted", (("fault", fault.name),), (fault.part,), fault.name)
        for fault in DEFECTS.values()
        if can_be_made(fault, config)
    ]


def trials(fault: Defect, config: ModelConfig, context: int) -> list[Case]:
    """Quick cases in which `fault` could show, some of each of its families."""
    found: list[Case] = []
    for gate in _GATES.values():
        fit = [c for c in gate.cases(config, "quick", context) if _fits(c, fault)]
        for family in dict.fromkeys(c.family for c in fit):
            members = [c for c in fit if c.family == family]
            # Drawn, since any even stride would miss some width or residue.
            drawn = np.random.default_rng(0).permutation(len(members))
            chosen = sorted(drawn[: MOST.get(family, OTHERS)])
            found += [members[i] for i in chosen]
    return found


def _fits(case: Case, fault: Defect) -> bool:
    params = dict(case.params)
    needs = dict(fault.options)
    if fault.context is not None:
        needs["context"] = fault.context
    return (
        fault.part in case.touches
        and case.family in fault.families
        and params.get("keep") != params.get("T", "none")
        and all(params.get(name, value) == value for name, value in needs.items())
    )


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Plant each case's fault and look whether the gates see it.

    Args:
        cases: each names a fault.
        rig: a sound model; the fault is planted into a rig of its own.
    """
    for case in cases:
        fault = find(str(case["fault"]))
        results = list(planted(fault, rig))
        yield CaseResult(
            case,
            findings=tuple(_missed(fault, results)),
            changed=tuple(dict.fromkeys(p for r in results for p in r.changed)),
            caught=tuple(_caught(_telling(results))),
        )


def planted(fault: Defect, rig: Rig) -> Iterator[CaseResult]:
    """The results of `trials` with `fault` in the subject."""
    faulty = Rig(rig.model, fault=fault.name, floor=rig.floor)
    context = rig.model.config.max_position_embeddings
    chosen = trials(fault, rig.model.config, context)
    for (gate, _), group in groupby(chosen, key=lambda c: (c.gate, c.group)):
        yield from _GATES[gate].run(list(group), faulty)


def _telling(results: Sequence[CaseResult]) -> list[CaseResult]:
    """The caught cases of the first family that caught anything.

    After several windows a part may be sound again while what it spoiled is not: so
    windows in a row are asked only where one window shows nothing.
    """
    caught = [r for r in results if r.verdict == "fault"]
    return [r for r in caught if r.case.family == caught[0].case.family]


def _missed(fault: Defect, results: Sequence[CaseResult]) -> Iterator[Finding]:
    if not _telling(results):
        note = f"{fault.name} was planted and {len(results)} cases saw nothing"
        yield Finding("fault", "rule", "commit", fault.part, note=note)
    causes = [r.cause for r in _telling(results) if r.cause is not None]
    for cause in causes:
        # Rows that follow may have made the part sound again, but not what it spoiled.
        if cause.moment == "commit" and cause.what != fault.part:
            note = f"{fault.name} showed first in {cause.what}, wanted {fault.part}"
            yield replace(cause, by="rule", note=note)
    own = sum(cause.what == fault.part for cause in causes)
    if causes and 2 * own <= len(causes):
        note = f"{fault.name} showed first in {fault.part} in {own} of {len(causes)}"
        yield Finding("fault", "rule", "after", fault.part, note=f"{note}, wanted most")


def _caught(results: Sequence[CaseResult]) -> Iterator[tuple[str, str, int]]:
    """Part and comparison of each case's cause, and in how many cases."""
    found: Counter[tuple[str, str]] = Counter()
    for result in results:
        cause = result.cause
        if result.verdict != "fault" or cause is None:
            continue
        same = {
            f.by
            for f in result.findings
            if (f.what, f.layer, f.moment) == (cause.what, cause.layer, cause.moment)
        }
        found.update((cause.what, by) for by in same)
    for (part, by), count in sorted(found.items()):
        yield part, by, count
