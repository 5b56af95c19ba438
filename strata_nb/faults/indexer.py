"""Defects of the sparse attention's index: the raw tail and the pooled block keys."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import mlx.core as mx

from strata_nb.faults.fault import Fault
from strata_nb.faults.variant import Overhang, Wrapped, extending
from strata_nb.parts import Cells, QsaBlocks, QsaTail
from strata_nb.parts.qsa_blocks import PendingBlocks
from strata_nb.refusals import MAX_ROWS


@dataclass(frozen=True)
class Slots:
    """R slots of raw keys, and where the text and the writing stand in them."""

    keys: mx.array  # [R, D_I]
    n: int  # committed cells modulo R
    at: int  # the slot that is written next; only a fault parts it from `n`
    begun: bool = True  # there has been a window


@dataclass(frozen=True)
class RingTail(Wrapped[Slots, mx.array]):
    """A tail of R slots: a row at cell c is written to slot c mod R, and stays."""

    sound: QsaTail

    def initial(self) -> Slots:
        """Empty slots."""
        shape = (self.sound.ratio, self.sound.head_dim)
        return Slots(mx.zeros(shape, dtype=self.sound.dtype), 0, 0, begun=False)

    def run(self, committed: Slots, raw: mx.array) -> tuple[mx.array, mx.array]:
        """Write every row in place; pool the slots whenever a block ends.

        Args:
            committed: the slots before the window.
            raw: raw keys of the window, [T, D_I].

        Returns:
            [blocks, R, D_I] of complete blocks; the slots after each row,
            [T, R, D_I].
        """
        ratio = self.sound.ratio
        slots, blocks, after = list(committed.keys), [], []
        for row in range(raw.shape[0]):
            slots[(committed.at + row) % ratio] = raw[row]
            after.append(mx.stack(slots))
            if (committed.n + row + 1) % ratio == 0:
                blocks.append(after[-1])
        empty = mx.zeros((0, *committed.keys.shape), dtype=self.sound.dtype)
        return mx.stack(blocks) if blocks else empty, mx.stack(after)

    def commit(self, committed: Slots, pending: mx.array, *, keep: int) -> Slots:
        """The slots as the last row of the window left them."""
        return self._moved(committed, pending[-1], keep, keep)

    def _moved(self, before: Slots, keys: mx.array, cells: int, written: int) -> Slots:
        ratio = self.sound.ratio
        at = (before.at + written) % ratio
        return Slots(mx.contiguous(keys), (before.n + cells) % ratio, at)

    def filled(self, committed: Slots, value: float) -> Slots:
        """Fill the slots past the open block's cells."""
        live = mx.arange(self.sound.ratio)[:, None] < committed.n
        return replace(committed, keys=mx.where(live, committed.keys, value))

    def leaves(self, committed: Slots) -> dict[str, mx.array]:
        """`rows`, [n mod R, D_I]."""
        return {"rows": committed.keys[: committed.n]}

    def restore(self, leaves: Mapping[str, mx.array]) -> Slots:
        """Slots whose first rows are those of the open block."""
        rows = leaves["rows"].astype(self.sound.dtype)
        count = rows.shape[0]
        keys = mx.concatenate([rows, self.initial().keys[count:]])
        return Slots(keys, count, count)


@dataclass(frozen=True)
class LastRowTail(RingTail):
    """Slots are copied after each row of a window; the last copy is put back.

    A mend that mends nothing: the copy of the last kept row was wanted, and that of
    the last row is what the ring holds anyway.
    """


@dataclass(frozen=True)
class OldTail(RingTail):
    """The slots of before a window are put back, and no kept row is replayed."""

    def commit(self, committed: Slots, pending: mx.array, *, keep: int) -> Slots:
        """The slots of before the window; a prompt's rows stay written.

        A tail is not told what is a prompt, and takes for one the first window of a
        sequence and any that is wider than windows with drafts can be.
        """
        is_prompt = not committed.begun or pending.shape[0] > MAX_ROWS
        keys = pending[-1] if is_prompt else committed.keys
        return self._moved(committed, keys, keep, keep)


@dataclass(frozen=True)
class AheadTail(RingTail):
    """Writing goes on where the window ended, though the text went back."""

    def commit(self, committed: Slots, pending: mx.array, *, keep: int) -> Slots:
        """The text moves by the kept rows, the slot to write by all of them."""
        return self._moved(committed, pending[-1], keep, pending.shape[0])


@dataclass(frozen=True)
class Appended:
    """Block keys as they were appended, and how many blocks the text has."""

    cells: Cells
    count: int


