"""The verdict: same, near-tie or fault, by parts, decisions, logits and tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.gates.judge.floor import Floor, rms
from strata_nb.gates.judge.observed import LayerSeen, Observed, RowSeen, see
from strata_nb.gates.judge.ties import Flip, Place, flips, token_flip, with_choice
from strata_nb.gates.records import By, Finding, Moment
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.state import differences
from strata_nb.trace import Leaf

__all__ = [
    "PARTS_TOLERANCE",
    "LayerSeen",
    "Observed",
    "RowSeen",
    "judge",
    "see",
]

PARTS_TOLERANCE = 1e-3
"""Of the root mean square of a leaf or of a row's logits, where arithmetic depends on
the number of rows. Rounding in float32 makes a hundredth of it in a few rows; damage
that a gate must see, 1e-2 in one number, is more."""

FLOORS = 4
"""A part may differ by as many floors: a floor is one window's, a case has several."""

Array = npt.NDArray[Any]


def judge(
    subject: Observed,
    reference: Observed | Callable[[Imposed], Observed],
    *,
    by: By,
    moment: Moment,
    ratio: int,
    floor: Floor | None,
    exact: bool,
    tokens: bool = True,
) -> tuple[Finding, ...]:
    """Where a subject and its reference part, and whether rounding may have done it.

    Rows of cells that both have are compared: logits, predictions, and the sets of
    experts and blocks. Where a set differs by a near-tie, the reference is observed
    again with the subject's choice imposed there, until no other is found; the rest is
    compared with that observation. Of several sets that differ those count to which no
    other difference leads. Predictions are the greedy ones.

    Args:
        subject: what is judged.
        reference: what is right; or what makes it with some decisions imposed, once
            with none and again for each further near-tie. An observation that cannot
            be made again lets a near-tie spoil what comes after it.
        by: the comparison, for the findings.
        moment: when, for the findings.
        ratio: cells a block, R.
        floor: the engine's rounding; None grants no near-tie.
        exact: both have the same arithmetic: all is equal to the bit, and nothing is a
            near-tie.
        tokens: compare predictions; without it logits are still compared.

    Returns:
        Findings in order of cause; none when all is the same.

    Raises:
        ValueError: `reference` did not take a decision that was imposed.
    """
    judged = _Judge(by, moment, ratio, None if exact else floor, exact, tokens)
    found, settled = judged.decisions(subject, reference)
    found += judged.rows(subject, settled)
    found += judged.parts(subject, settled)
    return tuple(sorted(found, key=lambda f: f.order))


