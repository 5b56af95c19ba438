"""QSA: attention over blocks of cells that an indexer chooses."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels.block_attention import attend
from strata_kernels.index_blocks import choose_blocks, pool_blocks, score_blocks
from strata_kernels.norms import RmsNorm
from strata_kernels.rope import rotate
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.weights import Linear, Weights
from strata_nb.models.qwen4_exp.window_rows import WindowRows
from strata_nb.packs import ModelConfig
from strata_nb.parts import KeyValues, KvView, QsaBlocks, QsaTail

# Numbers listed for the rows of one piece: keys (as many values), or block scores.
_PIECE_LIMIT = 1 << 24
PAGE_BLOCKS = 64


@dataclass(frozen=True)
class Choice:
    """What the indexer decided; None where every block was visible anyway."""

    chosen: mx.array  # int32 [T, K_b], numbers past the last block are padding
    scores: mx.array  # float32 [T, blocks]


@dataclass(frozen=True)
class TakenIn:
    """Rows of a window before they attend to anything, and what is pending of them."""

    q: mx.array
    gate: mx.array
    index_q: mx.array
    keys: list[mx.array]
    view: KvView
    pending: tuple[Any, ...]


class Qsa:
    """The attention half of an indexed layer (spec 7)."""

    def __init__(self, weights: Weights, layer: int, options: EngineOptions) -> None:
        config = weights.config
        name = f"{weights.stem(layer)}.self_attn"
        eps = config.rms_norm_eps
        self.heads, self.dim = config.num_attention_heads, config.head_dim
        self.kv_heads = config.num_key_value_heads
        self.index_heads = config.indexer_n_heads
        self.index_dim = config.indexer_head_dim
        self.ratio = config.indexer_compress_ratio
        self.into = _input_maps(weights, name)
        self.borders = np.cumsum(_widths(config)[:-1]).tolist()
        self.out = Linear(
            weights.linear(f"{name}.o_proj.weight").weight,
            weights.plain(f"{name}.o_proj.bias") if config.attention_bias else None,
        )
        head_scale = mx.concatenate(
            [
                mx.repeat(weights.norm(f"{name}.{n}_norm.weight")[None], count, axis=0)
                for n, count in (("q", self.heads), ("k", self.kv_heads))
            ]
        )
        self.head_norm = RmsNorm(head_scale, eps=eps)
        self.query_norm, self.key_norm = (
            RmsNorm(weights.norm(f"{name}.indexer.{n}_layernorm.weight"), eps=eps)
            for n in ("q", "k")
        )
        self.layer, self.imposed = layer, options.imposed
        prefix = "mtp_" if layer == weights.head_layer else ""
        self.parts = _parts(config, weights.dtype, options, prefix)

    def __call__(
        self, x: mx.array, committed: tuple[Any, ...], window: WindowRows
    ) -> tuple[mx.array, tuple[Any, ...], Choice | None]:
        """Outputs [T, H] of rows [T, H], what is pending, what was chosen."""
        taken, choice = self.take_in(x, committed, window), None
        q, keys, view = taken.q, taken.keys, taken.view
        if window.is_sparse:
            outputs, choice = self._attend_sparse(q, taken.index_q, keys, view, window)
        else:
            outputs = attend(q, *view.all(), window.causal)
        gated = outputs * mx.sigmoid(taken.gate)
        y = self.out(gated.reshape(x.shape[0], -1))
        return y, taken.pending, choice

    def take_in(
        self, x: mx.array, committed: tuple[Any, ...], window: WindowRows
    ) -> "TakenIn":
        """The half before anything is attended: what the parts take in."""
        kv, blocks, tail = self.parts
        q, k, v, gate, index_q, raw = self._project(x, window)
        view, pending_kv = kv.run(committed[0], k, v)
        grouped, pending_tail = tail.run(committed[2], raw)
        new_keys = self._block_keys(grouped, window)
        keys, pending_blocks = blocks.run(committed[1], new_keys, start=window.start)
        pending = (pending_kv, pending_blocks, pending_tail)
        return TakenIn(q, gate, index_q, keys, view, pending)

    def _project(self, x: mx.array, window: WindowRows) -> tuple[mx.array, ...]:
        count, both = x.shape[0], self.heads + self.kv_heads
        roped, gate, v, index_q, raw = mx.split(self.into(x), self.borders, axis=-1)
        heads = roped.reshape(count, both, self.dim)
        turned = rotate(self.head_norm(heads), window.angles)
        q, k = mx.split(turned, [self.heads], axis=1)
        index_heads = index_q.reshape(count, self.index_heads, self.index_dim)
        index_q = self.query_norm(index_heads)
        return (
            q,
            k,
            v.reshape(count, self.kv_heads, self.dim),
            gate.reshape(count, self.heads, self.dim),
            rotate(index_q, window.angles),
            raw,
        )

    def _block_keys(self, grouped: mx.array, window: WindowRows) -> mx.array:
        """Pool, norm, rotate at the block's first cell; [blocks, D_I]."""
        if grouped.shape[0] == 0:
            return grouped[:, 0]
        return pool_blocks(grouped, self.key_norm, window.block_angles)

    def _attend_sparse(
        self,
        q: mx.array,
        index_q: mx.array,
        keys: list[mx.array],
        view: KvView,
        window: WindowRows,
    ) -> tuple[mx.array, Choice]:
        """Attention over chosen blocks, a piece of a long window at a time."""
        listed = window.sparse.fixed.shape[1] * self.kv_heads * self.dim
        scored = self.index_heads * sum(k.shape[0] for k in keys)
        size = max(1, _PIECE_LIMIT // max(listed, scored))
        pieces = []
        for first in range(0, window.count, size):
            rows = slice(first, first + size)
            scores = mx.concatenate(
                [score_blocks(index_q[rows], k) for k in keys], axis=1
            )
            complete = window.sparse.complete[rows]
            chosen, doubt = choose_blocks(scores, complete, budget=window.blocks)
            chosen = self.imposed.blocks_of(
                self.layer, window.cells[rows], chosen, window.complete[rows]
            )
            visible = window.sparse.visible[rows]
            outputs = attend(q[rows], *view.at(window.listed(chosen, rows)), visible)
            outputs = outputs + doubt[:, None, None].astype(outputs.dtype)
            pieces.append((outputs, chosen, scores))
            if size < window.count:
                # One piece's lists of keys in memory, not those of all of them.
                mx.eval(pieces[-1])
        if len(pieces) == 1:
            outputs, chosen, scores = pieces[0]
            return outputs, Choice(chosen, scores)
        joined = [mx.concatenate(list(x)) for x in zip(*pieces, strict=True)]
        return joined[0], Choice(joined[1], joined[2])


def _widths(config: ModelConfig) -> tuple[int, ...]:
    """Outputs of the joined input map: queries and keys, gates, values, index."""
    heads, kv_heads, dim = (
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
    )
    index = config.indexer_head_dim
    return (
        (heads + kv_heads) * dim,
        heads * dim,
        kv_heads * dim,
        config.indexer_n_heads * index,
        index,
    )


def _input_maps(weights: Weights, name: str) -> Linear:
    """All input maps as one, per-head gates moved behind the queries."""
    config = weights.config
    heads, dim = config.num_attention_heads, config.head_dim

    def stack(kind: str) -> list[mx.array]:
        q, k, v = (weights.read(f"{name}.{p}_proj.{kind}") for p in ("q", "k", "v"))
        # Stored per head: D rows of the query, then D rows of its gate.
        split = q.reshape(heads, 2, dim, *q.shape[1:]).swapaxes(0, 1)
        queries, gates = split.reshape(2, heads * dim, *q.shape[1:])
        return [queries, k, gates, v]

    index = f"{name}.indexer.index_qk_proj.weight"
    weight = weights.joined(
        f"{name}:into", lambda: [*stack("weight"), weights.read(index)]
    )
    if not config.attention_bias:
        return Linear(weight)
    none = mx.zeros(
        ((config.indexer_n_heads + 1) * config.indexer_head_dim,), weights.dtype
    )
    bias = weights.joined(f"{name}:into_bias", lambda: [*stack("bias"), none])
    return Linear(weight, bias)


def _parts(
    config: ModelConfig, dtype: mx.Dtype, options: EngineOptions, prefix: str
) -> tuple[KeyValues, QsaBlocks, QsaTail]:
    ratio, index_dim = config.indexer_compress_ratio, config.indexer_head_dim
    kv = KeyValues(
        config.num_key_value_heads,
        config.head_dim,
        kind=options.kv,
        dtype=dtype,
        page_rows=PAGE_BLOCKS * ratio,
        name=f"{prefix}kv",
    )
    blocks = QsaBlocks(
        index_dim, ratio, dtype, page_rows=PAGE_BLOCKS, name=f"{prefix}qsa_blocks"
    )
    tail = QsaTail(index_dim, ratio, dtype, name=f"{prefix}qsa_tail")
    return options.vary(kv), options.vary(blocks), options.vary(tail)
