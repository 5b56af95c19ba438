"""The blocks of a layer (spec 4 to 8): tensors `w`, one row and the state before."""

from collections.abc import Callable

import numpy as np

from strata_nb.oracle import maths
from strata_nb.oracle.maths import Array, Indices, appended, rms1, sigmoid, silu
from strata_nb.oracle.states import Parts
from strata_nb.packs import Checkpoint, ModelConfig

Attend = Callable[[Array, Array, Array, Indices], Array]
Gated = Callable[[Array, Array], Array]


class Weights(dict[str, Array]):
    """Tensors under one prefix in float64, read at first use; `.weight` is left out."""

    def __init__(self, checkpoint: Checkpoint, prefix: str) -> None:
        self._checkpoint, self._prefix = checkpoint, prefix
        self.config = checkpoint.config

    def __missing__(self, name: str) -> Array:
        stored = self._prefix + name
        if self._checkpoint.has(stored + ".weight"):
            stored += ".weight"
        self[name] = self._checkpoint.tensor(stored).astype(np.float64)
        return self[name]


def mixed(w: Weights, h: Array) -> tuple[Array, Array]:
    """Spec 4: streams h [C, H] to a half layer's input x [H]; also the normed n."""
    n = rms1(h, w["hc_norm"], w.config.rms_norm_eps)
    # 1/C stands inside silu. What is mixed is the normed n, and it is averaged.
    low = silu(w["input_mix_weight_down"] @ n.ravel() / len(h))
    m = sigmoid(w["input_mix_weight_up"] @ low).reshape(n.shape)
    return (m * n).mean(axis=0), n


def injected(w: Weights, n: Array, y: Array) -> Array:
    """Spec 4: a half layer's output y [H] to what each stream gains, [C, H]."""
    g = 2.0 * sigmoid(w["block_inject_weight"] @ n.ravel() / len(n))
    return np.outer(g, y)


def ple(w: Weights, h: Array, e: Array, before: Parts) -> tuple[Array, Parts]:
    """Spec 5.4: what the n-gram embedding e [D_p] adds to the streams h [C, H]."""
    eps = w.config.rms_norm_eps
    key = rms1((w["key_proj"] @ e).reshape(h.shape), w["norm_key"], eps)
    query = rms1(h, w["norm_query"], eps)
    s = (key * query).sum(axis=-1, keepdims=True) / np.sqrt(h.shape[-1])  # [C, 1]
    s = np.sign(s) * np.sqrt(np.maximum(np.abs(s), 1e-6))
    u = sigmoid(s) * (w["value_proj"] @ e)  # [C, H]
    # The convolution sees the normed u; the sum takes u as it is.
    rows = appended(before["ple_conv.rows"], rms1(u, w["norm_conv"], eps).ravel())
    y = maths.conv(w["conv1d"], rows, dilation=w.config.ngram_size)
    return u + silu(y).reshape(h.shape), {"ple_conv.rows": rows[1:]}


def gdn(w: Weights, x: Array, before: Parts) -> tuple[Array, Parts]:
    """Spec 6: a memory S of each value head, corrected row by row: the delta rule."""
    config = w.config
    key_heads, value_heads = config.linear_num_key_heads, config.linear_num_value_heads
    rows = appended(before["gdn_conv.rows"], w["in_proj_qkv"] @ x)
    qkv = silu(maths.conv(w["conv1d"], rows))
    q, k, v = np.split(qkv, [config.key_dim, 2 * config.key_dim])
    # Value head i uses key head floor(i · h_k / h_v): neighbours share one.
    shared = np.arange(value_heads) * key_heads // value_heads
    q = maths.l2(q.reshape(key_heads, -1))[shared] / np.sqrt(config.linear_key_head_dim)
    k = maths.l2(k.reshape(key_heads, -1))[shared]  # [Hv, Dk]
    v = v.reshape(value_heads, -1)  # [Hv, Dv]
    beta = sigmoid(w["in_proj_b"] @ x)[:, None]
    softplus = np.logaddexp(0.0, w["in_proj_a"] @ x + w["dt_bias"])
    alpha = np.exp(-np.exp(w["A_log"]) * softplus)[:, None, None]
    # Decay first, read last: o sees its own row.
    memory = alpha * before["gdn_state.S"]  # [Hv, Dv, Dk]
    delta = beta * (v - maths.applied(memory, k))
    memory = memory + delta[:, :, None] * k[:, None, :]
    o = maths.applied(memory, q)
    # This norm is stored one-centred, without the 1 +. Norm first, gate second.
    act = maths.ACTIVATIONS[config.output_gate]
    y = maths.normed(o, config.rms_norm_eps) * w["norm"]
    y = y * act((w["in_proj_z"] @ x).reshape(o.shape))
    y = w["out_proj"] @ y.ravel()
    return y, {"gdn_state.S": memory, "gdn_conv.rows": rows[1:]}


