"""The draft head (`mtp.*`): one more layer, over pairs of a wide row and a token.

The pair at slot t is the wide row of token t (its streams above the last layer, before
the final mixer) and token t + 1; what the head says of it is of token t + 2. Token 0
ends no pair, so n cells give n - 1 pairs and the wide row that waits for its token.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from strata_nb.errors import CheckpointError
from strata_nb.oracle import blocks, states
from strata_nb.oracle.backend import Decision, Layer, OracleBackend
from strata_nb.oracle.blocks import Weights
from strata_nb.oracle.maths import Array, rms1
from strata_nb.oracle.states import Parts, State
from strata_nb.packs import Checkpoint

_MIX = "hc_norm input_mix_weight_down input_mix_weight_up"
# Every tensor but the experts, by prefix.
_NAMES = {
    "mtp.": "pre_fc_norm_embedding pre_fc_norm_hidden fc_embedding fc_hidden",
    "mtp.hyper_connection_mixer.": _MIX,
    "mtp.layers.0.attn_hyper_connection.": f"{_MIX} block_inject_weight",
    "mtp.layers.0.mlp_hyper_connection.": f"{_MIX} block_inject_weight",
    "mtp.layers.0.self_attn.": "q_proj k_proj v_proj o_proj q_norm k_norm "
    "indexer.index_qk_proj indexer.q_layernorm indexer.k_layernorm",
    "mtp.layers.0.mlp.": "gate shared_expert_gate shared_expert.gate_proj "
    "shared_expert.up_proj shared_expert.down_proj",
}
_EXPERTS = "mtp.layers.0.mlp.experts."


class Chain(NamedTuple):
    """The head's state behind its own drafts, and what each row of them chose."""

    head: Parts
    decisions: tuple[Decision, ...]


