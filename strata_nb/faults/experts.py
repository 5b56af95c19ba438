"""Defects of experts in slots."""

from dataclasses import dataclass

import mlx.core as mx

from strata_nb.faults.defect import Defect
from strata_nb.models.qwen4_exp import SlotExperts


class ReusedSlots(SlotExperts):
    """Slots are given back before what reads them was computed."""

    def evaluate(self, output: mx.array) -> None:
        """Later: by then another expert may be in the slot."""


@dataclass(frozen=True, kw_only=True)
class ExpertFault(Defect):
    """One defect of experts in slots; `strata_nb.load(fault=...)` takes its name.

    Attributes:
        variant: in the place of `SlotExperts`.
    """

    planted_by = "strata_nb.load(..., experts=Streaming(...), fault=...)"

    variant: type[SlotExperts]
    part: str = "experts"
    families: tuple[str, ...] = ("streamed",)


FAULTS = (
    ExpertFault(
        name="expert_slot_reused",
        what="a slot is given to another expert while a computation that reads it is "
        "still to come",
        shows="in windows whose experts do not fit in the slots together",
        report="https://github.com/JustVugg/colibri/issues/316",
        variant=ReusedSlots,
    ),
)
