"""The recurrent memory of a GDN layer, advanced over kept rows by replay."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_kernels.gated_delta import gated_delta, gated_delta_window, replay
from strata_nb.parts.part import Part


@dataclass(frozen=True)
class DeltaRows:
    """The recurrence's inputs of a window: all that a replay needs."""

    k: mx.array  # unit norm, float32 [T, Hk, Dk]
    v: mx.array  # float32 [T, Hv, Dv]
    decay: mx.array  # float32 [T, Hv]
    beta: mx.array  # float32 [T, Hv]

    def between(self, first: int, end: int) -> "DeltaRows":
        """Rows `first` to `end` - 1."""
        part = slice(first, end)
        return DeltaRows(self.k[part], self.v[part], self.decay[part], self.beta[part])


@dataclass(frozen=True)
class Memory:
    """S and, under the lazy fold, the kept rows that it has yet to take in."""

    state: mx.array  # float32 [Hv, Dv, Dk]
    fold: DeltaRows | None = None


@dataclass(frozen=True)
class PendingMemory:
    """A window's rows and the state after those of them that are kept in any case."""

    rows: DeltaRows
    sure: int  # rows already in `state`
    state: mx.array


@dataclass(frozen=True)
class GdnState(Part[Memory, PendingMemory]):
    """S of one layer, [Hv, Dv, Dk], float32 whatever the model's dtype.

    The rows kept in any case are all rows of a prompt window, the only row of a window
    of one, and with `partial` row 0. `lazy` leaves the replay of the others to the next
    run; a replay uses the arithmetic of the run, so all four modes give the same bits.
    """

    value_heads: int
    value_dim: int
    key_dim: int
    lazy: bool
    partial: bool
    name: str = "gdn_state"

    def initial(self) -> Memory:
        """Zeros."""
        shape = (self.value_heads, self.value_dim, self.key_dim)
        return Memory(mx.zeros(shape, dtype=mx.float32))

    def run(
        self, committed: Memory, q: mx.array, rows: DeltaRows, *, head: bool
    ) -> tuple[mx.array, PendingMemory]:
        """Outputs of every row, and what a commit of any prefix needs.

        Args:
            committed: the memory before the window; a pending fold goes first.
            q: scaled queries, float32 [T, Hk, Dk].
            rows: keys, values, decay and beta of the window.
            head: predictions are made; a window without them keeps all its rows.

        Returns:
            [T, Hv, Dv] float32; pending.
        """
        before = self.settle(committed).state
        count = q.shape[0]
        if not head or count == 1:
            outputs, after = _advance(before, q, rows)
            return outputs, PendingMemory(rows, count, after)
        if not self.partial:
            outputs, _ = _advance(before, q, rows)
            return outputs, PendingMemory(rows, 0, before)
        outputs, root, _ = gated_delta_window(
            q, rows.k, rows.v, rows.decay, rows.beta, before
        )
        return outputs, PendingMemory(rows, 1, root)

    def commit(self, committed: Memory, pending: PendingMemory, *, keep: int) -> Memory:
        """Replay the kept rows that are not in the pending state yet."""
        if keep == pending.sure:
            return Memory(pending.state)
        rows = pending.rows.between(pending.sure, keep)
        memory = Memory(pending.state, rows)
        return memory if self.lazy else self.settle(memory)

    def settle(self, committed: Memory) -> Memory:
        """Take the pending fold in."""
        if committed.fold is None:
            return committed
        rows = committed.fold
        state = replay(rows.k, rows.v, rows.decay, rows.beta, committed.state)
        return Memory(state)

    def leaves(self, committed: Memory) -> dict[str, mx.array]:
        """`S`, [Hv, Dv, Dk]."""
        return {"S": committed.state}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Always the same."""
        return {"S": (self.value_heads, self.value_dim, self.key_dim)}

    def restore(self, leaves: Mapping[str, mx.array]) -> Memory:
        """The memory from S."""
        return Memory(leaves["S"].astype(mx.float32))


def _advance(
    state: mx.array, q: mx.array, rows: DeltaRows
) -> tuple[mx.array, mx.array]:
    return gated_delta(q, rows.k, rows.v, rows.decay, rows.beta, state)
