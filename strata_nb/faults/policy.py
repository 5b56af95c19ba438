"""A defect of what surrounds the engine: drafter, penalties, the choice of a token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from strata_nb.draft import Drafter
from strata_nb.faults.defect import Defect
from strata_nb.sampling import Adjustment, Sampler, Sampling

MakeSampler: TypeAlias = Callable[[Sampling, Sequence[Adjustment]], Sampler]


@dataclass(frozen=True, kw_only=True)
class PolicyFault(Defect):
    """One defect of a policy; `Session(fault=...)` takes its name.

    Attributes:
        sampler: makes the faulty sampler, in the place of `Sampler(sampling,
            adjustments)`; as it should be, where the defect is elsewhere.
        drafter: makes the faulty drafter from the sound one; None: it is elsewhere.
    """

    planted_by = "Session(model, fault=...)"

    sampler: MakeSampler = Sampler
    drafter: Callable[[Drafter], Drafter] | None = None
