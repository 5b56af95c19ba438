"""What a case is, and the sizes that it has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import mlx.core as mx

from strata_kernels._prelude.kernel import Target

Arrays: TypeAlias = Sequence[mx.array]
Advance: TypeAlias = Callable[[mx.array], Arrays]
"""One call whose first array a chain of calls goes through."""


@dataclass(frozen=True)
class Case:
    """A kernel at one size.

    Attributes:
        name: for the report.
        rows: T.
        start: what a chain of calls begins with: the state, or the logits.
        kernel: one call on a target.
        wanted: what it must equal.
        exact: outputs that must be equal to the bit, by their number.
        rel: how far others may be off, of their root mean square.
        plain: calls that it replaces, by name; "reference" is plain MLX.
        bits: pairs that must be equal to the bit, by what they show.
    """

    name: str
    rows: int
    start: mx.array
    kernel: Callable[[mx.array, Target], Arrays]
    wanted: Advance
    rel: float
    exact: frozenset[int] = frozenset()
    plain: Mapping[str, Advance] = field(default_factory=dict)
    bits: Mapping[str, Callable[[Target], tuple[Arrays, Arrays]]] = field(
        default_factory=dict
    )


class Sizes(NamedTuple):
    """Sizes of the layers."""

    key_heads: int
    value_heads: int
    value_dim: int
    key_dim: int
    experts: int
    top_k: int
    slots: int
    index_heads: int
    index_dim: int
    blocks: int
    budget: int
    heads: int
    kv_heads: int
    dim: int


RELEASED = Sizes(16, 32, 128, 128, 512, 10, 128, 4, 128, 8192, 512, 24, 2, 256)
SMALL = Sizes(2, 4, 6, 33, 40, 5, 34, 2, 40, 300, 5, 4, 2, 40)
