"""Defects of routings that look at more than one row."""

from collections.abc import Callable
from dataclasses import dataclass, field

from strata_nb.faults.defect import Defect
from strata_nb.policies import HardBudget, Routing
from strata_nb.policies.choosing import Ids, Mask


@dataclass(frozen=True)
class UnfinishedRoot(HardBudget):
    """Drafts look at the root's experts before all of them are there.

    As rows that are routed side by side without a barrier: the second half of what
    they read is what the root of the layer before left there.
    """

    left: dict[int, Ids] = field(default_factory=dict, compare=False, repr=False)

    def eligible(self, root: Ids, resident: Mask) -> Mask:
        """By half of the root's experts, and half of an older root's."""
        half = len(root) // 2
        older = self.left.get(0, root * 0)
        self.left[0] = root
        read = root.copy()
        read[half:] = older[half:]
        allowed = resident.copy()
        allowed[read] = True
        spare = [expert for expert in range(len(allowed)) if not allowed[expert]]
        allowed[spare[: max(0, len(root) - int(allowed.sum()))]] = True
        return allowed


@dataclass(frozen=True, kw_only=True)
class RoutingFault(Defect):
    """One defect of a routing; `model.engine(routing=...)` takes what it makes.

    Attributes:
        routing: the faulty one, in the place of a sound `HardBudget()`.
    """

    planted_by = "model.engine(routing=ROUTING_FAULTS[...].routing())"

    routing: Callable[[], Routing]
    part: str = "experts"
    families: tuple[str, ...] = ("budget",)


FAULTS = (
    RoutingFault(
        name="root_ids_unfinished",
        what="drafts choose by the root's experts before all of these are known",
        shows="in windows with drafts under a routing that anchors them at the root",
        report="https://github.com/tenstorrent/tt-metal/issues/48479",
        routing=UnfinishedRoot,
    ),
)
