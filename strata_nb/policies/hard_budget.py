"""A hard bound on what drafts may cost: the root's experts and ready ones."""

import operator
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from strata_nb.policies.choosing import (
    Ids,
    Mask,
    chosen_of,
    order_of,
    scores_of,
    strongest_of,
)
from strata_nb.policies.routing import NATURAL, Chosen, Seen


@dataclass(frozen=True)
class HardBudget:
    """Drafts choose among anchors of the root and experts that were ready.

    The remedy for what a finite bonus (`Moce`) cannot bound: an expert that is neither
    wanted by the root nor ready is not eligible, however strong its logit. So drafts
    make a layer read at most the root's own K, and nothing beyond what the root reads
    anyway. The root and the rows of a prompt choose naturally.

    The root's experts are complete before any draft looks at them; rows that were
    routed side by side would need a barrier here.

    When fewer than K experts are eligible, the root's others become so by rank until K
    are. With all experts in memory, this is the natural choice.

    Attributes:
        anchors: strongest experts of the root that drafts may use though they be cold;
            None: all K.
        lossless: it is not.

    Raises:
        ValueError: `anchors` is below 0.
    """

    anchors: int | None = None
    lossless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        anchors = self.anchors
        if anchors is not None and (
            isinstance(anchors, bool) or operator.index(anchors) < 0
        ):
            raise ValueError(f"`anchors` is {anchors}, wanted 0 or more, or None")

    @property
    def name(self) -> str:
        """For records and reports."""
        anchors = "all" if self.anchors is None else self.anchors
        return f"hard budget({anchors} anchors), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """K experts of each row, [T, K]."""
        free = seen.headless or seen.resident is None or len(logits) == 1
        scores = None if free else scores_of(logits)
        if scores is None or seen.resident is None:
            return NATURAL.choose(logits, top_k=top_k, seen=seen)
        root = order_of(scores[:1])[0, :top_k]
        allowed = self.eligible(root, seen.resident)
        drafts = strongest_of(scores[1:], allowed, top_k=top_k)
        return chosen_of(np.concatenate([root[None], drafts]))

    def eligible(self, root: Ids, resident: Mask) -> Mask:
        """What drafts may use, bool [E]; at least K experts.

        Args:
            root: the root's experts by rank, [K], all of them.
            resident: experts that were ready, bool [E].
        """
        allowed = resident.copy()
        allowed[root[: self.anchors]] = True
        cold = root[~allowed[root]]
        allowed[cold[: max(0, len(root) - int(allowed.sum()))]] = True
        return allowed
