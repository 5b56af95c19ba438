"""The model beside itself: the same layers over the same state, with other experts.

Its rows go on from the engine's committed state and make states of their own, which
nobody keeps: a state is a value, and the engine's is never replaced. So a draft leaves
nothing behind, whatever interrupts it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_kernels.experts import Matrices, Quantised, mix_experts
from strata_nb.draft.head import Cut
from strata_nb.errors import NotFiniteError
from strata_nb.experts.aside import AsideHow, FewExperts, LowBits, substitutes
from strata_nb.experts.pool import SlotPool
from strata_nb.models.qwen4_exp.experts import Experts, lookup
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.parts import numpy_leaf

Watch = Callable[[npt.NDArray[Any]], None]
"""Told the router logits of each row, [L, E]."""


class Inner(Protocol):
    """What an aside computes with: a backend that no engine has."""

    weights: Weights
    layers: Any
    slots: Any
    streamed: Any

    def run(self, state: Any, ids: Sequence[int], *, head: bool) -> Any:
        """All layers over the rows `ids`."""

    def commit(self, state: Any, pending: Any, keep: int) -> Any:
        """The state after the first `keep` rows."""

    def part_of(self, state: Any) -> Any:
        """The state without what this backend has no part for."""


class PinnedExperts:
    """The pinned experts of each layer in the place of all (SpecMoE).

    Each choice of the router keeps its weight; what two of them share an expert for is
    added up by the sum over choices.

    Args:
        weights: of the model; where its experts are in slots, the pinned ones are
            taken from there.
        count: experts of a layer that are pinned.

    Raises:
        ValueError: there are not as many experts, or slots.
    """

    def __init__(self, weights: Weights, count: int) -> None:
        experts = weights.config.num_experts
        slots = experts if weights.streamed is None else weights.streamed.pool.slots
        if count > slots:
            where = "slots a layer" if slots < experts else "experts"
            raise ValueError(
                f"{count} experts are to be pinned, but the model has {slots} {where}; "
                "pin fewer"
            )
        self._weights = weights
        self._places: list[mx.array] = []

    def prepare(self, layer: int) -> None:
        """Nothing: they are there when they are pinned."""

    def pin(self, pinned: Sequence[Sequence[int]]) -> None:
        """Draft with these experts of each layer; wait until all are there."""
        streamed, places = self._weights.streamed, []
        for layer, numbers in enumerate(pinned):
            nearest = substitutes(self._weights.distances(layer), numbers)
            if streamed is not None:
                taken = streamed.pool.take(layer, numbers)
                nearest = lookup(taken.slots, streamed.source.experts)[nearest]
            places.append(mx.array(nearest))
        self._places = places

    def let_go(self) -> None:
        """Their slots may be given to others."""
        if self._weights.streamed is not None:
            # Whatever this thread took: an interrupt may come before it has a name.
            self._weights.streamed.pool.release_all()
        self._places = []

    def mix(
        self, layer: int, x: mx.array, chosen: mx.array, weights: mx.array
    ) -> mx.array:
        """As `Experts.mix`; nothing is read, and nothing evaluated."""
        gate_up, down = self._matrices(layer)
        return mix_experts(x, self._places[layer][chosen], weights, gate_up, down)

    def _matrices(self, layer: int) -> tuple[Matrices, Matrices]:
        streamed = self._weights.streamed
        if streamed is None:
            return self._weights.experts(layer)
        return streamed.memory.matrices(layer)


class LowBitExperts:
    """All experts in few bits, in memory (MoE-SpeQ).

    Args:
        weights: of the model.
        how: bits and groups.

    Raises:
        ValueError: the group does not divide the rows of both matrices.
    """

    def __init__(self, weights: Weights, how: LowBits) -> None:
        config = weights.config
        sizes = (config.hidden_size, config.moe_intermediate_size)
        if any(size % how.group for size in sizes):
            raise ValueError(
                f"`group` is {how.group}, wanted one that divides the model's rows of "
                f"{sizes[0]} and {sizes[1]} numbers; take a smaller one, or another "
                "drafter"
            )
        self._layers = [
            self._quantised(weights, layer, how)
            for layer in range(config.num_hidden_layers)
        ]

    def _quantised(
        self, weights: Weights, layer: int, how: LowBits
    ) -> tuple[Quantised, Quantised]:
        found = []
        for matrix in weights.raw_experts(layer):
            words, scales, biases = mx.quantize(
                matrix, group_size=how.group, bits=how.bits
            )
            # One by one, so that only one matrix is there whole.
            mx.eval(words, scales, biases)
            found.append(Quantised(words, scales, biases, how.bits, how.group))
        return found[0], found[1]

    def prepare(self, layer: int) -> None:
        """Nothing: all layers are there."""

    def mix(
        self, layer: int, x: mx.array, chosen: mx.array, weights: mx.array
    ) -> mx.array:
        """As `Experts.mix`; nothing is evaluated."""
        return mix_experts(x, chosen, weights, *self._layers[layer])


class Aside:
    """Drafts from a model's committed state with other experts, row by row.

    Args:
        inner: a backend of its own over the same weights; its experts are replaced.
        how: the experts.

    Attributes:
        pool: slots of the target's experts; None: all are in memory.
        top_k: experts a row, K.
        watch: told the router logits of each row, [L, E]; None: nobody asks.

    Raises:
        ValueError: the experts do not go with the model.
    """

    def __init__(self, inner: Inner, how: AsideHow) -> None:
        weights, self._inner = inner.weights, inner
        self._streamed = weights.streamed
        self.pool: SlotPool | None = (
            None if self._streamed is None else self._streamed.pool
        )
        self.top_k = weights.config.num_experts_per_tok
        self.watch: Watch | None = None
        self._pinned = None
        experts: Experts
        if isinstance(how, FewExperts):
            experts = self._pinned = PinnedExperts(weights, how.count)
        else:
            if how not in weights.low_bits:
                weights.low_bits[how] = LowBitExperts(weights, how)
            experts = weights.low_bits[how]
        # Its windows are none of the target's: no slot is asked, no window counted.
        inner.streamed = None
        for layer in inner.layers:
            layer.moe.experts = experts

    @contextmanager
    def ready(self, pinned: Callable[[int], Sequence[int]]) -> Iterator[None]:
        """A block in which rows can be drafted; nothing is fetched for them.

        Args:
            pinned: answers a layer with its pinned experts; not asked where all
                experts are in few bits.
        """
        if self._streamed is not None:
            self._streamed.begin_draft()
        if self._pinned is None:
            yield
            return
        try:
            self._pinned.pin([pinned(i) for i in range(len(self._inner.layers))])
            yield
        finally:
            self._pinned.let_go()

    def draft(
        self, state: Any, token: int, chain: Any, cut: Cut | None
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """One row: logits behind `token`, and the state with it, which nobody keeps.

        Args:
            state: what is committed; it stays as it is.
            token: the root, later the last draft.
            chain: the state after the rows so far; None: none.
            cut: tokens that may be drafted; None: all.

        Returns:
            Float64 [V], minus infinity for tokens that are cut; the state.

        Raises:
            NotFiniteError: a logit is NaN or infinite.
        """
        before = self._inner.part_of(state) if chain is None else chain
        forward = self._inner.run(before, (token,), head=True)
        after = self._inner.commit(before, forward.pending, 1)
        logits = np.array(forward.logits[0], np.float64)
        if not np.isfinite(logits).all():
            raise NotFiniteError(
                f"a draft behind cell {before.n} has logits that are NaN or infinite; "
                "check the checkpoint, or use another drafter"
            )
        if self.watch is not None:
            self.watch(np.stack([numpy_leaf(d.logits)[0] for d in forward.decisions]))
        if cut is None:
            return logits, after
        every = np.full_like(logits, -np.inf)
        every[cut.ids] = logits[cut.ids]
        return every, after
