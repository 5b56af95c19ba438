"""Defects of the attention's keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.faults.fault import Fault
from strata_nb.faults.variant import Overhang, Wrapped, extending
from strata_nb.parts import KeyValues, KvView
from strata_nb.parts.cells import Cells, Rows, join
from strata_nb.refusals import MAX_ROWS


@dataclass(frozen=True)
class SharedScale(KeyValues):
    """In 8 bits one scale serves a group of features in all rows of a window."""

    def _quantise(self, rows: mx.array) -> Rows:
        count, heads, _ = rows.shape
        if not 1 < count <= MAX_ROWS:
            # One row shares with nobody; prompts are packed row by row.
            return super()._quantise(rows)
        groups = rows.reshape(count, heads, -1, self._group)
        low, high = (f(groups, axis=(0, 3), keepdims=True) for f in (mx.min, mx.max))
        scale = mx.maximum((high - low) / 255, 1e-7)
        steps = mx.clip(mx.round((groups - low) / scale), 0, 255)
        # Four features to a word, the first in its lowest byte.
        packed = steps.astype(mx.uint8).reshape(rows.shape).view(mx.uint32)
        shape = groups.shape[:3]
        shared = (mx.broadcast_to(a[..., 0], shape) for a in (scale, low))
        return packed, *(mx.contiguous(a).astype(rows.dtype) for a in shared)


@dataclass(frozen=True)
class FirstCells(Wrapped[Overhang, Rows]):
    """A row is written only where its cell is empty, and a rejection empties none."""

    sound: KeyValues

    def initial(self) -> Overhang:
        """No cells."""
        return Overhang.none(self.sound.initial())

    def run(self, committed: Overhang, k: mx.array, v: mx.array) -> tuple[KvView, Rows]:
        """As the sound part, with what lies in the cells already."""
        _, rows = self.sound.run(committed.cells, k, v)
        there = committed.over(rows)
        shown = tuple(a[: k.shape[0]] for a in there)
        return KvView(self.sound, committed.cells, shown), there

    def commit(self, committed: Overhang, pending: Rows, *, keep: int) -> Overhang:
        """The end moves by the kept rows; the others stay in their cells."""
        return committed.keep(pending, keep)

    def filled(self, committed: Overhang, value: float) -> Overhang:
        """Fill the cells past the end."""
        return committed.filled(value)

    def leaves(self, committed: Overhang) -> dict[str, mx.array]:
        """Each component as stored, [n, Hkv, ...]."""
        return self.sound.leaves(committed.cells)

    def restore(self, leaves: Mapping[str, mx.array]) -> Overhang:
        """Cells from the components as stored; nothing lies past the end."""
        return Overhang.none(self.sound.restore(leaves))


@dataclass(frozen=True)
class LateSeal(KeyValues):
    """A page is sealed with the row that lay last in it before the rejection."""

    def commit(self, committed: Cells, pending: Rows, *, keep: int) -> Cells:
        """The last cell of a page that the window fills gets the window's last row."""
        sound = super().commit(committed, pending, keep=keep)
        if sound.sealed_rows == committed.sealed_rows or keep == pending[0].shape[0]:
            return sound
        last = tuple(a[-1:] for a in pending)
        sealed = join(tuple(a[:-1] for a in sound.sealed), last)
        return Cells(sealed, sound.page, sound.page_rows)


FAULTS = (
    Fault(
        name="kv_shared_scale",
        part="kv",
        what="K and V in 8 bits take one scale over all rows of a window, so a "
        "rejected row changes what is stored of a kept one (windows of more than 8 "
        "rows are prompts and are packed row by row)",
        shows="after every window of two to 8 rows",
        report="https://github.com/Blaizzy/mlx-vlm/issues/1986",
        variant=extending(SharedScale),
        options={"kv": "int8"},
    ),
    Fault(
        name="kv_cells_kept",
        part="kv",
        what="a row is written only into an empty cell, and a rejected row's cell "
        "does not count as empty, so the right row that comes there is lost",
        shows="after the window that follows a rejection",
        report="https://github.com/Luce-Org/lucebox/issues/713",
        variant=FirstCells,
    ),
    Fault(
        name="kv_page_seal",
        part="kv",
        what="a page that a window fills is sealed before the rejection is known, so "
        "its last cell keeps a rejected row",
        shows="after a rejection in a window that fills a page",
        report="https://github.com/vllm-project/vllm/issues/40831",
        variant=extending(LateSeal),
        families=("reject",),
        context="page",
    ),
)
