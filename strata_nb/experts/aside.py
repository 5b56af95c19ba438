"""Experts with which a model drafts for itself: a few of them, or all in few bits."""

import operator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from strata_nb.experts.record import Kind, bits_of, find_kind
from strata_nb.packs import Checkpoint

GROUPS = (32, 64, 128)
"""Numbers that may share a scale."""

# Numbers of the experts of a layer that are multiplied at one time.
_CHUNK = 1 << 22
# Squares that differ by less of the largest are equal: rounding must break no tie.
_GRID = 1e-12


@dataclass(frozen=True)
class FewExperts:
    """Pinned experts alone; one that is not is replaced by the nearest that is.

    Attributes:
        count: pinned experts of a layer, N, 1 or more.

    Raises:
        ValueError: `count` is below 1.
    """

    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or operator.index(self.count) < 1:
            raise ValueError(f"`count` is {self.count}, wanted 1 or more experts")


@dataclass(frozen=True)
class LowBits:
    """All routed experts, quantised; routers, attention and shared experts are not.

    Attributes:
        kind: an affine kind, "q2" to "q8".
        group: numbers of a row that share a scale.

    Raises:
        ValueError: the kind is unknown or none of these, or so is the group.
    """

    kind: Kind = "q4"
    group: int = 32

    def __post_init__(self) -> None:
        if not find_kind(self.kind).startswith("q"):
            raise ValueError(f"`kind` is {self.kind!r}, wanted 'q2' to 'q8'")
        if self.group not in GROUPS:
            raise ValueError(
                f"`group` is {self.group}, wanted {', '.join(map(str, GROUPS))}"
            )

    @property
    def bits(self) -> int:
        """Of one number, without its share of scale and bias."""
        return bits_of(self.kind)


AsideHow: TypeAlias = FewExperts | LowBits
"""How a model drafts beside itself."""


def distances(checkpoint: Checkpoint, layer: int) -> npt.NDArray[np.float64]:
    """How far the experts of a layer lie from each other, by their weights, [E, E].

    The root of the summed squares of all differences of both matrices (L2). SpecMoE
    (arXiv 2604.10152) wants a table of similarity; this is what a re-implementation
    takes. It depends on no data.

    Args:
        checkpoint: has the weights; one layer of them is in memory at a time.
        layer: 0-based.

    Raises:
        ValueError: no such layer.
        CheckpointError: the checkpoint changed since it was opened.
    """
    gate_up, down = checkpoint.experts(layer)
    count = len(gate_up)
    products = np.zeros((count, count))
    for matrix in (gate_up, down):
        flat = matrix.reshape(count, -1)
        width = max(1, _CHUNK // count)
        for at in range(0, flat.shape[1], width):
            piece = flat[:, at : at + width].astype(np.float64)
            products += piece @ piece.T
    own = np.diagonal(products)
    squares = np.maximum(own[:, None] + own[None] - 2 * products, 0.0)
    grid = _GRID * max(float(own.max()), np.finfo(np.float64).tiny)
    far: npt.NDArray[np.float64] = np.sqrt(np.round(squares / grid) * grid)
    return far


def substitutes(
    far: npt.NDArray[np.float64], pinned: npt.ArrayLike
) -> npt.NDArray[np.uint32]:
    """What is computed in the place of each expert: the nearest pinned one, [E].

    Args:
        far: distances of a layer, [E, E].
        pinned: its pinned experts, [N]; one of them stands for itself, and of equally
            near ones the lowest is taken.

    Raises:
        ValueError: none is pinned, or one that there is not.
    """
    numbers = np.unique(np.asarray(pinned, np.int64))
    count = len(far)
    if not numbers.size or numbers[0] < 0 or numbers[-1] >= count:
        raise ValueError(
            f"wanted pinned experts of 0 to {count - 1}, got {numbers.tolist()}"
        )
    nearest = np.argmin(far[:, numbers], axis=1)
    found: npt.NDArray[np.uint32] = numbers[nearest].astype(np.uint32)
    # Two experts may have the same weights, and then the distance 0.
    found[numbers] = numbers
    return found