@dataclass(frozen=True)
class AllBlocks(Wrapped[Appended, PendingBlocks]):
    """Every block that a window completed is appended, whatever is kept of it."""

    sound: QsaBlocks

    def initial(self) -> Appended:
        """No block."""
        return Appended(self.sound.initial(), 0)

    def run(
        self, committed: Appended, new_keys: mx.array, *, start: int
    ) -> tuple[list[mx.array], PendingBlocks]:
        """As the sound part, behind whatever was appended."""
        return self.sound.run(committed.cells, new_keys, start=start)

    def commit(
        self, committed: Appended, pending: PendingBlocks, *, keep: int
    ) -> Appended:
        """Append all keys of the window; count the blocks of the kept rows."""
        cells = committed.cells.append((pending.keys,))
        return Appended(cells, committed.count + pending.complete(keep))

    def filled(self, committed: Appended, value: float) -> Appended:
        """Fill the keys past the blocks of the text."""
        (keys,) = committed.cells.rows()
        live = mx.arange(keys.shape[0])[:, None] < committed.count
        rows = (mx.where(live, keys, value).astype(keys.dtype),)
        cells = Cells.of(rows, page_rows=self.sound.page_rows)
        return Appended(cells, committed.count)

    def leaves(self, committed: Appended) -> dict[str, mx.array]:
        """`keys`, [floor(n / R), D_I]."""
        return {"keys": committed.cells.rows()[0][: committed.count]}

    def restore(self, leaves: Mapping[str, mx.array]) -> Appended:
        """Blocks from their keys."""
        cells = self.sound.restore(leaves)
        return Appended(cells, cells.n)


@dataclass(frozen=True)
class FirstKeys(Wrapped[Overhang, PendingBlocks]):
    """A block keeps the first key that it was pooled to, by rejected rows too."""

    sound: QsaBlocks

    def initial(self) -> Overhang:
        """No block."""
        return Overhang.none(self.sound.initial())

    def run(
        self, committed: Overhang, new_keys: mx.array, *, start: int
    ) -> tuple[list[mx.array], PendingBlocks]:
        """As the sound part; a block that has a key is not given another."""
        (keys,) = committed.over((new_keys,))
        shown = keys[: new_keys.shape[0]]
        pieces, pending = self.sound.run(committed.cells, shown, start=start)
        return pieces, replace(pending, keys=keys)

    def commit(
        self, committed: Overhang, pending: PendingBlocks, *, keep: int
    ) -> Overhang:
        """Append the blocks that are complete; the other keys wait for theirs."""
        return committed.keep((pending.keys,), pending.complete(keep))

    def filled(self, committed: Overhang, value: float) -> Overhang:
        """Fill the keys that wait."""
        return committed.filled(value)

    def leaves(self, committed: Overhang) -> dict[str, mx.array]:
        """`keys`, [floor(n / R), D_I]."""
        return self.sound.leaves(committed.cells)

    def restore(self, leaves: Mapping[str, mx.array]) -> Overhang:
        """Blocks from their keys; none waits."""
        return Overhang.none(self.sound.restore(leaves))


@dataclass(frozen=True)
class ForgottenBlocks(QsaBlocks):
    """A saved state brings back how many blocks there are, and not their keys."""

    def restore(self, leaves: Mapping[str, mx.array]) -> Cells:
        """As many blocks as were saved, all of them zeros."""
        return super().restore({"keys": mx.zeros_like(leaves["keys"])})


_LEFT_AHEAD = "https://github.com/Atlas-Inf/atlas/issues/23"
_READ_BEFORE_REWRITTEN = "https://github.com/Luce-Org/lucebox/issues/713"
_NO_INDEX_KEYS = "https://github.com/osaurus-ai/osaurus/issues/2525"

FAULTS = (
    Fault(
        name="qsa_ring",
        part="qsa_tail",
        what="the tail is a ring of R slots that every row of a window writes in "
        "place, rejected ones too, and nothing puts it back",
        shows="after a rejection in a window that passes the end of a block",
        report=_LEFT_AHEAD,
        variant=RingTail,
    ),
    Fault(
        name="qsa_last_row_tail",
        part="qsa_tail",
        what="the tail is copied after each row, and a commit puts back the copy of "
        "the window's last row instead of that of its last kept row",
        shows="after a rejection in a window that passes the end of a block",
        report=_LEFT_AHEAD,
        variant=LastRowTail,
    ),
    Fault(
        name="qsa_old_tail",
        part="qsa_tail",
        what="a commit puts back the tail of before the window and does not replay "
        "the kept rows (a sequence's first window, and any of more than 8 rows, "
        "counts as a prompt and is kept)",
        shows="after every window, also one without drafts, unless its last kept row "
        "ends a block",
        report=_READ_BEFORE_REWRITTEN,
        variant=OldTail,
    ),
    Fault(
        name="qsa_kv_length_only",
        part="qsa_tail",
        what="a rejection takes K and V back, and the tail goes on from the end of "
        "the window",
        shows="after a rejection in a block that the kept rows leave open, at the "
        "latest when the block is complete",
        report=_LEFT_AHEAD,
        variant=AheadTail,
    ),
    Fault(
        name="qsa_block_count",
        part="qsa_blocks",
        what="the number of blocks is taken from the end of the window, so keys of "
        "blocks that rejected rows completed are appended",
        shows="when the text completes the next block after a rejection at a "
        "block's end",
        report=_LEFT_AHEAD,
        variant=AllBlocks,
    ),
    Fault(
        name="qsa_block_keys_kept",
        part="qsa_blocks",
        what="a block that rejected rows completed keeps its key, and is not pooled "
        "again when the text completes it",
        shows="when the text completes a block that a rejected row completed first",
        report=_READ_BEFORE_REWRITTEN,
        variant=FirstKeys,
    ),
    Fault(
        name="qsa_blocks_not_restored",
        part="qsa_blocks",
        what="a saved state brings K and V back, and the block keys as zeros",
        shows="as soon as a saved state with a complete block is restored",
        report=_NO_INDEX_KEYS,
        variant=extending(ForgottenBlocks),
        families=("saved",),
    ),
)
