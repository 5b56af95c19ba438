"""The whole decoder: an immutable state, and what a window of rows does to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from strata_nb.draft.head import Cut
from strata_nb.errors import SavedStateError
from strata_nb.experts.aside import AsideHow
from strata_nb.experts.counters import Counters
from strata_nb.models.qwen4_exp.aside import Aside
from strata_nb.models.qwen4_exp.draft_head import WAITING, Chain, DraftHead
from strata_nb.models.qwen4_exp.evaluation import best_tokens, evaluate
from strata_nb.models.qwen4_exp.imposed import NOTHING
from strata_nb.models.qwen4_exp.layer import Decisions, Layer
from strata_nb.models.qwen4_exp.mixer import StreamMixer
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.qsa import Choice
from strata_nb.models.qwen4_exp.weights import Linear, Weights
from strata_nb.models.qwen4_exp.window_rows import WindowRows
from strata_nb.parts import Part, PleTokens, numpy_leaf
from strata_nb.policies.routing import NATURAL, Seen
from strata_nb.trace import LayerDecisions, Leaf


@dataclass(frozen=True)
class State:
    """Everything committed: cells and the value of each part, in the model's order."""

    n: int
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Pending:
    """What a commit needs."""

    rows: tuple[Any, ...]  # one value a part
    whole: State | None  # after all rows, where no other commit is possible


