"""Windows verified with fewer cells and fewer channels: another model (approximate).

After sparse computation in verification (arXiv 2512.21911). The first row of a window,
which was decided before, chooses blocks of cells for all rows; features of experts that
are nearly nothing are left out. Only windows that predict are thinned, no prompt. The
third way, fewer experts, is a routing of the engine: `policies.skip_tail`.
"""

import math
import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from strata_nb.oracle import blocks, maths
from strata_nb.oracle.backend import Forward, Layer, OracleBackend
from strata_nb.oracle.maths import Array, Indices
from strata_nb.oracle.states import State
from strata_nb.packs import Checkpoint

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sparse:
    """What is left out; as given by default, nothing.

    Attributes:
        block: cells of a block that is chosen or not, B.
        dense: cells up to which all are attended to, L_0.
        rho: share of the cells beyond these that are, 0 to 1.
        first: blocks at the beginning that are always chosen.
        last: blocks at the end that are.
        anchors: layers that choose; another one uses the choice of the nearest anchor
            before it, and one before all anchors its own. None: each layer chooses.
        tau: features of experts of a smaller size are 0.

    Raises:
        ValueError: a number out of range.
    """

    block: int = 64
    dense: int = 4096
    rho: float = 1.0
    first: int = 1
    last: int = 1
    anchors: tuple[int, ...] | None = None
    tau: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("block", 1), ("dense", 0), ("first", 0), ("last", 0)):
            if operator.index(getattr(self, name)) < least:
                got = getattr(self, name)
                raise ValueError(f"`{name}` is {got}, wanted {least} or more")
        if not 0 <= self.rho <= 1:
            raise ValueError(f"`rho` is {self.rho}, wanted 0 to 1")
        if not 0 <= self.tau < math.inf:
            raise ValueError(f"`tau` is {self.tau}, wanted 0 or more")

    @property
    def name(self) -> str:
        """For records and reports."""
        said = f"rho {self.rho:g} beyond {self.dense}, tau {self.tau:g}"
        return f"sparse({said}), approximate"

    def kept(self, length: int, *, heads: int) -> int:
        """Blocks that are attended to among `length` cells, of all K/V heads together.

        Of 8192 cells with L_0 = 4096, rho = 0.5 and 8 heads, 768 blocks of 64.
        """
        if self.rho == 1 or length <= self.dense:
            # The last block may have few cells, and is one all the same.
            return -(-length // self.block) * heads
        cells = math.floor((length - self.dense) * self.rho + self.dense)
        return cells * heads // self.block

    def choose(self, query: Array, keys: Array) -> Mask:
        """Which blocks each K/V head attends to, bool [blocks, h_kv].

        A block counts by the mean product of its keys with the query; those of heads
        that share keys are added up. Of equals the lowest block is chosen.

        Args:
            query: of the first row, [h_q, D].
            keys: of all cells, [n, h_kv, D].
        """
        cells, heads, dim = keys.shape
        summed = query.reshape(heads, -1, dim).sum(axis=1)
        products = np.einsum("nhd,hd->nh", keys, summed)
        starts = np.arange(0, cells, self.block)
        sizes = np.diff(np.append(starts, cells))
        means = np.add.reduceat(products, starts) / sizes[:, None]  # [blocks, h_kv]
        means[: self.first] = np.inf
        means[max(0, len(means) - self.last) :] = np.inf
        forced = int(np.isinf(means[:, 0]).sum())
        most = max(self.kept(cells, heads=heads) // heads, forced)
        chosen = np.zeros(means.shape, bool)
        for head in range(heads):
            chosen[maths.highest(means[:, head], most), head] = True
        return chosen


class SparseLayer(Layer):
    """A layer that leaves out what `Sparse` says, while a window is open for it."""

    window: "_Window | None" = None

    def __init__(self, checkpoint: Checkpoint, index: int, how: Sparse) -> None:
        super().__init__(checkpoint, index)
        self.index, self.how = index, how

    def attend(self, query: Array, k: Array, v: Array, rows: Indices) -> Array:
        """Over the cells of chosen blocks, and those of the window itself."""
        window = self.window
        if window is None:
            return blocks.attend(query, k, v, rows)
        chosen = window.choice(self.index)
        if chosen is None:
            chosen = window.chosen[self.index] = self.how.choose(query, k)
        own = rows >= window.start
        inside = np.minimum(rows // self.how.block, len(chosen) - 1)
        kept = chosen[inside] | own[:, None]
        # A row that completes a block may not see itself: nothing left means all.
        kept |= ~kept.any(axis=0)
        if kept.all():
            return blocks.attend(query, k, v, rows)
        shared = np.split(query, k.shape[1])
        each = [
            blocks.attend(q, k[:, [h]], v[:, [h]], rows[kept[:, h]])
            for h, q in enumerate(shared)
        ]
        return np.concatenate(each)

    def gated(self, gate: Array, up: Array) -> Array:
        """Features, 0 where they are smaller than the threshold."""
        h = maths.gated(gate, up)
        return h if self.window is None else np.where(np.abs(h) < self.how.tau, 0.0, h)


class _Window:
    """What the first row of a window has chosen, by layer."""

    def __init__(self, start: int, how: Sparse) -> None:
        self.start, self._anchors = start, how.anchors
        self.chosen: dict[int, Mask] = {}

    def choice(self, layer: int) -> Mask | None:
        """What a layer goes by; None: it has to choose."""
        if self._anchors is None or layer in self._anchors:
            return self.chosen.get(layer)
        before = [a for a in self._anchors if a < layer and a in self.chosen]
        return self.chosen.get(max(before, default=layer))


class SparseOracle(OracleBackend):
    """The oracle, thinned where a window predicts.

    Args:
        checkpoint: an opened checkpoint.
        how: what is left out.
    """

    def __init__(self, checkpoint: Checkpoint, how: Sparse) -> None:
        super().__init__(checkpoint)
        self.how = how
        layers = range(self.config.num_hidden_layers)
        self._layers = [SparseLayer(checkpoint, i, how) for i in layers]
        self._lock = threading.Lock()

    def run(self, state: State, ids: Sequence[int], *, head: bool) -> Forward:
        """As the oracle's, with less of it where `head`."""
        with self._lock:
            self._open(_Window(state.position, self.how) if head else None)
            try:
                return super().run(state, ids, head=head)
            finally:
                self._open(None)

    def _open(self, window: _Window | None) -> None:
        for layer in self._layers:
            cast(SparseLayer, layer).window = window
