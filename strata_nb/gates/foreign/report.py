"""What came out of an examination, for people and for the other gates' report."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from strata_nb.gates.foreign.rows import Bounds
from strata_nb.gates.records import Case, CaseResult

Verdict: TypeAlias = Literal["same", "near-tie", "refused", "fault"]

VERDICTS: tuple[Verdict, ...] = ("same", "near-tie", "refused", "fault")
"""From the best to the worst. An engine that refuses is honest, not wrong."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes:
        result: the case and its findings.
        words: one sentence for a person.
        refused: the engine said that it cannot do this.
    """

    result: CaseResult
    words: str
    refused: bool = False

    @property
    def case(self) -> Case:
        """The question."""
        return self.result.case

    @property
    def verdict(self) -> Verdict:
        """A fault found while it refused is a fault."""
        if self.refused and self.result.verdict != "fault":
            return "refused"
        return self.result.verdict


@dataclass(frozen=True)
class ForeignReport:
    """All outcomes of one examination; `print` shows them.

    Attributes:
        engine: its name.
        profile: how many questions were asked.
        tokens: length of the prompt.
        bounds: what counted as rounding.
        outcomes: in the order of the cases.
    """

    engine: str
    profile: str
    tokens: int
    bounds: Bounds
    outcomes: tuple[Outcome, ...]

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """For the report of all gates: every case that the engine did answer."""
        return tuple(o.result for o in self.outcomes if o.verdict != "refused")

    @property
    def refusals(self) -> tuple[Outcome, ...]:
        """Cases that it refused, each with its words."""
        return self.having("refused")

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return max((o.verdict for o in self.outcomes), key=VERDICTS.index)

    @property
    def exit_code(self) -> int:
        """1 where there is a fault, else 0."""
        return int(self.verdict == "fault")

    def having(
        self, verdict: Verdict, *, family: str | None = None
    ) -> tuple[Outcome, ...]:
        """Outcomes with this verdict, of one family or of all."""
        return tuple(
            o
            for o in self.outcomes
            if o.verdict == verdict and family in (None, o.case.family)
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.engine}: {self.tokens} tokens, profile {self.profile}"
        yield f"  {self._tolerated()}"
        groups = dict.fromkeys(_heading(o.case) for o in self.outcomes)
        wide = max(len(heading) for heading in groups)
        for heading in groups:
            group = [o for o in self.outcomes if _heading(o.case) == heading]
            counts = Counter(o.verdict for o in group)
            shown = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
            worst = max(group, key=lambda o: VERDICTS.index(o.verdict))
            yield f"  {heading:{wide}s}  {shown:20s}  {worst.words}"
        yield f"verdict: {self.verdict}"

    def _tolerated(self) -> str:
        share = self.bounds.limit / self.bounds.scale
        rows = (
            f"logits may differ by {self.bounds.limit:.1e} ({share:.1e} of their size)"
        )
        if self.bounds.floor is None:
            return f"{rows}; how much rounding makes is unknown: no near-tie is granted"
        return f"{rows}; a near-tie by {self.bounds.floor:.1e}, what rounding makes"


def _heading(case: Case) -> str:
    way = dict(case.params).get("way")
    return f"{case.family} by {way}" if way else case.family
