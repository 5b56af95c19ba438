"""What gates speak of: cases, findings, and what became of a case."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["same", "near-tie", "fault"]
By: TypeAlias = Literal["twin", "replay", "serial", "rule"]
Moment: TypeAlias = Literal["commit", "after"]
Profile: TypeAlias = Literal["quick", "full", "exhaustive"]
Scalar: TypeAlias = str | int | float | bool

PROFILES: tuple[Profile, ...] = ("quick", "full", "exhaustive")

PARTS = (
    "ple_tokens",
    "ple_conv",
    "gdn_conv",
    "gdn_state",
    "kv",
    "qsa_tail",
    "qsa_blocks",
)
"""Kinds of state in the order in which a layer computes them: a wrong one spoils those
after it, so the first of several names the cause."""

HEAD_PARTS = ("mtp_row", "mtp_kv", "mtp_qsa_tail", "mtp_qsa_blocks")
"""Those of a draft head, in the order in which it computes them; it reads what the
model's layers have made, and nothing of the model reads them."""

HISTORIES = ("penalties", "sampler", "drafter")
"""What a session has beside its engine, in the order in which a window asks it."""

STATES = (*PARTS, *HEAD_PARTS, *HISTORIES, "experts")
"""All of these, and the experts in slots: no state that is committed, but what all of
it is computed from."""


@dataclass(frozen=True)
class Case:
    """One question with a right answer.

    Attributes:
        gate: name of the gate it belongs to.
        family: which of the gate's experiments.
        params: names and values, in the order in which they are shown.
        touches: parts of which a fault could show here.
        group: cases of a group share work, so one worker runs them, in order.
    """

    gate: str
    family: str
    params: tuple[tuple[str, Scalar], ...]
    touches: tuple[str, ...] = PARTS
    group: str = ""

    @property
    def id(self) -> str:
        """What names it in reports and on the command line."""
        shown = (f"{name}={_shown(value)}" for name, value in self.params)
        return "/".join((self.gate, self.family, *shown))

    def __getitem__(self, name: str) -> Scalar:
        """The value of one parameter."""
        return dict(self.params)[name]


def _shown(value: Scalar) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


_ABOVE = 1 << 30  # past every layer


@dataclass(frozen=True)
class Finding:
    """One place where a subject and what it is compared with part.

    Attributes:
        kind: "near-tie" or "fault".
        by: the comparison: "twin", "replay", "serial", or "rule", where the case itself
            says what is right (tokens, counters, a refusal).
        moment: right after the commit, or after the rows that follow.
        what: the part; or "token", "experts", "blocks", "logits", "position", "rule".
        layer: 0-based, None where none applies.
        cell: absolute cell, None where none applies.
        size: largest absolute difference; of a rule 1.
        gap: of a near-tie, the gap at the decision in the reference.
        note: in words, what was wanted and what came; empty where the rest says it.
    """

    kind: Literal["near-tie", "fault"]
    by: By
    moment: Moment
    what: str
    layer: int | None = None
    cell: int | None = None
    size: float = 1.0
    gap: float | None = None
    note: str = ""

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Where a cause comes before its effects."""
        moment = 0 if self.moment == "commit" else 1
        # Tokens enter below the first layer; logits and choices leave above the last.
        enters = self.what in PARTS or self.what == "position"
        whole = -1 if enters else _ABOVE
        if self.what in HEAD_PARTS:
            place = HEAD_PARTS.index(self.what)
            return moment, _ABOVE, len(PARTS) + 1 + place, -1
        layer = whole if self.layer is None else self.layer
        part = PARTS.index(self.what) if self.what in PARTS else len(PARTS)
        return moment, layer, part, -1 if self.cell is None else self.cell


@dataclass(frozen=True)
class CaseResult:
    """What became of a case.

    Attributes:
        case: the question.
        findings: in order of cause; empty when all was the same.
        changed: parts whose committed state changed while the case ran.
        caught: of a planted fault, where it showed: part, comparison, how often.
    """

    case: Case
    findings: tuple[Finding, ...] = ()
    changed: tuple[str, ...] = ()
    caught: tuple[tuple[str, str, int], ...] = ()

    @property
    def verdict(self) -> Kind:
        """The worst of the findings."""
        return worst([f.kind for f in self.findings])

    @property
    def cause(self) -> Finding | None:
        """The first finding of the worst kind."""
        kind = self.verdict
        found = sorted((f for f in self.findings if f.kind == kind), key=_order)
        return found[0] if found else None


def _order(finding: Finding) -> tuple[int, int, int, int]:
    return finding.order


def worst(kinds: Sequence[Kind]) -> Kind:
    """A fault before a near-tie before the same."""
    for kind in ("fault", "near-tie"):
        if kind in kinds:
            return "fault" if kind == "fault" else "near-tie"
    return "same"
