"""The whole forward (spec 2), one row after the other, and the verbs of a backend."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strata_nb.errors import KeepError, TransactionError
from strata_nb.oracle import blocks, maths, states
from strata_nb.oracle.blocks import Weights
from strata_nb.oracle.hashing import NgramHash
from strata_nb.oracle.maths import Array, Indices
from strata_nb.oracle.states import Leaves, Parts, State
from strata_nb.packs import Checkpoint
from strata_nb.trace import LayerDecisions, Leaf

# Of one layer and row: expert ids, router logits, blocks, scores (None twice in GDN).
Decision = tuple[Indices, Array, Indices | None, Array | None]


class Pending(NamedTuple):
    """A window run from `before`: its tokens, and the state after each row."""

    before: State
    ids: tuple[int, ...]
    after: list[State]  # of a window longer than 8 rows the last alone


@dataclass(frozen=True)
class Forward:
    """What a window gave: logits [T, V] (None when headless) and what to commit."""

    logits: Array | None
    pending: Pending = field(repr=False)
    _decisions: list[list[Decision]] = field(repr=False)  # [T][L]

    def greedy(self) -> tuple[list[int], bool]:
        """Argmax of each row, lowest index on ties; whether all logits are finite."""
        return best_tokens(self.logits)

    def layers(self) -> tuple[LayerDecisions, ...]:
        """Each layer's decisions; in QSA layers scores of unseen blocks are -inf."""
        by_layer = zip(*self._decisions, strict=True)
        by_field = (zip(*rows, strict=True) for rows in by_layer)
        return tuple(LayerDecisions(*map(_stacked, fields)) for fields in by_field)


def best_tokens(logits: npt.ArrayLike | None) -> tuple[list[int], bool]:
    """Argmax of each row of logits [T, V], lowest index on ties; all finite?"""
    rows = np.asarray(logits, dtype=np.float64)
    return rows.argmax(axis=-1).tolist(), bool(np.isfinite(rows).all())


def _stacked(rows: Sequence[Any]) -> Any:
    if rows[-1] is None:
        return None
    # Score rows grow as blocks are completed; all others have one length.
    return np.stack([_padded(row, len(rows[-1]), -np.inf) for row in rows])


def _padded(row: npt.NDArray[Any], length: int, fill: float) -> npt.NDArray[Any]:
    lacking = length - len(row)
    return np.pad(row, (0, lacking), constant_values=fill) if lacking else row


class Layer:
    """One layer: PLE first where it has one, then the attention half, then the MLP."""

    attend, gated = staticmethod(blocks.attend), staticmethod(maths.gated)

    def __init__(self, checkpoint: Checkpoint, index: int) -> None:
        config = checkpoint.config
        self._is_gdn = config.layer_types[index] == "linear_attention"  # else QSA
        self._max_blocks = config.indexer_blocks
        self._w = cache(lambda block: Weights(checkpoint, f"layers.{index}.{block}."))
        gate_up, down = checkpoint.experts(index)
        self._w("mlp")["experts.gate_up_proj"] = gate_up.astype(np.float64)
        self._w("mlp")["experts.down_proj"] = down.astype(np.float64)
        self._hash: NgramHash | None = None
        if index in config.ple_layers:
            module = config.ple_layers.index(index)
            self._hash, self._table = NgramHash(config, module), checkpoint.ple(module)

    def __call__(
        self, h: Array, ids: Sequence[int], position: int, before: Parts
    ) -> tuple[Array, Parts, Decision]:
        """One row: streams h [C, H], last N ids, position, and the layer's state."""
        w, parts, chosen, scores = self._w, dict(before), None, None
        if self._hash is not None:
            rows = np.array(self._hash.rows(ids), dtype=np.int64)
            e = self._table.rows(rows).astype(np.float64).ravel()
            added, new = blocks.ple(w("ple"), h, e, before)
            h, parts = h + added, parts | new
        x, n = blocks.mixed(w("attn_hyper_connection"), h)
        if self._is_gdn:
            y, new = blocks.gdn(w("linear_attn"), x, before)
        else:
            y, new, chosen, scores = blocks.qsa(
                w("self_attn"), x, position, before, self.attend
            )
            chosen = _padded(chosen, self._max_blocks, -1)
        h = h + blocks.injected(w("attn_hyper_connection"), n, y)
        x, n = blocks.mixed(w("mlp_hyper_connection"), h)
        y, experts, logits = blocks.moe(w("mlp"), x, self.gated)
        h = h + blocks.injected(w("mlp_hyper_connection"), n, y)
        return h, parts | new, (experts, logits, chosen, scores)


