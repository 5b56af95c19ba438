"""Defects of the draft head's state (MTP)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import mlx.core as mx

from strata_nb.faults.fault import Fault
from strata_nb.faults.indexer import AllBlocks, RingTail
from strata_nb.faults.variant import Wrapped, extending
from strata_nb.parts import KeyValues, KvView, WideRow
from strata_nb.parts.cells import Cells, Rows, join
from strata_nb.refusals import MAX_ROWS

HEAD_FAMILIES = ("drafted", "reject", "chain")


@dataclass
class Box:
    """Rows that drafts have written behind the last cell."""

    rows: list[Rows] = field(default_factory=list)


@dataclass(frozen=True)
class Drafty:
    """Cells, and what drafts have left behind them."""

    cells: Cells
    box: Box = field(default_factory=Box)
    chained: int = 0  # rows of the draft that is going on


@dataclass(frozen=True)
class ChainRows(Wrapped[Drafty, Rows]):
    """A drafted row stays in its cell, and the true pair that comes there is lost."""

    sound: KeyValues

    def initial(self) -> Drafty:
        """No cells."""
        return Drafty(self.sound.initial())

    def run(self, committed: Drafty, k: mx.array, v: mx.array) -> tuple[KvView, Rows]:
        """As the sound part, with what drafts have written in place of its rows."""
        _, rows = self.sound.run(committed.cells, k, v)
        shown = rows
        # In a draft itself a row is the one that is made there.
        if committed.box.rows and not committed.chained:
            held = committed.box.rows[: k.shape[0]]
            first = tuple(mx.concatenate(list(a)) for a in zip(*held, strict=True))
            shown = join(first, tuple(a[len(held) :] for a in rows))
        return KvView(self.sound, committed.cells, shown), shown

    def chain(self, committed: Drafty, pending: Rows) -> Drafty:
        """Write the row where a window will look."""
        box, at = committed.box, committed.chained
        box.rows[at:] = [tuple(a[:1] for a in pending)]
        cells = self.sound.chain(committed.cells, pending)
        return Drafty(cells, box, at + 1)

    def commit(self, committed: Drafty, pending: Rows, *, keep: int) -> Drafty:
        """The kept rows, as they lie there."""
        return Drafty(self.sound.commit(committed.cells, pending, keep=keep))

    def leaves(self, committed: Drafty) -> dict[str, mx.array]:
        """Each component as stored, [n - 1, Hkv, ...]."""
        return self.sound.leaves(committed.cells)

    def restore(self, leaves: Mapping[str, mx.array]) -> Drafty:
        """Cells from the components as stored; no draft was made."""
        return Drafty(self.sound.restore(leaves))


@dataclass(frozen=True)
class UnfedCells(KeyValues):
    """A prompt does not go through the head: its cells are zeros."""

    def run(self, committed: Cells, k: mx.array, v: mx.array) -> tuple[KvView, Rows]:
        """As the sound part; rows of more than a window with drafts are a prompt's."""
        if k.shape[0] > MAX_ROWS:
            k, v = mx.zeros_like(k), mx.zeros_like(v)
        return super().run(committed, k, v)


@dataclass(frozen=True)
class LastRow(WideRow):
    """The row that waits is that of the window's last cell, kept or not."""

    def commit(self, committed: mx.array, pending: mx.array, *, keep: int) -> mx.array:
        """The row of the last cell."""
        return mx.contiguous(pending[-1:])


_LEFT_AHEAD = "https://github.com/Atlas-Inf/atlas/issues/23"
_HEAD_STATE = "https://github.com/ggml-org/llama.cpp/issues/27836"

_ON: Mapping[str, object] = {"mtp": True}
# Of pairs that wait only the kept ones are read, so that a ring and a count have
# nothing to spoil; and many at once look like a prompt.
_AT_ONCE: Mapping[str, object] = {"mtp": True, "fold": "eager"}

FAULTS = (
    Fault(
        name="mtp_last_row",
        part="mtp_row",
        what="the wide row that waits for the next token is that of the window's last "
        "cell, also where that one was rejected",
        shows="after every rejection",
        report=_HEAD_STATE,
        variant=extending(LastRow),
        families=HEAD_FAMILIES,
        options=_ON,
    ),
    Fault(
        name="mtp_chain_rows_kept",
        part="mtp_kv",
        what="rows that the head made of its own drafts stay in its cells, and the "
        "true pairs that come there are lost",
        shows="after the window behind a draft of two tokens or more",
        report=_HEAD_STATE,
        variant=ChainRows,
        families=("drafted",),
        options=_ON,
    ),
    Fault(
        name="mtp_prompt_not_fed",
        part="mtp_kv",
        what="a prompt does not go through the head, whose attention is blind to it",
        shows="from the first prompt of more than 8 rows on",
        report=_HEAD_STATE,
        variant=extending(UnfedCells),
        families=HEAD_FAMILIES,
        options=_AT_ONCE,
        context="above",
    ),
    Fault(
        name="mtp_ring",
        part="mtp_qsa_tail",
        what="the head's tail is a ring of R slots that every row of a window writes "
        "in place, rejected ones too, and nothing puts it back",
        shows="after a rejection in a window that passes the end of one of the head's "
        "blocks, a cell later than the model's",
        report=_LEFT_AHEAD,
        variant=RingTail,
        families=HEAD_FAMILIES,
        options=_AT_ONCE,
    ),
    Fault(
        name="mtp_block_count",
        part="mtp_qsa_blocks",
        what="the number of the head's blocks is taken from the end of the window, so "
        "keys of blocks that rejected rows completed are appended",
        shows="when the text completes the head's next block after a rejection at a "
        "block's end",
        report=_LEFT_AHEAD,
        variant=AllBlocks,
        families=HEAD_FAMILIES,
        options=_AT_ONCE,
    ),
)
