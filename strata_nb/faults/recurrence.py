"""Defects of the gated delta net: its recurrent memory and its convolution."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import mlx.core as mx

from strata_nb.faults.fault import Fault
from strata_nb.faults.variant import Wrapped, extending
from strata_nb.parts import DeltaRows, GdnState, Memory, RowHistory
from strata_nb.parts.gdn_state import PendingMemory

_SAVED_ROWS = 8
"""Rows of a window that are saved for a replay: those of the widest with drafts."""


@dataclass(frozen=True)
class AllRowsHistory(RowHistory):
    """A history that takes in every row of a window."""

    def commit(self, committed: mx.array, pending: mx.array, *, keep: int) -> mx.array:
        """Shift in all rows, rejected ones too."""
        return super().commit(committed, pending, keep=pending.shape[0] - self.length)


@dataclass(frozen=True)
class AllRowsState(GdnState):
    """A memory that takes in every row of a window."""

    def commit(self, committed: Memory, pending: PendingMemory, *, keep: int) -> Memory:
        """The state after the last row, whatever is kept."""
        return super().commit(committed, pending, keep=_count(pending.rows))


@dataclass(frozen=True)
class LateFold(GdnState):
    """The pending fold is applied after its saved rows were overwritten."""

    def run(
        self, committed: Memory, q: mx.array, rows: DeltaRows, *, head: bool
    ) -> tuple[mx.array, PendingMemory]:
        """Save the window's rows first, then fold what lies where the kept ones did."""
        if committed.fold is not None:
            # With `partial` row 0 is in the state already: the fold begins at row 1.
            first = int(self.partial)
            end = first + _count(committed.fold)
            new = rows.between(first, end)
            fold = _joined(new, committed.fold.between(_count(new), end))
            committed = Memory(committed.state, fold)
        return super().run(committed, q, rows, head=head)


@dataclass(frozen=True)
class OneBuffer(GdnState):
    """The memory alternates between two buffers; a rejection forgets to alternate."""

    def commit(self, committed: Memory, pending: PendingMemory, *, keep: int) -> Memory:
        """The buffer of before the window, unless all of its rows were kept."""
        if keep < _count(pending.rows):
            return self.settle(committed)
        return super().commit(committed, pending, keep=keep)


@dataclass(frozen=True)
class ShiftedReplay(GdnState):
    """A replay begins with row 0, though `partial` has taken row 0 in already."""

    def commit(self, committed: Memory, pending: PendingMemory, *, keep: int) -> Memory:
        """Replay as many rows as are due, one row too early."""
        if keep == pending.sure:
            return Memory(pending.state)
        memory = Memory(pending.state, pending.rows.between(0, keep - pending.sure))
        return memory if self.lazy else self.settle(memory)


@dataclass(frozen=True)
class Compiled:
    """A memory, the saved rows of the last windows, and the graphs made so far."""

    memory: Memory
    saved: DeltaRows | None = None  # row i of the last window that had one
    graphs: tuple[tuple[int, int], ...] = ()  # rows of a window, rows it folds first