class OracleBackend:
    """A model in float64, row by row: any split into windows gives the same bits."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = self.config = checkpoint.config
        self.name, self.digest = checkpoint.name, checkpoint.digest
        w = Weights(checkpoint, "")
        self._embeddings = w["embed_tokens"]  # [V, H]
        self._head = w["embed_tokens" if config.tie_word_embeddings else "lm_head"]
        self._layers = [Layer(checkpoint, i) for i in range(config.num_hidden_layers)]
        self._mix_final = Weights(checkpoint, "hyper_connection_mixer.")

    def initial(self) -> State:
        """The state before the first token."""
        return self._zeros(0)

    def position(self, state: State) -> int:
        """Cells that `state` holds."""
        return state.position

    def run(self, state: State, ids: Sequence[int], *, head: bool) -> Forward:
        """Run one row per id after `state`, which stays as it is; `head`: logits too.

        Raises:
            ValueError: there is no id, or one is outside the vocabulary.
        """
        size = self.config.vocab_size
        tokens = tuple(map(int, ids))
        if not tokens or min(tokens) < 0 or max(tokens) >= size:
            raise ValueError(f"wanted one or more ids below {size}, got {tokens}")
        after, logits, decisions = [state], [], []
        with np.errstate(invalid="ignore", over="ignore"):
            for token in tokens:
                h, row_state, decided = self._row(after[-1], token)
                after = [*after, row_state] if len(tokens) <= 8 else [row_state]
                decisions.append(decided)
                if head:
                    x, _ = blocks.mixed(self._mix_final, h)
                    # Not @: its threads cost 20 times the work on busy cores.
                    logits.append(np.vecdot(self._head, x))
        pending = Pending(state, tokens, after[-len(tokens) :])
        return Forward(np.stack(logits) if head else None, pending, decisions)

    def commit(self, state: State, forward_pending: Pending, keep: int) -> State:
        """The state after the first `keep` rows of the window, nothing else in it.

        Raises:
            TransactionError: the window was not run from `state`.
            KeepError: `keep` is not within 1 to T.
        """
        before, ids, after = forward_pending
        if before is not state:
            raise TransactionError("the window is of another state; run it again")
        if not 1 <= keep <= len(ids):
            raise KeepError(f"wanted `keep` within 1 to {len(ids)}, got {keep}")
        if len(after) < len(ids) != keep:
            # A long window in part: rows are serial, so a second run has the same bits.
            return self.run(state, ids[:keep], head=False).pending.after[-1]
        return after[keep - len(ids) - 1]

    def settle(self, state: State) -> State:
        """The same state: nothing here is left to fold."""
        return state

    def leaves(self, state: State) -> dict[Leaf, npt.NDArray[Any]]:
        """Copies of the live arrays of `state`."""
        return states.to_leaves(state)

    def from_leaves(self, leaves: Leaves, *, position: int) -> State:
        """The state with these leaves; `states.from_leaves` says what is refused."""
        return states.from_leaves(self._zeros(position), leaves)

    def _zeros(self, cells: int) -> State:
        return states.zeros(self.config, cells)

    def _row(self, state: State, token: int) -> tuple[Array, State, list[Decision]]:
        """One token (spec 2): its streams h [C, H] above the last layer."""
        ids = (*state.ids, token)
        # Every stream starts as the plain embedding.
        h = np.tile(self._embeddings[token], (self.config.hc_count, 1))
        layers, decisions = [], []
        for layer, before in zip(self._layers, state.layers, strict=True):
            h, parts, decided = layer(h, ids, state.position, before)
            layers.append(parts)
            decisions.append(decided)
        return h, State(state.position + 1, ids[1:], tuple(layers)), decisions
