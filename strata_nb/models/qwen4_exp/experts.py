"""The routed experts of all layers: in memory as a whole, or in slots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_kernels.experts import (
    Matrices,
    Quantised,
    apply_experts,
    mix_experts,
    mix_outputs,
)
from strata_nb.experts.budget import slots_per_layer
from strata_nb.experts.counters import Counters
from strata_nb.experts.groups import groups
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.record import RecordLayout, bits_of
from strata_nb.experts.source import ExpertSource
from strata_nb.experts.streaming import Streaming
from strata_nb.policies.prefetch import Now, Prefetch, Task

Router = Callable[[mx.array], mx.array]
"""Rows [T, H] to the router logits of one layer, [T, E]."""


class Experts(Protocol):
    """Applies experts, wherever they are."""

    def mix(
        self, layer: int, x: mx.array, chosen: mx.array, weights: mx.array
    ) -> mx.array:
        """`sum_j weights[:, j] * expert_{chosen[:, j]}(x)`, [T, H].

        Args:
            layer: 0-based.
            x: rows, [T, H].
            chosen: expert numbers by rank, uint32 [T, K].
            weights: [T, K].
        """

    def prepare(self, layer: int) -> None:
        """Read what of a layer is kept in memory for good."""


class ResidentExperts:
    """All experts in memory.

    Args:
        read: gives both stacked matrices of a layer, stored (in, out).
    """

    def __init__(self, read: Callable[[int], tuple[mx.array, mx.array]]) -> None:
        self._read = read
        self._layers: dict[int, tuple[mx.array, mx.array]] = {}

    def prepare(self, layer: int) -> None:
        """Read all experts of the layer."""
        self._layers[layer] = self._read(layer)

    def mix(
        self, layer: int, x: mx.array, chosen: mx.array, weights: mx.array
    ) -> mx.array:
        """As `Experts.mix`; nothing is evaluated."""
        return mix_experts(x, chosen, weights, *self._layers[layer])


class SlotArrays:
    """Slots as MLX arrays, and their bytes as NumPy sees them: one memory.

    Args:
        layout: of an expert.
        layers: of the model.
        slots: of each layer.

    Attributes:
        shared: whether MLX sees what is written; else each use copies the slots of its
            layer, which is right and slow.
    """

    def __init__(self, layout: RecordLayout, *, layers: int, slots: int) -> None:
        self._layout = layout
        self._arrays = [
            [
                mx.zeros((slots, *field.shape), getattr(mx, field.dtype))
                for field in layout.fields
            ]
            for _ in range(layers)
        ]
        mx.eval(self._arrays)
        self._views = [
            [np.array(array, copy=False) for array in layer] for layer in self._arrays
        ]
        self.shared = _is_shared(self._arrays[0][0], self._views[0][0])

    @property
    def nbytes(self) -> int:
        """Of all slots."""
        return sum(array.nbytes for layer in self._arrays for array in layer)

    def views(self, layer: int, slot: int) -> Sequence[npt.NDArray[Any]]:
        """Writable arrays of one slot, one for each field of the record."""
        return [array[slot] for array in self._views[layer]]

    def matrices(self, layer: int) -> tuple[Matrices, Matrices]:
        """Both matrices of every slot of a layer."""
        kind, arrays = self._layout.kind, self._arrays[layer]
        if not self.shared:
            arrays = [mx.array(view) for view in self._views[layer]]
        if len(arrays) == 2:
            gate_up, down = (
                a.view(mx.bfloat16) if kind == "bfloat16" else a for a in arrays
            )
            return gate_up, down
        half = len(arrays) // 2
        return self._quantised(arrays[:half]), self._quantised(arrays[half:])

    def _quantised(self, arrays: Sequence[mx.array]) -> Quantised:
        weight, *rest = arrays
        if self._layout.kind == "mxfp4":
            return Quantised(weight, rest[0], None, 4, self._layout.group, "mxfp4")
        scales, biases = (
            a.view(mx.bfloat16) if a.dtype == mx.uint16 else a for a in rest
        )
        bits = bits_of(self._layout.kind)
        return Quantised(weight, scales, biases, bits, self._layout.group)


def _is_shared(array: mx.array, view: npt.NDArray[Any]) -> bool:
    """Write a number through the view, and look whether MLX reads it."""
    view.flat[0] = 1
    seen = bool((array.reshape(-1)[:1] == 1).item())
    view.flat[0] = 0
    return seen and not bool((array.reshape(-1)[:1] == 1).item())


@dataclass(frozen=True)
class _Ask:
    """What the rows of a window want of one layer, on the host."""

    layer: int
    ids: npt.NDArray[np.uint32]  # [T, K]
    union: tuple[int, ...]  # in order of rank, then of rows
    later: Sequence[Task]  # what later layers may want


class SlotExperts:
    """Experts in slots, read as they are wanted; the bits of those in memory.

    Args:
        how: slots, reads, policies.
        source: where experts come from.
    """

    def __init__(self, how: Streaming, source: ExpertSource) -> None:
        self.how, self.source = how, source
        slots, budget = how.slots, how.budget_bytes
        if slots is None and budget is None:
            slots = source.experts
        # The pool counts the slots that fit; memory is made for as many.
        self.memory: SlotArrays = _memory(source, slots=slots, budget_bytes=budget)
        self.pool = SlotPool(
            source,
            memory=self.memory,
            slots=slots,
            budget_bytes=budget,
            residency=how.residency,
            threads=how.threads,
            throttle=how.throttle,
            prefetch=how.prefetch_most,
        )
        self._router: Callable[[int], Router] | None = None
        self._drafting: Counters | None = None

    @property
    def prefetch(self) -> Prefetch:
        """Guesses what later layers want."""
        return self.how.prefetch

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return self.pool.counters

    def prepare(self, layer: int) -> None:
        """Nothing: experts are read when they are wanted."""

    def begin_draft(self) -> None:
        """What is read from now on is read for the next window."""
        if self._drafting is None:
            self._drafting = self.counters

    def spent(self, before: Counters) -> Counters:
        """What a window has cost that began with the counters `before`.

        What was read while its draft was made is of it too.
        """
        now, drafting = self.counters, self._drafting
        self._drafting = None
        alone = now - before
        return alone if drafting is None else alone.reading(now - drafting)

    def ask_routers(self, router: Callable[[int], Router]) -> None:
        """Where a prefetch gets the router of a layer."""
        self._router = router

    def mix(
        self, layer: int, x: mx.array, chosen: mx.array, weights: mx.array
    ) -> mx.array:
        """As `Experts.mix`; evaluated, since slots may change afterwards."""
        layers, experts = self.source.layers, self.source.experts
        later = self.prefetch.asks(layer, layers=layers)
        # Converted here: later it would be an evaluation of its own.
        asked = {n: self._scores(n, x) for n in later}
        mx.eval(x, chosen, weights, asked)
        ids = np.array(chosen)
        scores = {number: np.array(said) for number, said in asked.items()}
        tasks = self.prefetch.tasks(Now(layer, layers, experts, ids, scores))
        union = tuple(dict.fromkeys(ids.T.ravel().tolist()))
        try:
            return self._mixed(_Ask(layer, ids, union, tasks), x, weights)
        except BaseException:
            # An interrupt may come between what is taken and its name.
            self.pool.release_all()
            raise

    def _scores(self, layer: int, x: mx.array) -> mx.array:
        assert self._router is not None
        return self._router(layer)(x).astype(mx.float32)

    def _mixed(self, ask: _Ask, x: mx.array, weights: mx.array) -> mx.array:
        layer, ids = ask.layer, ask.ids
        slots = self.pool.slots
        if len(ask.union) <= slots:
            taken = self.pool.take(layer, ask.union)
            try:
                self._read_ahead(ask)
                places = mx.array(lookup(taken.slots, self.source.experts)[ids])
                matrices = self.memory.matrices(layer)
                mixed = mix_experts(x, places, weights, *matrices)
                self.evaluate(mixed)
                return mixed
            finally:
                self.pool.release(taken)
        split = groups(ask.union, slots, self.pool.resident(layer))
        outputs: list[mx.array] = []
        order: list[npt.NDArray[np.intp]] = []
        for group in split:
            pairs = np.flatnonzero(np.isin(ids, group))
            outputs.append(self._group(ask, group, pairs, x, last=group is split[-1]))
            order.append(pairs)
        # Back to (row, rank): the sum runs in the order it has with all in memory.
        places = mx.array(np.argsort(np.concatenate(order)).astype(np.uint32))
        every = mx.concatenate(outputs)[places].reshape(*ids.shape, -1)
        return mix_outputs(every, weights)

    def _read_ahead(self, ask: _Ask) -> None:
        """Queue what later layers may want, when nothing is waited for any more.

        Earlier, the disk would be busy with guesses when what is needed is asked for.
        """
        for layer, experts in ask.later:
            self.pool.hint(layer, experts)

    def evaluate(self, output: mx.array) -> None:
        """Compute what reads the slots that are pinned now, before they are released.

        A graph that is computed later would read whatever is in them then.
        """
        mx.eval(output)

    def _group(
        self,
        ask: _Ask,
        group: Sequence[int],
        pairs: npt.NDArray[np.intp],
        x: mx.array,
        *,
        last: bool,
    ) -> mx.array:
        """Outputs of the pairs (row, rank) that use one group of experts, [P, H]."""
        taken = self.pool.take(ask.layer, group)
        try:
            if last:
                self._read_ahead(ask)
            slots = lookup(taken.slots, self.source.experts)[ask.ids.ravel()[pairs]]
            rows = (pairs // ask.ids.shape[1]).astype(np.uint32)
            output = apply_experts(
                x, mx.array(rows), mx.array(slots), *self.memory.matrices(ask.layer)
            )
            self.evaluate(output)
            return output
        finally:
            self.pool.release(taken)


def _memory(
    source: ExpertSource, *, slots: int | None, budget_bytes: int | None
) -> SlotArrays:
    count = slots_per_layer(source, slots=slots, budget_bytes=budget_bytes)
    return SlotArrays(source.layout, layers=source.layers, slots=count)


def lookup(slots: Any, experts: int) -> npt.NDArray[np.uint32]:
    """The slot of each expert; of those not there, none that exists."""
    found = np.full(experts, np.iinfo(np.uint32).max, np.uint32)
    for expert, slot in slots.items():
        found[expert] = slot
    return found