@dataclass(frozen=True)
class _Judge:
    """The terms of one comparison."""

    by: By
    moment: Moment
    ratio: int
    floor: Floor | None
    exact: bool
    tokens: bool

    def decisions(
        self, subject: Observed, reference: Observed | Callable[[Imposed], Observed]
    ) -> tuple[list[Finding], Observed]:
        """Findings about sets, and the observation with all near-ties imposed."""
        if isinstance(reference, Observed):
            flipped = self._flips(subject, reference)
            return [self._flipped(p, f) for p, f in flipped.items()], reference
        found: list[Finding] = []
        imposed, taken = NOTHING, set[Place]()
        while True:
            seen = reference(imposed)
            flipped = self._flips(subject, seen)
            first = [p for p in flipped if not any(o.feeds(p) for o in flipped)]
            _check_taken(taken.intersection(first))
            new = [self._flipped(place, flipped[place]) for place in first]
            found += new
            if not new or any(f.kind == "fault" for f in new):
                return found, seen
            for place in first:
                imposed = with_choice(imposed, place, subject.rows[place.cell])
            taken.update(first)

    def _flips(self, subject: Observed, reference: Observed) -> dict[Place, Flip]:
        return {
            place: flip
            for cell in sorted({*subject.rows} & {*reference.rows})
            for place, flip in flips(
                subject.rows[cell], reference.rows[cell], ratio=self.ratio
            )
        }

    def _flipped(self, place: Place, flip: Flip) -> Finding:
        return self._flip(flip, layer=place.layer, cell=place.cell)

    def _flip(self, flip: Flip, *, layer: int | None, cell: int) -> Finding:
        near = flip.is_near_tie(self._allowed(flip))
        return Finding(
            kind="near-tie" if near else "fault",
            by=self.by,
            moment=self.moment,
            what=flip.what,
            layer=layer,
            cell=cell,
            size=_number(flip.difference),
            gap=_number(flip.gap),
            note=flip.told(),
        )

    def _allowed(self, flip: Flip) -> float | None:
        if self.floor is None:
            return None
        kinds = {
            "token": self.floor.logits,
            "experts": self.floor.experts,
            "blocks": self.floor.blocks,
        }
        return kinds[flip.what]

    def rows(self, subject: Observed, reference: Observed) -> list[Finding]:
        """Findings about inputs, logits and predictions."""
        found = []
        for cell in sorted({*subject.rows} & {*reference.rows}):
            ours, theirs = subject.rows[cell], reference.rows[cell]
            if ours.token != theirs.token:
                note = f"was fed token {ours.token}, wanted {theirs.token}"
                found.append(self._fault("token", cell=cell, note=note))
                continue
            found += self._logits(ours, theirs)
            flip = token_flip(ours, theirs) if self.tokens else None
            if flip is not None:
                found.append(self._flip(flip, layer=None, cell=cell))
        return found

    def _logits(self, ours: RowSeen, theirs: RowSeen) -> list[Finding]:
        one, other = ours.logits, theirs.logits
        if one.shape != other.shape:
            note = f"shape {one.shape}, wanted {other.shape}"
            size = float("inf")
            return [self._fault("logits", cell=ours.cell, size=size, note=note)]
        gaps = np.abs(one - other)
        allowed = 0.0
        if not self.exact:
            floor = 0.0 if self.floor is None else self.floor.logits
            allowed = max(PARTS_TOLERANCE * rms(other), floor)
        if (gaps <= allowed).all():
            return []
        size = _number(float(gaps.max()))
        return [self._fault("logits", cell=ours.cell, size=size)]

    def parts(self, subject: Observed, reference: Observed) -> list[Finding]:
        """Findings about the position and every part, the first cell of each layer."""
        found = []
        if subject.position != reference.position:
            size = float(abs(subject.position - reference.position))
            note = f"{subject.position} cells, wanted {reference.position}"
            found.append(self._fault("position", size=size, note=note))
        worst: dict[tuple[str, int | None], Finding] = {}
        for leaf in sorted({*subject.leaves, *reference.leaves}, key=str):
            finding = self._leaf(leaf, subject, reference)
            if finding is not None:
                key = leaf.part, leaf.layer
                worst[key] = _joined(worst.get(key), finding)
        return [*found, *worst.values()]

    def _leaf(
        self, leaf: Leaf, subject: Observed, reference: Observed
    ) -> Finding | None:
        one, other = subject.leaves.get(leaf), reference.leaves.get(leaf)
        if one is None or other is None:
            who = "subject" if one is None else "reference"
            note = f"`{leaf.field}` is missing in the {who}"
            return self._part(leaf, None, float("inf"), note)
        if _has_same_bits(one, other) and not _has_nan(one):
            return None
        tolerance = self._tolerance(leaf, other)
        if _is_packed(leaf, reference) and not self.exact:
            one, other, tolerance = one.view(np.uint8), other.view(np.uint8), 1.0
        gaps = differences(
            {leaf: one},
            {leaf: other},
            position=subject.position,
            ratio=self.ratio,
            atol=tolerance,
        )
        if gaps:
            gap = gaps[0]
            return self._part(leaf, gap.cell, _number(gap.size), _why(leaf, one, other))
        if self.exact:
            return self._part(leaf, None, 0.0, f"`{leaf.field}`: equal, other bits")
        return None

    def _tolerance(self, leaf: Leaf, wanted: Array) -> float:
        # Whole numbers, such as tokens, are equal or they are not.
        if self.exact or not np.issubdtype(wanted.dtype, np.floating):
            return 0.0
        floor = 0.0 if self.floor is None else self.floor.parts.get(leaf.part, 0.0)
        return max(PARTS_TOLERANCE, FLOORS * floor) * rms(wanted)

    def _part(self, leaf: Leaf, cell: int | None, size: float, note: str) -> Finding:
        return self._fault(leaf.part, layer=leaf.layer, cell=cell, size=size, note=note)

    def _fault(
        self,
        what: str,
        *,
        layer: int | None = None,
        cell: int | None = None,
        size: float = 1.0,
        note: str = "",
    ) -> Finding:
        return Finding(
            "fault", self.by, self.moment, what, layer, cell, size, note=note
        )


def _check_taken(again: set[Place]) -> None:
    """Without this a reference that ignores what is imposed would be asked for ever."""
    if again:
        layer, cell, what = min(again)
        raise ValueError(
            f"the reference did not take the {what} imposed on layer {layer}, cell "
            f"{cell}; run its rows on an engine made with `imposed`"
        )


def _joined(first: Finding | None, second: Finding) -> Finding:
    """One finding a part and layer: the first cell, the largest size."""
    if first is None:
        return second
    early = min(first, second, key=lambda f: np.inf if f.cell is None else f.cell)
    notes = [f.note for f in (first, second) if f.note]
    return Finding(
        first.kind,
        first.by,
        first.moment,
        first.what,
        first.layer,
        early.cell,
        max(first.size, second.size),
        note="; ".join(notes),
    )


def _why(leaf: Leaf, one: Array, other: Array) -> str:
    if one.shape != other.shape:
        return f"`{leaf.field}` has shape {one.shape}, wanted {other.shape}"
    if _has_nan(one) or _has_nan(other):
        return f"`{leaf.field}` has NaN"
    return ""


def _is_packed(leaf: Leaf, observed: Observed) -> bool:
    """Whether it is words of four 8-bit numbers, which rounding moves by one at most.

    Such a leaf has its scales beside it.
    """
    return leaf._replace(field=f"{leaf.field}_scale") in observed.leaves


def _has_same_bits(one: Array, other: Array) -> bool:
    same_kind = one.dtype == other.dtype and one.shape == other.shape
    return same_kind and one.tobytes() == other.tobytes()


def _has_nan(array: Array) -> bool:
    return np.issubdtype(array.dtype, np.floating) and bool(np.isnan(array).any())


def _number(size: float) -> float:
    """Infinite for NaN, so that findings compare and sort."""
    return float("inf") if np.isnan(size) else size