def qsa(
    w: Weights, x: Array, position: int, before: Parts, attend: Attend
) -> tuple[Array, Parts, Indices, Array]:
    """Spec 7: attention over chosen blocks and the open one; also `choose`'s result."""
    config = w.config
    q, k, v = (_projected(w, name, x) for name in "qkv")
    # Per head the first D outputs are the query, the last D its gate.
    query, gate = np.split(q.reshape(config.num_attention_heads, -1), 2, axis=-1)
    query = _placed(query, w["q_norm"], config, position)
    key = k.reshape(config.num_key_value_heads, -1)
    key = _placed(key, w["k_norm"], config, position)
    raw = (w["indexer.index_qk_proj"] @ x).reshape(-1, config.indexer_head_dim)
    after = {
        "kv.k": appended(before["kv.k"], key),
        "kv.v": appended(before["kv.v"], v.reshape(key.shape)),
        **pooled(w, raw[-1], position, before),
    }
    most = config.indexer_blocks  # K_b
    index_query = _placed(raw[:-1], w["indexer.q_layernorm"], config, position)
    blocks, scores = choose(index_query, after["qsa_blocks.keys"], most)
    cells = visible(blocks, position, config.indexer_compress_ratio)
    # Position 0 has a cell, but not where a draft head counts positions from 1.
    rows = cells - (position - len(before["kv.k"]))
    rows = rows[rows >= 0]
    o = attend(query, after["kv.k"], after["kv.v"], rows)
    if np.isnan(scores).any():
        o = np.full_like(o, np.nan)  # a sort buries a NaN; it must reach the logits
    y = _projected(w, "o", (o * sigmoid(gate)).ravel())
    return y, after, blocks, scores


def _projected(w: Weights, name: str, x: Array) -> Array:
    y = w[f"{name}_proj"] @ x
    return y + w[f"{name}_proj.bias"] if w.config.attention_bias else y


def _placed(heads: Array, norm: Array, config: ModelConfig, position: int) -> Array:
    """Norm, then RoPE at `position`; index heads use the main heads' angles."""
    heads = rms1(heads, norm, config.rms_norm_eps)
    return maths.rope(heads, position, config.rope_theta, config.rotary_dim)


def pooled(w: Weights, raw_key: Array, position: int, before: Parts) -> Parts:
    """One more raw index key [D_I]; a block that it completes becomes a block key."""
    keys, tail = before["qsa_blocks.keys"], appended(before["qsa_tail.rows"], raw_key)
    ratio = w.config.indexer_compress_ratio
    if (position + 1) % ratio == 0:
        # Mean of the raw keys, then norm, then RoPE at the block's first position.
        norm, first = w["indexer.k_layernorm"], position + 1 - ratio
        key = _placed(tail.mean(axis=0), norm, w.config, first)
        keys, tail = appended(keys, key), tail[:0]
    return {"qsa_blocks.keys": keys, "qsa_tail.rows": tail}


def choose(query: Array, keys: Array, count: int) -> tuple[Indices, Array]:
    """Queries [h_I, D_I], block keys [n_b, D_I] to the best blocks and all scores."""
    # relu per head, then the sum over heads: several scores may be exactly 0.
    scores = np.maximum(0.0, query @ keys.T).sum(axis=0) / np.sqrt(keys.shape[1])
    return np.sort(maths.highest(scores, count)), scores


def visible(blocks: Indices, position: int, ratio: int) -> Indices:
    """The cells of `blocks`, then those of the open block up to the row's own."""
    in_blocks = blocks[:, None] * ratio + np.arange(ratio)
    open_block = np.arange((position + 1) // ratio * ratio, position + 1)
    return np.concatenate([in_blocks.ravel(), open_block])


def attend(query: Array, k: Array, v: Array, rows: Indices) -> Array:
    """Softmax attention of query [h_q, D] over rows of k, v [n, h_kv, D]: [h_q, D]."""
    (heads, dim), k, v = query.shape, k[rows], v[rows]
    # Query head i uses K/V head floor(i · h_kv / h_q).
    shared = np.arange(heads) * k.shape[1] // heads
    scores = np.einsum("hd,nhd->hn", query, k[:, shared]) / np.sqrt(dim)
    o: Array = np.einsum("hn,nhd->hd", maths.softmax(scores), v[:, shared])
    return o


def moe(w: Weights, x: Array, gated: Gated) -> tuple[Array, Indices, Array]:
    """Spec 8: k of E experts and a shared one; also those k, and router logits [E]."""
    logits = w["gate"] @ x
    count, renormalise = w.config.num_experts_per_tok, w.config.norm_topk_prob
    experts, weights = route(logits, count, renormalise=renormalise)
    gate, up = np.split(w["experts.gate_up_proj"][experts] @ x, 2, axis=-1)  # [k, I]
    outputs = maths.applied(w["experts.down_proj"][experts], gated(gate, up))  # [k, H]
    hidden = gated(w["shared_expert.gate_proj"] @ x, w["shared_expert.up_proj"] @ x)
    shared = w["shared_expert.down_proj"] @ hidden
    y = weights @ outputs + sigmoid(w["shared_expert_gate"] @ x) * shared
    return y, experts, logits


def route(logits: Array, count: int, *, renormalise: bool) -> tuple[Indices, Array]:
    """The `count` best experts, best first, and their weights."""
    # By logit: the order of the probabilities, without the ties that rounding makes.
    experts = maths.highest(logits, count)
    weights = maths.softmax(logits)[experts]
    return experts, weights / weights.sum() if renormalise else weights
