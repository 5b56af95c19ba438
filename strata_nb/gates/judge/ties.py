"""Near-ties: a decision that rounding may turn over, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from strata_nb.gates.judge.observed import LayerSeen, RowSeen, Scores
from strata_nb.models.qwen4_exp import Imposed

Decided = Literal["blocks", "experts", "token"]


class Place(NamedTuple):
    """Where a choice is made; a layer attends to blocks before it asks experts."""

    layer: int
    cell: int
    what: Decided

    def feeds(self, other: "Place") -> bool:
        """Whether the choice here can change what the choice at `other` sees.

        A layer's input comes from the layers below, of the same and earlier cells.
        """
        if self.layer == other.layer:
            return self.cell == other.cell and self.what < other.what
        return self.layer < other.layer and self.cell <= other.cell


@dataclass(frozen=True, eq=False)
class Flip:
    """A choice that two observations made in different ways.

    Attributes:
        what: "token", "experts" or "blocks".
        won: chosen by the subject alone, ascending.
        lost: chosen by the reference alone, ascending.
        subject: the subject's scores, None where not kept.
        reference: the reference's scores.
    """

    what: Decided
    won: tuple[int, ...]
    lost: tuple[int, ...]
    subject: Scores | None
    reference: Scores | None

    @property
    def gap(self) -> float:
        """Best lost choice less worst won choice, by the reference's scores.

        That is the largest gap of all pairs that changed places. NaN without scores.
        """
        lost, won = self._scores(self.reference, self.lost, self.won)
        return float(lost.max() - won.min()) if lost.size and won.size else np.nan

    @property
    def difference(self) -> float:
        """Largest difference between the two scores of a choice that changed places."""
        ours = self._scores(self.subject, self.lost, self.won)
        theirs = self._scores(self.reference, self.lost, self.won)
        gaps = np.abs(np.concatenate(ours) - np.concatenate(theirs))
        return float(gaps.max()) if gaps.size else np.nan

    @property
    def is_own(self) -> bool:
        """Whether the subject's own scores put what won before what lost.

        The lower index comes first where two scores are equal.
        """
        lost, won = self._scores(self.subject, self.lost, self.won)
        if not (lost.size and won.size):
            return False
        best = max(zip(lost, (-i for i in self.lost), strict=True))
        worst = min(zip(won, (-i for i in self.won), strict=True))
        return bool(worst > best)

    def is_near_tie(self, floor: float | None) -> bool:
        """Whether rounding alone can have turned the choice over.

        Args:
            floor: the engine's rounding in these scores; None grants no near-tie.
        """
        difference = self.difference
        # A NaN makes each comparison false.
        return (
            floor is not None
            and len(self.won) == len(self.lost)
            and self.is_own
            and self.gap < 2 * difference
            and difference <= floor
        )

    def told(self) -> str:
        """What came and what was wanted, in words."""
        return f"{self.what}: {_listed(self.won)} instead of {_listed(self.lost)}"

    @staticmethod
    def _scores(
        scores: Scores | None, lost: tuple[int, ...], won: tuple[int, ...]
    ) -> tuple[Scores, Scores]:
        if scores is None or max((*lost, *won), default=0) >= len(scores):
            return np.full(len(lost), np.nan), np.full(len(won), np.nan)
        wide = scores.astype(np.float64)
        return wide[list(lost)], wide[list(won)]


def _listed(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "none"


def token_flip(subject: RowSeen, reference: RowSeen) -> Flip | None:
    """The predictions, where they differ."""
    won, lost = subject.prediction, reference.prediction
    if won == lost:
        return None
    return Flip("token", (won,), (lost,), subject.logits, reference.logits)


def flips(
    subject: RowSeen, reference: RowSeen, *, ratio: int
) -> Iterator[tuple[Place, Flip]]:
    """The decisions of one row's layers that differ, as sets; order does not matter."""
    if not (subject.layers and reference.layers):
        return
    pairs = zip(subject.layers, reference.layers, strict=True)
    for layer, (ours, theirs) in enumerate(pairs):
        for flip in (
            _blocks(ours, theirs, subject.cell, ratio),
            _experts(ours, theirs),
        ):
            if flip is not None:
                yield Place(layer, subject.cell, flip.what), flip


def _experts(ours: LayerSeen, theirs: LayerSeen) -> Flip | None:
    return _flip(
        "experts",
        _set(ours.experts),
        _set(theirs.experts),
        (ours.router_logits, theirs.router_logits),
    )


def _blocks(ours: LayerSeen, theirs: LayerSeen, cell: int, ratio: int) -> Flip | None:
    if ours.blocks is None and theirs.blocks is None:
        return None
    # Dense attention makes no list: it attends to every complete block.
    every = set(range((cell + 1) // ratio))
    return _flip(
        "blocks",
        every if ours.blocks is None else _set(ours.blocks),
        every if theirs.blocks is None else _set(theirs.blocks),
        (ours.block_scores, theirs.block_scores),
    )


def _flip(
    what: Decided,
    ours: set[int],
    theirs: set[int],
    scores: tuple[Scores | None, Scores | None],
) -> Flip | None:
    if ours == theirs:
        return None
    won, lost = tuple(sorted(ours - theirs)), tuple(sorted(theirs - ours))
    return Flip(what, won, lost, *scores)


def _set(ids: np.ndarray) -> set[int]:
    return {i for i in ids.tolist() if i >= 0}


def with_choice(imposed: Imposed, place: Place, row: RowSeen) -> Imposed:
    """`imposed`, and at `place` what `row` chose there."""
    where, seen = (place.layer, place.cell), row.layers[place.layer]
    if place.what == "experts":
        return Imposed({**imposed.experts, where: seen.experts}, imposed.blocks)
    # A dense row has no scores, without which nothing is a near-tie.
    assert seen.blocks is not None
    return Imposed(imposed.experts, {**imposed.blocks, where: seen.blocks})
