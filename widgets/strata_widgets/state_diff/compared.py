"""Two states at one moment: what differs, as `strata_nb` says, by part and layer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from strata_nb.gates import PARTS
from strata_nb.parts import digest_leaves
from strata_nb.state import Difference, Leaves
from strata_nb.trace import Leaf

Kind: TypeAlias = Literal["equal", "unchanged", "differs", "absent"]
Key: TypeAlias = tuple[str, int | None]
Digests: TypeAlias = dict[Key, tuple[str, str]]

WHOLE: Final = -1
"""The layer of a part that belongs to the whole sequence, where a number is wanted."""


@dataclass(frozen=True)
class Array:
    """One array of a state beside the same one of the other.

    Attributes:
        leaf: its address.
        shapes: in the first and in the second; None where it is absent.
        size: largest absolute difference; 0 for none, infinite where shapes differ.
        cell: of the first row that differs, None where that has no cell.
        differing: entries that differ; None where entries cannot be paired.
        index: of the first of them.
    """

    leaf: Leaf
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    size: float = 0.0
    cell: int | None = None
    differing: int | None = 0
    index: tuple[int, ...] | None = None

    @property
    def is_absent(self) -> bool:
        """Whether one of the two states lacks it."""
        return None in self.shapes

    @property
    def differs(self) -> bool:
        """Whether the two differ."""
        return self.size != 0


@dataclass(frozen=True)
class Compared:
    """What one look at two states found.

    Attributes:
        arrays: of both, by address, in the order in which a layer computes its parts.
        positions: committed cells of the first and of the second.
        found: what `strata_nb` says differs.
        digests: of each part and layer, in the first and in the second.
    """

    arrays: dict[Leaf, Array]
    positions: tuple[int, int]
    found: tuple[Difference, ...]
    digests: Digests

    @property
    def parts(self) -> tuple[str, ...]:
        """Kinds of state, in order."""
        return tuple(dict.fromkeys(leaf.part for leaf in self.arrays))

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers, `WHOLE` first where a part has none."""
        return tuple(sorted({_number(leaf.layer) for leaf in self.arrays}))

    @property
    def differing(self) -> list[Array]:
        """The arrays that differ."""
        return [array for array in self.arrays.values() if array.differs]

    @property
    def is_equal_to_the_bit(self) -> bool:
        """Whether all bytes are equal; numbers can be, and bits not: 0 and -0."""
        return not self.found and all(a == b for a, b in self.digests.values())

    def of(self, part: str, layer: int | None = None) -> list[Array]:
        """The arrays of `part`, of one layer or of all."""
        return [
            array
            for leaf, array in self.arrays.items()
            if leaf.part == part and layer in (None, leaf.layer)
        ]

    def kinds(self, unchanged: set[Key]) -> dict[Key, Kind]:
        """What each part and layer is.

        Args:
            unchanged: those that have not changed yet.
        """
        made: dict[Key, Kind] = {}
        for leaf, array in self.arrays.items():
            key = (leaf.part, leaf.layer)
            kind: Kind = "unchanged" if key in unchanged else "equal"
            if array.is_absent:
                kind = "absent"
            elif array.differs:
                kind = "differs"
            made[key] = max(made.get(key, kind), kind, key=_WORST.index)
        return made


_WORST: Final[tuple[Kind, ...]] = ("unchanged", "equal", "differs", "absent")


def compared(
    first: Leaves,
    second: Leaves,
    found: list[Difference],
    *,
    positions: tuple[int, int],
    atol: float,
) -> Compared:
    """Put `found` beside the arrays that it speaks of.

    Args:
        first: leaves of one state.
        second: leaves of the other.
        found: their differences.
        positions: committed cells of both.
        atol: what `found` counted as none.
    """
    says = {Leaf(d.part, d.layer, d.field): d for d in found}
    leaves = sorted({*first, *second}, key=_order)
    return Compared(
        {leaf: _array(leaf, first, second, says.get(leaf), atol) for leaf in leaves},
        positions,
        tuple(found),
        _digests(first, second),
    )


def largest(arrays: list[Array]) -> float:
    """The largest difference of `arrays`; NaN before any number."""
    sizes = [array.size for array in arrays]
    return math.nan if any(map(math.isnan, sizes)) else max(sizes, default=0.0)


def _array(
    leaf: Leaf, first: Leaves, second: Leaves, says: Difference | None, atol: float
) -> Array:
    one, other = first.get(leaf), second.get(leaf)
    shapes = (
        None if one is None else one.shape,
        None if other is None else other.shape,
    )
    if says is None:
        return Array(leaf, shapes)
    # Only the engine's parts have rows that are cells.
    cell = says.cell if leaf.part in PARTS else None
    if one is None or other is None or one.shape != other.shape:
        return Array(leaf, shapes, says.size, cell, None)
    # Which arrays differ was found there; here their entries are counted.
    gaps = np.abs(one.astype(np.float64) - other.astype(np.float64))
    apart = np.argwhere(~(gaps <= atol))
    index = tuple(int(n) for n in apart[0])
    return Array(leaf, shapes, says.size, cell, len(apart), index)


def _digests(first: Leaves, second: Leaves) -> Digests:
    keys = {(leaf.part, leaf.layer) for leaf in (*first, *second)}
    return {key: (_digest(first, key), _digest(second, key)) for key in keys}


def _digest(leaves: Leaves, key: Key) -> str:
    own: Mapping[str, np.ndarray] = {
        leaf.field: array for leaf, array in leaves.items() if leaf[:2] == key
    }
    return digest_leaves(own) if own else ""


def _order(leaf: Leaf) -> tuple[int, str, int, str]:
    place = PARTS.index(leaf.part) if leaf.part in PARTS else len(PARTS)
    return place, leaf.part, _number(leaf.layer), leaf.field


def _number(layer: int | None) -> int:
    return WHOLE if layer is None else layer
