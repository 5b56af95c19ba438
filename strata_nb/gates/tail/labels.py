"""R slots that hold labels of raw keys, and the blocks that are pooled from them.

Nothing here knows of a model: a raw key is a name such as "raw4", or "raw8 rejected".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

Mend: TypeAlias = Literal[
    "ring",
    "contained",
    "snapshot and replay",
    "last row's tail",
    "old tail",
    "K and V shrunk",
    "all blocks appended",
    "first block keys",
]
"""What is done about slots, and pooled keys, that rejected rows have written.

ring: nothing.
contained: nothing either, but a window never passes the end of a block.
snapshot and replay: the slots from before the window, and the kept rows written again.
last row's tail: the slots as the window's last row left them.
old tail: the slots from before the window, and nothing written again.
K and V shrunk: nothing, and writing goes on at the slot after the window's last row.
all blocks appended: the slots are right; keys of blocks that rejected rows completed
    are appended as well.
first block keys: the slots are right; a block that rejected rows completed keeps the
    key that it has.
"""

MENDS: tuple[Mend, ...] = (
    "ring",
    "contained",
    "snapshot and replay",
    "last row's tail",
    "old tail",
)
"""Those that have been published with a count of failures."""

FAULT_OF: Mapping[Mend, str | None] = MappingProxyType(
    {
        "ring": "qsa_ring",
        "contained": "qsa_ring",
        "snapshot and replay": None,  # what the engine does
        "last row's tail": "qsa_last_row_tail",
        "old tail": "qsa_old_tail",
        "K and V shrunk": "qsa_kv_length_only",
        "all blocks appended": "qsa_block_count",
        "first block keys": "qsa_block_keys_kept",
    }
)
"""The fault that stands for a mend on the real engine."""

Key: TypeAlias = str | None
"""A raw key; None where nothing was ever written."""
Keys: TypeAlias = tuple[Key, ...]

REMEMBERED = 8
"""Newest blocks whose pools are kept and shown; of others the verdict is enough."""

_IN_PLACE = ("ring", "contained", "last row's tail", "K and V shrunk")
_NOT_TAKEN_BACK = ("all blocks appended", "first block keys")


def raw(cell: int, *, kept: bool = True) -> str:
    """The label of a cell's raw key."""
    return f"raw{cell}" if kept else f"raw{cell} rejected"


def true(block: int, ratio: int) -> Keys:
    """What a block is pooled from, rightly."""
    return tuple(raw(cell) for cell in range(block * ratio, (block + 1) * ratio))


def differs(pool: Keys, block: int) -> bool:
    """Whether a pool is not the block's true one; a mean knows no order."""
    right = true(block, len(pool))
    return sorted(key or "" for key in pool) != sorted(key or "" for key in right)


class Tail:
    """R slots, and the pooled key of every block whose last slot was written.

    Args:
        ratio: cells a block, R; also the slots.
        mend: what a commit does.

    Attributes:
        slots: the keys as they lie there.
        pools: the keys that went into each pooled key, in the order of blocks.
    """

    def __init__(self, ratio: int, mend: Mend) -> None:
        self.mend = mend
        self.slots: list[Key] = [None] * ratio
        self.pools: list[Keys] = []
        self._ahead = 0  # slots by which writing is ahead of the text

    def copy(self) -> "Tail":
        """Another one that is the same now."""
        other = Tail(len(self.slots), self.mend)
        other.slots, other.pools = list(self.slots), list(self.pools)
        other._ahead = self._ahead
        return other

    def slot(self, cell: int) -> int:
        """Where the cell's key is written."""
        return (cell + self._ahead) % len(self.slots)

    def write(self, cell: int, key: str) -> int | None:
        """Put `key` into the cell's slot; the block that this completes, if any."""
        ratio = len(self.slots)
        self.slots[self.slot(cell)] = key
        if (cell + 1) % ratio:
            return None
        block = cell // ratio
        if self.mend != "first block keys" or block >= len(self.pools):
            self.pools.append(tuple(self.slots))
        return block

    def commit(self, before: Keys, start: int, rows: int, keep: int) -> None:
        """Do what is done about the rejected rows of a window.

        Args:
            before: the slots before its first row.
            start: cell of its first row.
            rows: that were written.
            keep: of them stay.
        """
        ratio, end = len(self.slots), start + keep
        if self.mend == "K and V shrunk":
            self._ahead = (self._ahead + rows - keep) % ratio
        if self.mend not in _IN_PLACE:
            self.slots = list(before)
            if self.mend != "old tail":
                for cell in range(max(start, end - ratio), end):
                    self.slots[cell % ratio] = raw(cell)
        if self.mend not in _NOT_TAKEN_BACK:
            del self.pools[end // ratio :]

    def wrong(self, block: int) -> bool:
        """Whether the block's pool is not the true one."""
        return differs(self.pools[block], block)
