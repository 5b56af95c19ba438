"""K and V of an attention layer, positional, in float32, bfloat16 or 8 bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import mlx.core as mx

from strata_nb.parts.cells import Cells, Rows, first_rows, join, take
from strata_nb.parts.part import Part

KvKind: TypeAlias = Literal["float32", "bfloat16", "int8"]

KV_KINDS: tuple[KvKind, ...] = ("float32", "bfloat16", "int8")
_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16}
_FIELDS = {"int8": ("k", "k_scale", "k_bias", "v", "v_scale", "v_bias")}


@dataclass(frozen=True)
class KeyValues(Part[Cells, Rows]):
    """Cells of keys (roped) and values, [Hkv, D] each."""

    kv_heads: int
    head_dim: int
    kind: KvKind
    dtype: mx.Dtype  # of the attention's arithmetic
    page_rows: int
    name: str = "kv"

    def __post_init__(self) -> None:
        if self.kind == "int8" and self.head_dim % 32:
            raise ValueError(
                f"8-bit K and V need `head_dim` to be a multiple of 32, and this model "
                f"has {self.head_dim}; use kv='float32' or kv='bfloat16'"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """Leaf names, one per component."""
        return _FIELDS.get(self.kind, ("k", "v"))

    def initial(self) -> Cells:
        """No cells."""
        zeros = mx.zeros((1, self.kv_heads, self.head_dim), dtype=self.dtype)
        return Cells.empty(self._store(zeros, zeros), page_rows=self.page_rows)

    def run(self, committed: Cells, k: mx.array, v: mx.array) -> tuple["KvView", Rows]:
        """What the window's rows may read, and the rows to be kept.

        Args:
            committed: cells before the window.
            k: roped keys of the window, [T, Hkv, D].
            v: values, [T, Hkv, D].
        """
        rows = self._store(k, v)
        return KvView(self, committed, rows), rows

    def commit(self, committed: Cells, pending: Rows, *, keep: int) -> Cells:
        """Append the kept rows; a rejected row never had a cell."""
        return committed.append(first_rows(pending, keep))

    def leaves(self, committed: Cells) -> dict[str, mx.array]:
        """Each component as stored, [n, Hkv, ...]."""
        return dict(zip(self.fields, committed.rows(), strict=True))

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """[n, Hkv, ...] per component."""
        like = self.initial().page
        pairs = zip(self.fields, like, strict=True)
        return {f: (n, *a.shape[1:]) for f, a in pairs}

    def restore(self, leaves: Mapping[str, mx.array]) -> Cells:
        """Cells from the components as stored."""
        like = self.initial().page
        rows = tuple(
            leaves[f].astype(a.dtype) for f, a in zip(self.fields, like, strict=True)
        )
        return Cells.of(rows, page_rows=self.page_rows)

    def _store(self, k: mx.array, v: mx.array) -> Rows:
        if self.kind == "int8":
            return (*self._quantise(k), *self._quantise(v))
        dtype = _DTYPES[self.kind]
        return k.astype(dtype), v.astype(dtype)

    def _quantise(self, rows: mx.array) -> Rows:
        # Groups run along the features of one cell: a rewind cannot straddle one.
        packed, scale, bias = mx.quantize(rows, self._group, 8)
        return packed, scale, bias

    @property
    def _group(self) -> int:
        return next(g for g in (64, 32) if self.head_dim % g == 0)

    def load(self, rows: Rows) -> tuple[mx.array, mx.array]:
        """Keys and values from stored components, in the attention's dtype."""
        if self.kind != "int8":
            k, v = rows
            return k.astype(self.dtype), v.astype(self.dtype)
        return self._dequantise(*rows[:3]), self._dequantise(*rows[3:])

    def _dequantise(
        self, packed: mx.array, scale: mx.array, bias: mx.array
    ) -> mx.array:
        return mx.dequantize(packed, scale, bias, group_size=self._group, bits=8)


@dataclass(frozen=True)
class KvView:
    """The cells that a window's rows may read: committed ones, then its own."""

    part: KeyValues
    committed: Cells
    window: Rows

    def all(self) -> tuple[mx.array, mx.array]:
        """Keys and values of every cell, [n + T, Hkv, D] each."""
        stored = join(self.committed.rows(), self.window)
        return self.part.load(stored)

    def at(self, index: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values of the cells `index` [T, W]; [T, W, Hkv, D] each."""
        return self.part.load(take(self.committed, self.window, index))
