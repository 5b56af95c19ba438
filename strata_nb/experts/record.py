"""What one expert looks like on disk and in a slot: fields at fixed places of a record.

Dense experts are stored (in, out), as the engine multiplies them, gate columns first;
quantised ones as `mlx.core.quantize` gives them for the (out, in) matrix of that expert
alone, so that no record depends on another.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from strata_nb.errors import ExpertFileError

Kind: TypeAlias = Literal[
    "float32", "bfloat16", "q2", "q3", "q4", "q6", "q8", "mxfp4"
]  # qN: affine, N bits
Floats: TypeAlias = Literal["float32", "bfloat16"]

KINDS: tuple[Kind, ...] = get_args(Kind)
DENSE: tuple[Floats, ...] = get_args(Floats)
# Fields begin at multiples of this: a cache line, and what SIMD loads like best.
ALIGN = 64

# NumPy has no bfloat16: its bits are kept.
_BITS = {"float32": "float32", "bfloat16": "uint16"}


@dataclass(frozen=True)
class Field:
    """One array of a record."""

    name: str
    dtype: str  # as NumPy names it; bfloat16 is "uint16" bits
    shape: tuple[int, ...]
    offset: int  # bytes from the record's start

    # Asked at every read.
    @cached_property
    def nbytes(self) -> int:
        """Its bytes, without what follows up to the next field."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class RecordLayout:
    """Where the fields of every record of one file lie.

    Attributes:
        kind: how the numbers are stored.
        group: numbers that share a scale; 0 for dense kinds.
        fields: in the order of their offsets.
        record_bytes: of one record, a multiple of 64.
    """

    kind: Kind
    group: int
    fields: tuple[Field, ...]
    record_bytes: int

    @cached_property
    def gaps(self) -> tuple[int, ...]:
        """Bytes of nothing after each field, below 64 each."""
        ends = [*(field.offset for field in self.fields[1:]), self.record_bytes]
        return tuple(
            end - field.offset - field.nbytes
            for field, end in zip(self.fields, ends, strict=True)
        )

    def views(
        self, record: npt.NDArray[np.uint8] | memoryview
    ) -> tuple[npt.NDArray[Any], ...]:
        """The fields of the bytes of one record, as arrays of the same memory."""
        return tuple(
            np.frombuffer(record, field.dtype, math.prod(field.shape), field.offset)
            .reshape(field.shape)
            for field in self.fields
        )  # fmt: skip


def bits_of(kind: Kind) -> int:
    """Bits of one number, without its share of scale and bias."""
    widths = {"float32": 32, "bfloat16": 16, "mxfp4": 4}
    return widths[kind] if kind in widths else int(kind[1:])


def find_kind(name: str) -> Kind:
    """The kind of that name.

    Raises:
        ValueError: there is none.
    """
    for kind in KINDS:
        if kind == name:
            return kind
    raise ValueError(f"`kind` is {name!r}, wanted one of {', '.join(KINDS)}")


def layout_of(kind: Kind, *, hidden: int, inner: int, floats: Floats) -> RecordLayout:
    """The record of an expert of `hidden` inputs and `inner` features.

    Args:
        kind: how its numbers are stored.
        hidden: of the model.
        inner: features of the expert between its two products.
        floats: type of scales and biases of the affine kinds.

    Raises:
        ExpertFileError: a quantised kind, and no group divides both sizes.
    """
    group = 0 if kind in DENSE else _group(kind, hidden, inner)
    fields: list[Field] = []
    end = 0
    for name, dtype, shape in _arrays(kind, hidden, inner, floats, group):
        fields.append(Field(name, dtype, shape, end))
        end = _aligned(end + fields[-1].nbytes)
    return RecordLayout(kind, group, tuple(fields), end)


def _group(kind: Kind, hidden: int, inner: int) -> int:
    """The largest group that divides every row of both matrices."""
    for group in (32,) if kind == "mxfp4" else (64, 32):
        if hidden % group == 0 and inner % group == 0:
            return group
    raise ExpertFileError(
        f"{kind} wants rows that 32 divides, got gate and up of shape "
        f"{[2 * inner, hidden]} and down of {[hidden, inner]}; pack these experts as "
        f"{' or '.join(DENSE)}"
    )


def _arrays(
    kind: Kind, hidden: int, inner: int, floats: Floats, group: int
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Name, dtype and shape of each field, in order."""
    if kind in DENSE:
        yield "gate_up", _BITS[kind], (hidden, 2 * inner)
        yield "down", _BITS[kind], (inner, hidden)
        return
    scales = "uint8" if kind == "mxfp4" else _BITS[floats]
    for name, outputs, inputs in (
        ("gate_up", 2 * inner, hidden),
        ("down", hidden, inner),
    ):
        yield f"{name}/weight", "uint32", (outputs, inputs * bits_of(kind) // 32)
        yield f"{name}/scales", scales, (outputs, inputs // group)
        if kind != "mxfp4":
            yield f"{name}/biases", scales, (outputs, inputs // group)


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