class HeadLayer(Layer):
    """The head's layer: sparse attention and experts, just as in the target."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._is_gdn, self._hash = False, None
        self._max_blocks = checkpoint.config.indexer_blocks
        self._w = cache(lambda block: Weights(checkpoint, f"mtp.layers.0.{block}."))
        gate_up, down = _experts(checkpoint)
        self._w("mlp")["experts.gate_up_proj"] = gate_up
        self._w("mlp")["experts.down_proj"] = down


class HeadOracle(OracleBackend):
    """The oracle with its draft head, which is fed every pair that a window completes.

    Args:
        checkpoint: with all tensors `mtp.*`.
        norm: whether `pre_fc_norm_hidden` takes the mean square over the "whole" wide
            row, or "grouped", of each stream by itself.
        position: of the pair (wide row of token t, token t + 1): "t" or "t+1".

    Raises:
        CheckpointError: tensors of the head are missing.
        ValueError: `norm` or `position` is not one of those, or blocks are too small.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        norm: Literal["whole", "grouped"] = "whole",
        position: Literal["t", "t+1"] = "t",
    ) -> None:
        if norm not in ("whole", "grouped") or position not in ("t", "t+1"):
            got = f"{norm!r} and {position!r}"
            raise ValueError(f"wanted 'whole' or 'grouped', 't' or 't+1', got {got}")
        if position == "t+1" and checkpoint.config.indexer_compress_ratio == 1:
            # The first block would have no cell at all, and so no key.
            raise ValueError("position 't+1' wants blocks of 2 cells or more; use 't'")
        missing = missing_tensors(checkpoint)
        if missing:
            raise CheckpointError(
                f"{checkpoint.name} lacks tensors of the draft head: "
                f"{', '.join(missing)}; use a checkpoint that has them, or no head"
            )
        super().__init__(checkpoint)
        self._whole, self._first = norm == "whole", int(position == "t+1")
        self._w = Weights(checkpoint, "mtp.")
        self._mix_draft = Weights(checkpoint, "mtp.hyper_connection_mixer.")
        self._layer = HeadLayer(checkpoint)

    def draft(
        self, state: State, token: int, chain: Chain | None, cut: Any
    ) -> tuple[Array, Chain]:
        """What the head expects behind `token`: logits [V], and the longer chain.

        In a chain the head's own wide row stands for the target's. Its pairs are seen
        by the chain alone: `state` stays as it is.

        Args:
            state: of one cell or more.
            token: without a chain the one that follows the last cell, else a draft.
            chain: of the draft before; None begins at `state`.
            cut: with the `ids` that may be drafted, others get -inf; None: all may.

        Raises:
            ValueError: no wide row waits, or `token` is outside the vocabulary.
        """
        if not 0 <= token < self.config.vocab_size:
            size = self.config.vocab_size
            raise ValueError(f"wanted an id below {size}, got {token}")
        if not state.position:
            raise ValueError("no wide row waits for a token; commit a first cell")
        assert state.head is not None
        before, decisions = chain or Chain(state.head, ())
        slot = state.position - 1 + len(decisions)
        h, head, decided = self.pair(before, token, slot)
        logits = self.logits(h)
        if cut is not None:
            masked = np.full_like(logits, -np.inf)
            masked[cut.ids] = logits[cut.ids]
            logits = masked
        return logits, Chain(head | {"row.h": h[None]}, (*decisions, decided))

    def caught_up(self, state: State) -> State:
        """`state`: a pair is read as its token comes."""
        return state

    def joined(self, h: Array, token: int) -> Array:
        """The layer's input [C, H]: each stream of the wide row h, and the token."""
        w, eps = self._w, self.config.rms_norm_eps
        e = rms1(self._embeddings[token], w["pre_fc_norm_embedding"], eps)
        flat = h.ravel() if self._whole else h
        n = rms1(flat, w["pre_fc_norm_hidden"], eps).reshape(h.shape)
        # One matrix for all streams, and the embedding is added to every one.
        return n @ w["fc_hidden"].T + w["fc_embedding"] @ e

    def pair(
        self, before: Parts, token: int, slot: int
    ) -> tuple[Array, Parts, Decision]:
        """From the waiting wide row and its token: the head's own, and its state."""
        x = self.joined(before["row.h"][0], token)
        return self._layer(x, (), slot + self._first, before)

    def logits(self, h: Array) -> Array:
        """Of the head's own wide row h [C, H], by its own mixer: [V]."""
        logits: Array = np.vecdot(self._head, blocks.mixed(self._mix_draft, h)[0])
        return logits

    def _row(self, state: State, token: int) -> tuple[Array, State, list[Decision]]:
        h, after, decisions = super()._row(state, token)
        head = state.head
        assert head is not None
        if state.position:
            _, head, _ = self.pair(head, token, state.position - 1)
        return h, after._replace(head=head | {"row.h": h[None]}), decisions

    def _zeros(self, cells: int) -> State:
        config, pairs = self.config, max(0, cells - 1)
        shapes = states.qsa_shapes(config, pairs, first=self._first)
        shapes["row.h"] = (min(cells, 1), config.hc_count, config.hidden_size)
        head = {name: np.zeros(shape) for name, shape in shapes.items()}
        return super()._zeros(cells)._replace(head=head)


def missing_tensors(checkpoint: Checkpoint) -> list[str]:
    """Names of the head's tensors that `checkpoint` lacks; 31 are wanted."""
    return [name for name in _wanted(checkpoint) if not checkpoint.has(name)]


def _wanted(checkpoint: Checkpoint) -> Iterator[str]:
    for prefix, names in _NAMES.items():
        yield from (f"{prefix}{name}.weight" for name in names.split())
    if checkpoint.config.attention_bias:
        yield from (f"mtp.layers.0.self_attn.{x}_proj.bias" for x in "qkvo")
    if checkpoint.has(f"{_EXPERTS}0.gate_proj.weight"):
        for expert in range(checkpoint.config.num_experts):
            for part in ("gate", "up", "down"):
                yield f"{_EXPERTS}{expert}.{part}_proj.weight"
    else:
        yield from (f"{_EXPERTS}gate_up_proj", f"{_EXPERTS}down_proj")


def _experts(checkpoint: Checkpoint) -> tuple[Array, Array]:
    """Gate and up [E, 2I, H], and down [E, H, I], fused in the files or one by one."""
    if checkpoint.has(f"{_EXPERTS}gate_up_proj"):
        names = (f"{_EXPERTS}gate_up_proj", f"{_EXPERTS}down_proj")
        gate_up, down = (checkpoint.tensor(n).astype(np.float64) for n in names)
        return gate_up, down
    each = [
        Weights(checkpoint, f"{_EXPERTS}{e}.")
        for e in range(checkpoint.config.num_experts)
    ]
    gate_up = np.stack([np.concatenate([w["gate_proj"], w["up_proj"]]) for w in each])
    return gate_up, np.stack([w["down_proj"] for w in each])