@dataclass(frozen=True)
class Forward:
    """A window's results; nothing committed knows of them."""

    logits: mx.array | None  # [T, V]
    best: tuple[mx.array, mx.array] | None  # tokens [T], whether all are finite
    pending: "Pending"
    decisions: tuple[Decisions, ...]
    complete: np.ndarray  # complete blocks of each row, [T]
    # Experts ready when the window began, one entry a layer; None: all in memory.
    resident: tuple[np.ndarray | None, ...]  # bool [E]
    spent: Counters | None = None  # on experts that are not all in memory

    def greedy(self) -> tuple[list[int], bool]:
        """The best token of each row, the lowest on a tie; whether all are finite."""
        assert self.best is not None
        tokens, finite = self.best
        return [int(i) for i in np.array(tokens)], bool(finite.item())

    def layers(self) -> tuple[LayerDecisions, ...]:
        """What each layer chose, on the host."""
        return tuple(self._on_host(i, d) for i, d in enumerate(self.decisions))

    def _on_host(self, layer: int, decided: Decisions) -> LayerDecisions:
        blocks, scores = self._choice(decided.choice)
        ready = self.resident[layer]
        return LayerDecisions(
            expert_ids=decided.chosen.recorded(),
            router_logits=numpy_leaf(decided.logits),
            blocks=blocks,
            block_scores=scores,
            resident_ids=None if ready is None else np.flatnonzero(ready),
            measured=self._measured(layer),
            wait_ms=None
            if self.spent is None
            else 1e3 * self.spent.layers[layer].wait_seconds,
        )

    def _measured(self, layer: int) -> dict[str, int]:
        if self.spent is None:
            return {}
        spent = self.spent.layers[layer]
        return {
            "resident": spent.hits,
            "miss": spent.misses,
            "late": spent.late,
            "prefetched": spent.prefetched,
            "evicted": spent.evicted,
            "bytes_read": spent.bytes_read,
            "prefetched_bytes": spent.bytes_prefetched,
        }

    def _choice(
        self, choice: Choice | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        if choice is None:
            return None, None
        limit = self.complete[:, None]
        blocks, scores = np.array(choice.chosen), np.array(choice.scores)
        visible = np.arange(scores.shape[1]) < limit
        return np.where(blocks < limit, blocks, -1), np.where(visible, scores, -np.inf)


class Qwen4Exp:
    """The `qwen4_exp` text decoder on MLX (spec 2)."""

    def __init__(self, weights: Weights, options: EngineOptions) -> None:
        config = weights.config
        self.weights, self.config, self.options = weights, config, options
        self.name = weights.checkpoint.name
        self.digest = weights.checkpoint.digest
        self.embedding = weights.plain("embed_tokens.weight")
        self.layers = [
            Layer(weights, i, options) for i in range(config.num_hidden_layers)
        ]
        self.streamed = weights.streamed
        if self.streamed is not None:
            self.streamed.ask_routers(self._router)
        self.mixer = StreamMixer(weights, "hyper_connection_mixer", injects=False)
        tied = config.tie_word_embeddings
        self.lm_head = (
            Linear(self.embedding.T) if tied else weights.linear("lm_head.weight")
        )
        self.tokens = (
            options.vary(
                PleTokens(
                    config.ngram_size - 1,
                    eos=config.eos_token_id,
                    vocabulary=config.vocab_size,
                )
            )
            if config.ple_layers and config.eos_token_id is not None
            else None
        )
        self.draft_head = (
            None if options.mtp is None else DraftHead(weights, options, options.mtp)
        )
        self.slots = self._slots()

    def _slots(self) -> tuple[tuple[Part[Any, Any], int | None], ...]:
        """Every part with its layer, in the order of `State.values`."""
        tokens = [(self.tokens, None)] if self.tokens else []
        rest = [(p, layer.index) for layer in self.layers for p in layer.parts]
        drafts = [(p, None) for p in self.draft_head.parts] if self.draft_head else []
        return (*tokens, *rest, *drafts)

    def _router(self, layer: int) -> Linear:
        # A copy beside the joined product of the layer; made when a prefetch asks.
        return self.weights.linear(f"layers.{layer}.mlp.gate.weight")

    def initial(self) -> State:
        """An empty sequence."""
        state = State(0, tuple(part.initial() for part, _ in self.slots))
        evaluate(state.values)
        return state

    def position(self, state: State) -> int:
        """Committed cells."""
        return state.n

    def run(self, state: State, ids: Sequence[int], *, head: bool) -> Forward:
        """All layers over the rows `ids`; `state` is read and never changed.

        Args:
            state: what is committed.
            ids: token ids of the rows, T of them.
            head: make predictions; without it all rows will be kept.
        """
        window = WindowRows(state.n, len(ids), self.config)
        resident = self._resident(state.n)
        before = None
        if self.streamed is not None:
            self.streamed.pool.begin_window()
            before = self.streamed.counters
        values, pending, context = self._read_tokens(state, ids)
        row = self.embedding[mx.array(np.asarray(ids, dtype=np.int32))]
        h = mx.repeat(row[:, None], self.config.hc_count, axis=1)
        decisions = []
        on_cpu = mx.default_device() == mx.cpu
        for layer in self.layers:
            ple = layer.ple
            h, more, decided = layer(
                h,
                values[: len(layer.parts)],
                window,
                Seen(layer.index, resident[layer.index], headless=not head),
                embedding=ple.embed(context, tuple(ids)) if ple else None,
                head=head,
            )
            if on_cpu:
                # The other core starts on this layer while Python builds the next one.
                # On a GPU it would break up the launches: slower, seen on an H200.
                mx.async_eval(h)  # type: ignore[no-untyped-call]
            values = values[len(layer.parts) :]
            pending = (*pending, *more)
            decisions.append(decided)
        if self.draft_head is not None:
            more = self.draft_head.take_in(values, state.n, ids, row, h)
            pending = (*pending, *more)
        # Float32 whatever the model's dtype: NumPy has no bfloat16.
        logits = self.lm_head(self.mixer(h)[0]).astype(mx.float32) if head else None
        best = None if logits is None else best_tokens(logits)
        # Where all rows are kept in any case, one evaluation serves run and commit.
        sure = not head or len(ids) == 1
        whole = self._committed(state, pending, len(ids)) if sure else None
        if whole is not None and not head:
            # A prompt's pairs are read with it: a draft is near.
            whole = self._all_read(whole)
        evaluate(logits, best, pending, decisions, whole)
        spent = None
        if self.streamed is not None and before is not None:
            spent = self.streamed.spent(before)
        return Forward(
            logits,
            best,
            Pending(pending, whole),
            tuple(decisions),
            window.complete,
            resident,
            spent,
        )

    def _resident(self, start: int) -> tuple[np.ndarray | None, ...]:
        """Experts ready now, as a window begins at cell `start`; one entry a layer."""
        count = self.config.num_experts
        ready: Sequence[np.ndarray | None] = [None] * len(self.layers)
        if self.streamed is not None:
            snapshot = self.streamed.pool.snapshot()
            ready = [np.isin(np.arange(count), list(ids)) for ids in snapshot]
        seen = tuple(
            self.options.imposed.residents_of(i, start, there, experts=count)
            for i, there in enumerate(ready)
        )
        for there in seen:
            if there is not None:
                # It is recorded as well; a routing must not write into it.
                there.setflags(write=False)
        return seen

    def _read_tokens(
        self, state: State, ids: Sequence[int]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, ...]]:
        """Values of the layers' parts, pending so far, the n-gram context."""
        if self.tokens is None:
            return state.values, (), ()
        context, pending = self.tokens.run(state.values[0], ids)
        return state.values[1:], (pending,), context

    def draft(
        self, state: State, token: int, chain: Chain | None, cut: Cut | None
    ) -> tuple[np.ndarray, Chain]:
        """One row of the draft head: logits behind `token`, and the chain with it.

        Args:
            state: what is committed; it stays as it is.
            token: the root, later the last draft.
            chain: rows so far; None: none.
            cut: tokens that may be drafted; None: all.

        Returns:
            Float64 [V], minus infinity for tokens that are cut; the chain.
        """
        head = self.draft_head
        assert head is not None
        if chain is None:
            state = self._all_read(state)
            chain = head.begin(state.values[-len(head.parts) :], state.n)
        row, chain = head.extend(chain, self.embedding[mx.array([token])])
        lm_head = self.lm_head if cut is None else head.cut(self.lm_head, cut)
        logits = lm_head(row)[0].astype(mx.float32)
        evaluate(logits, chain)
        found = np.array(logits, np.float64)
        if cut is None:
            return found, chain
        every = np.full(self.config.vocab_size, -np.inf)
        every[cut.ids] = found
        return every, chain

    def caught_up(self, state: State) -> State:
        """The same state, its draft head ready to draft."""
        read = self._all_read(state)
        if read is not state:
            evaluate(read.values)
        return read

    def _all_read(self, state: State, *, above: int = 0) -> State:
        """The same state with the head's pairs read, if more than `above` wait."""
        head = self.draft_head
        if head is None:
            return state
        own = len(self.slots) - len(head.parts)
        waiting = head.unread(state.values[own:])
        if len(waiting.ids) <= above:
            return state
        embedding = self.embedding[mx.array(waiting.ids)]
        read = head.caught_up(state.values[own:], state.n, embedding)
        return State(state.n, (*state.values[:own], *read))

    def aside(self, how: AsideHow) -> Aside:
        """The model beside itself, to draft with other experts from its states.

        Raises:
            ValueError: the experts do not go with the model.
        """
        own = replace(self.options, routing=NATURAL, imposed=NOTHING, mtp=None)
        return Aside(Qwen4Exp(self.weights, own), how)

    def part_of(self, state: State) -> State:
        """`state` of the same model with a draft head, without that."""
        return State(state.n, state.values[: len(self.slots)])

    def commit(self, state: State, pending: Pending, keep: int) -> State:
        """The state after the first `keep` rows; the old one stays as it is."""
        if pending.whole is not None:
            return pending.whole
        committed = self._committed(state, pending.rows, keep)
        evaluate(committed)
        return committed

    def _committed(self, state: State, pending: tuple[Any, ...], keep: int) -> State:
        values = tuple(
            part.commit(committed, rows, keep=keep)
            for (part, _), committed, rows in zip(
                self.slots, state.values, pending, strict=True
            )
        )
        after = State(state.n + keep, values)
        return self._all_read(after, above=WAITING)

    def settle(self, state: State) -> State:
        """The same state with no fold pending, and no pair of the head unread."""
        state = self._all_read(state)
        values = tuple(
            part.settle(value)
            for (part, _), value in zip(self.slots, state.values, strict=True)
        )
        evaluate(values)
        return State(state.n, values)

    def filled(self, state: State, value: float) -> State:
        """The same live cells; whatever else a part stores holds `value`."""
        values = tuple(
            part.filled(kept, value)
            for (part, _), kept in zip(self.slots, state.values, strict=True)
        )
        evaluate(values)
        return State(state.n, values)

    def leaves(self, state: State) -> dict[Leaf, np.ndarray]:
        """Live cells of every part, as NumPy copies."""
        settled = self.settle(state)
        return {
            Leaf(part.name, layer, field): numpy_leaf(leaf)
            for (part, layer), value in zip(self.slots, settled.values, strict=True)
            for field, leaf in part.leaves(value).items()
        }

    def from_leaves(self, leaves: Mapping[Leaf, np.ndarray], *, position: int) -> State:
        """The state of `position` cells whose `leaves` these are.

        Raises:
            SavedStateError: a part is missing, has no place here, or another shape.
        """
        wanted = {
            Leaf(part.name, layer, field): shape
            for part, layer in self.slots
            for field, shape in part.shapes(position).items()
        }
        for leaf in sorted({*wanted, *leaves}, key=str):
            got = leaves[leaf].shape if leaf in leaves else None
            if got != wanted.get(leaf):
                raise SavedStateError(
                    f"the saved {leaf.part} of layer {leaf.layer} (field {leaf.field}) "
                    f"has shape {got}, wanted {wanted.get(leaf)} at {position} cells; "
                    "restore it into an engine of the same model and options"
                )
        self._check_dtypes(leaves)
        values = tuple(
            part.restore(
                {f: mx.array(leaves[Leaf(part.name, layer, f)]) for f in part.shapes(0)}
            )
            for part, layer in self.slots
        )
        evaluate(values)
        return State(position, values)

    def _check_dtypes(self, leaves: Mapping[Leaf, np.ndarray]) -> None:
        for part, layer in self.slots:
            for field, like in part.leaves(part.initial()).items():
                got, wanted = leaves[Leaf(part.name, layer, field)], numpy_leaf(like)
                if got.dtype != wanted.dtype:
                    raise SavedStateError(
                        f"the saved {part.name} of layer {layer} (field {field}) is "
                        f"{got.dtype}, wanted {wanted.dtype}; restore it into an "
                        "engine of the same model and options"
                    )