@dataclass(frozen=True)
class PendingCompiled:
    """A window's pending memory, and the graphs once it is committed."""

    memory: PendingMemory
    graphs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StaleGraph(Wrapped[Compiled, PendingCompiled]):
    """A graph is kept per window width, with the fold it had when it was made.

    A width seen before replays as many saved rows as it did then: too few, and kept
    rows are lost; too many, and rejected rows come back, or rows that are folded.
    """

    sound: GdnState

    def initial(self) -> Compiled:
        """Zeros; no graph was made."""
        return Compiled(self.sound.initial())

    def run(
        self, committed: Compiled, q: mx.array, rows: DeltaRows, *, head: bool
    ) -> tuple[mx.array, PendingCompiled]:
        """As the sound part, after the fold that the width's graph has in it."""
        fold = committed.memory.fold
        graphs = dict(committed.graphs)
        due = graphs.setdefault(_count(rows), 0 if fold is None else _count(fold))
        memory = Memory(committed.memory.state, self._saved(committed, due))
        outputs, pending = self.sound.run(memory, q, rows, head=head)
        return outputs, PendingCompiled(pending, tuple(graphs.items()))

    def _saved(self, committed: Compiled, due: int) -> DeltaRows | None:
        if committed.saved is None or due == 0:
            return None
        first = int(self.sound.partial)
        fold = committed.saved.between(first, first + due)
        return fold if _count(fold) else None

    def commit(
        self, committed: Compiled, pending: PendingCompiled, *, keep: int
    ) -> Compiled:
        """As the sound part; every row of the window is saved over older ones."""
        memory = self.sound.commit(committed.memory, pending.memory, keep=keep)
        saved = pending.memory.rows.between(0, _SAVED_ROWS)
        if committed.saved is not None:
            older = committed.saved.between(_count(saved), _SAVED_ROWS)
            saved = _joined(saved, older)
        return Compiled(memory, saved, pending.graphs)

    def settle(self, committed: Compiled) -> Compiled:
        """Take the pending fold in, rightly: no graph is used for it."""
        return replace(committed, memory=self.sound.settle(committed.memory))

    def filled(self, committed: Compiled, value: float) -> Compiled:
        """Fill the values of saved rows that no fold is due for.

        Keys have length one and the factors lie between 0 and 1: another number there
        would make the memory overflow rather than wrong.
        """
        saved, fold = committed.saved, committed.memory.fold
        if saved is None:
            return committed
        first = int(self.sound.partial)
        end = first + (0 if fold is None else _count(fold))
        row = mx.arange(_count(saved))[:, None, None]
        v = mx.where((row >= first) & (row < end), saved.v, value)
        return replace(committed, saved=replace(saved, v=v))

    def leaves(self, committed: Compiled) -> dict[str, mx.array]:
        """`S`, [Hv, Dv, Dk]."""
        return self.sound.leaves(committed.memory)

    def restore(self, leaves: Mapping[str, mx.array]) -> Compiled:
        """The memory from S; no graph was made."""
        return Compiled(self.sound.restore(leaves))


def _count(rows: DeltaRows) -> int:
    return rows.k.shape[0]


def _joined(first: DeltaRows, second: DeltaRows) -> DeltaRows:
    pairs = (
        (getattr(first, name), getattr(second, name))
        for name in ("k", "v", "decay", "beta")
    )
    return DeltaRows(*(mx.concatenate(list(pair)) for pair in pairs))


_REWIND_DID_NOTHING = "https://github.com/ml-explore/mlx-lm/issues/846"
_NO_CONV_ROLLBACK = "https://github.com/ggml-org/llama.cpp/issues/28123"
_WRONG_REPLAY = "https://github.com/Pushkinist/rMLX/issues/436"
_STALE_PLANE = "https://github.com/ggml-org/llama.cpp/issues/29117"
_CORRUPT_REPLAY = "https://github.com/ggml-org/llama.cpp/issues/28019"

FAULTS = (
    Fault(
        name="gdn_no_rewind",
        part="gdn_state",
        what="rewinding the recurrence does nothing: the state after all rows stays",
        shows="after every rejection",
        report=_REWIND_DID_NOTHING,
        variant=extending(AllRowsState),
    ),
    Fault(
        name="gdn_conv_no_rewind",
        part="gdn_conv",
        what="rejected rows stay in the history of the convolution",
        shows="after every rejection",
        report=_NO_CONV_ROLLBACK,
        variant=extending(AllRowsHistory),
    ),
    Fault(
        name="gdn_late_fold",
        part="gdn_state",
        what="the pending fold is applied when the rows of the next window have "
        "overwritten the saved ones",
        shows="after the window that follows a fold; a digest, save or fork in "
        "between folds rightly",
        report=_WRONG_REPLAY,
        variant=extending(LateFold),
        options={"fold": "lazy"},
    ),
    Fault(
        name="gdn_parity",
        part="gdn_state",
        what="the recurrence alternates between two buffers, and a rejection does not "
        "alternate them, so that the one from before the window is read",
        shows="after every rejection: the kept rows are lost as well",
        report=_STALE_PLANE,
        variant=extending(OneBuffer),
    ),
    Fault(
        name="gdn_stale_graph",
        part="gdn_state",
        what="compiled graphs are told apart by the rows of the window alone, so one "
        "replays as many saved rows as were due when it was made",
        shows="after a window of a width seen before, if another number of rows was "
        "due then",
        report=_CORRUPT_REPLAY,
        variant=StaleGraph,
        options={"fold": "lazy"},
    ),
    Fault(
        name="gdn_partial_offset",
        part="gdn_state",
        what="row 0 is in the state already, and the replay of the other kept rows "
        "begins at row 0 instead of row 1",
        shows="after every window of which two rows or more are kept",
        report=_WRONG_REPLAY,
        variant=extending(ShiftedReplay),
        options={"partial": True},
    ),
)
