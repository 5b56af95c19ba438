"""Where experts are while policies are compared: all in memory, or a part of them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from strata_nb.policies.residency import Lru, Residency

QUARTER = 4
"""One slot for so many experts, where nothing else is said."""
LOADS = (0.25, 1.0, 4.0)
"""What reading one expert takes, in times of what a layer computes."""


@dataclass(frozen=True)
class Memory:
    """Where the experts are, and what it takes to have one that is not in memory.

    Attributes:
        slots: of each layer; None: all experts are in memory.
        load: what reading one expert takes, in times of what a layer of a one-row
            window computes.
        residency: which expert gives its slot to another.
        coverage: share of the reads that a prefetch knows beforehand, 0 to 1.
        efficiency: share of a window's computing behind which such a read can hide.

    Raises:
        ValueError: a number out of its range.
    """

    slots: int | None = None
    load: float = 0.0
    residency: Residency = field(default_factory=Lru)
    coverage: float = 0.0
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"`slots` is {self.slots}, wanted 1 or more, or None")
        if not 0 <= self.load < math.inf:
            raise ValueError(f"`load` is {self.load}, wanted 0 or more")
        for name in ("coverage", "efficiency"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}, wanted 0 to 1")

    @property
    def name(self) -> str:
        """For tables."""
        if self.slots is None:
            return "resident"
        ahead = f", {self.coverage:g} ahead" if self.coverage else ""
        return f"load {self.load:g}{ahead}"

    def wait_ms(
        self, misses: int, *, compute_ms: float, draft_ms: float, layer_ms: float
    ) -> float:
        """What a window waits for the experts that it misses.

        T_flash - min(coverage * T_flash, hideable): reads that are known beforehand can
        hide behind the draft, and behind a share of what is computed after it. The
        estimate that simulations of experts on an SSD use, phi = min(phi_max, hideable
        / T_flash); without a prefetch all of T_flash is waited for.

        Args:
            misses: experts that were in no slot, over all layers.
            compute_ms: of the window.
            draft_ms: of its draft.
            layer_ms: that a layer of a one-row window computes.
        """
        flash = misses * self.load * layer_ms
        rest = max(0.0, compute_ms - draft_ms)
        hideable = min(compute_ms, draft_ms + self.efficiency * rest)
        return flash - min(self.coverage * flash, hideable)


RESIDENT = Memory()


def memories(experts: int, *, loads: Iterable[float] = LOADS) -> tuple[Memory, ...]:
    """All in memory, and a quarter of them with each of `loads`.

    Args:
        experts: of a layer.
        loads: as `Memory.load`.
    """
    slots = max(1, experts // QUARTER)
    return (RESIDENT, *(Memory(slots=slots, load=load) for load in loads))
