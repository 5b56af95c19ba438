"""Two ways to the same place, and what asks whether they lead there."""

from collections.abc import Callable
from dataclasses import dataclass

from strata_nb.gates.records import (
    PARTS,
    By,
    Case,
    CaseResult,
    Finding,
    Profile,
    Scalar,
)
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, compare
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.packs import ModelConfig

Settings = list[dict[str, Scalar]]


@dataclass(frozen=True)
class Pair:
    """Two ways to the same place.

    Attributes:
        what: the two, in one sentence.
        settings: the cases of a profile, as parameters.
        ask: goes both ways and compares where they lead.
        touches: kinds of state of which a fault could show.
    """

    what: str
    settings: Callable[[ModelConfig, Profile, int], Settings]
    ask: Callable[[Case, Rig], CaseResult]
    touches: tuple[str, ...] = PARTS


def two_ways(
    one: Callable[[Case, Rig], Way],
    other: Callable[[Case, Rig, Imposed], Way],
    *,
    by: By,
) -> Callable[[Case, Rig], CaseResult]:
    """What asks a pair: the engine in question goes `one` way, a sound one the `other`.

    Args:
        one: starts from `rig.subject`.
        other: starts from `rig.reference`, made with the decisions imposed.
        by: "serial" for rows one at a time, "replay" for other windows or modes.
    """

    def ask(case: Case, rig: Rig) -> CaseResult:
        way = one(case, rig)
        found = compare(way, lambda imposed: other(case, rig, imposed), by=by, rig=rig)
        return CaseResult(case, tuple(found), way.changed)

    return ask


def not_asked(case: Case, why: str) -> CaseResult:
    """A case that cannot be compared here: listed with its reason, and never "same"."""
    note = f"not compared: {why}"
    return CaseResult(
        case, (Finding("near-tie", "rule", "after", "rule", size=0.0, note=note),)
    )
