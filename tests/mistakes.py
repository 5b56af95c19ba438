"""Mistakes to plant into the engine, each as an edit of a line or two of its source.

They are those of the model's specification, section 15. When the engine's source moves
on, its text here has to move with it: `planting` refuses an edit that does not fit.
"""

from planting import Mistake

MODEL = "strata_nb.models.qwen4_exp"
PLE_HASH = "strata_nb.packs.ple"

# For tests of the tests: the same numbers by another text.
NOTHING = Mistake(
    "nothing",
    f"{MODEL}.mixer",
    (("row = (mix", "row = 1 * (mix"),),
)

_ATTENTION = (
    Mistake(
        "q/k norm without 1+",
        f"{MODEL}.qsa",
        (
            (
                'weights.norm(f"{name}.{n}_norm.weight")',
                '(weights.norm(f"{name}.{n}_norm.weight") - 1)',
            ),
        ),
    ),
    Mistake(
        "query and gate split in two halves instead of per head",
        f"{MODEL}.qsa",
        (
            (
                "q.reshape(heads, 2, dim, *q.shape[1:]).swapaxes(0, 1)",
                "q.reshape(2, heads, dim, *q.shape[1:])",
            ),
        ),
    ),
    Mistake(
        "interleaved RoPE",
        "strata_kernels.rope.reference",
        (
            # The halves stay apart: scores do not mind where a pair's features lie.
            (
                "mx.split(x, [dims // 2, dims], axis=-1)",
                "(x[..., 0:dims:2], x[..., 1:dims:2], x[..., dims:])",
            ),
        ),
    ),
    Mistake(
        "index keys normed before pooling",
        "strata_kernels.index_blocks.reference",
        (
            (
                "pooled = raw.astype(mx.float32)",
                "pooled = norm(raw).astype(mx.float32)",
            ),
            ("rotate(norm(pooled)[:, None], at)", "rotate(pooled[:, None], at)"),
        ),
    ),
    Mistake(
        "index keys roped at the block's end",
        f"{MODEL}.window_rows",
        (
            (
                "np.arange(first, end) * self.ratio",
                "np.arange(first, end) * self.ratio + self.ratio - 1",
            ),
        ),
    ),
    Mistake(
        "relu after the head sum",
        "strata_kernels.index_blocks.reference",
        (
            (
                "mx.maximum(flat @ keys.astype(mx.float32).T, 0)",
                "flat @ keys.astype(mx.float32).T",
            ),
            (
                "dots.reshape(rows, heads, -1).sum(axis=1)",
                "mx.maximum(dots.reshape(rows, heads, -1).sum(axis=1), 0)",
            ),
        ),
    ),
    Mistake(
        "own complete block always visible",
        f"{MODEL}.window_rows",
        (("(self.cells + 1) // ratio", "self.cells // ratio"),),
    ),
    Mistake(
        "open block counted in the budget",
        f"{MODEL}.window_rows",
        (("indexer_budget // ratio", "indexer_budget // ratio - 1"),),
    ),
    Mistake(
        "highest index wins ties",
        "strata_kernels.index_blocks.reference",
        (
            (
                "mx.argsort(-masked, axis=-1)",
                "(blocks - 1 - mx.argsort(-masked[:, ::-1], axis=-1).astype(mx.int32))",
            ),
        ),
        case="ties",
    ),
)

_DELTA_NET = (
    Mistake(
        "gated norm with 1+",
        f"{MODEL}.gdn",
        (('weights.plain(f"{name}.norm', '1 + weights.plain(f"{name}.norm'),),
    ),
    Mistake(
        "gate silu for sigmoid",
        f"{MODEL}.gdn",
        (("if self.silu_gate", "if not self.silu_gate"),),
    ),
    Mistake(
        "gate before norm",
        "strata_kernels.norms.reference",
        (
            (
                "mx.fast.rms_norm(x.astype(mx.float32), None, eps).astype(scale.dtype)",
                "mx.fast.rms_norm(x.astype(mx.float32) * gate, None, eps)",
            ),
            ("(y.astype(mx.float32) * gate)", "y"),
        ),
    ),
    # With keys as long as usual the error is 5e-5, so these are made short.
    Mistake(
        "L2 eps on the mean",
        "strata_kernels.norms.reference",
        (("keepdims=True) + L2_EPS", "keepdims=True) + L2_EPS * x.shape[-1]"),),
        case="short_keys",
    ),
    Mistake(
        "q unscaled",
        f"{MODEL}.gdn",
        (("queries * self.key_dim**-0.5", "queries"),),
    ),
    Mistake(
        "value heads tiled over key heads",
        "strata_kernels.gated_delta.reference",
        (
            (
                "    groups = k.shape[1]",
                """    q, k = (mx.tile(a, (1, heads // k.shape[1], 1)) for a in (q, k))
    groups = k.shape[1]""",
            ),
        ),
    ),
    Mistake(
        "conv taps reversed",
        f"{MODEL}.gdn",
        (
            (
                'weights.taps(f"{name}.conv1d.weight")',
                'weights.taps(f"{name}.conv1d.weight")[::-1]',
            ),
        ),
    ),
    Mistake(
        "no silu after conv",
        f"{MODEL}.gdn",
        (("mixed * mx.sigmoid(mixed)", "mixed"),),
    ),
    Mistake(
        "decay after reading the memory",
        "strata_kernels.gated_delta.reference",
        (
            ("        state = state * alpha\n", ""),
            (
                "mx.addmm(state, step * error, key_row)",
                "mx.addmm(state * alpha, step * error, key_row)",
            ),
        ),
    ),
)

_STREAMS = (
    Mistake(
        "streams summed, not averaged",
        f"{MODEL}.mixer",
        (("normed).sum(axis=1)", "normed).sum(axis=1) * self.streams"),),
    ),
    Mistake(
        "raw streams mixed",
        f"{MODEL}.mixer",
        (("mix.reshape(h.shape) * normed", "mix.reshape(h.shape) * h / self.streams"),),
    ),
    Mistake(
        "norm over all streams",
        f"{MODEL}.mixer",
        (
            ('hc_norm.weight", heads=self.streams', 'hc_norm.weight"'),
            (
                "self.norm(h)",
                "self.norm(h.reshape(h.shape[0], -1)).reshape(h.shape)",
            ),
        ),
    ),
    Mistake(
        "no 1/C before silu",
        f"{MODEL}.mixer",
        (
            (
                "self.up(inner * mx.sigmoid(inner))",
                "self.up(self.streams * inner * mx.sigmoid(self.streams * inner))",
            ),
        ),
    ),
    Mistake(
        "injection without 2",
        f"{MODEL}.mixer",
        (("alpha=2.0", "alpha=1.0"),),
    ),
    Mistake(
        "embedding scaled by 1/C",
        f"{MODEL}.backend",
        (
            (
                "mx.repeat(row[:, None],",
                "mx.repeat(row[:, None] / self.config.hc_count,",
            ),
        ),
    ),
)

_EXPERTS = (
    Mistake(
        "no renormalisation",
        f"{MODEL}.moe",
        (("renormalise=self.renormalise", "renormalise=False"),),
    ),
    Mistake(
        "no shared gate",
        f"{MODEL}.moe",
        (("mx.sigmoid(gate) * ", ""),),
    ),
    Mistake(
        "gate and up swapped",
        "strata_kernels.experts.reference",
        (("gate * mx.sigmoid(gate) * up", "up * mx.sigmoid(up) * gate"),),
    ),
)

_PLE = (
    Mistake(
        "no EOS barrier",
        PLE_HASH,
        (("(eos if barred else token)", "token"),),
    ),
    Mistake(
        "order-3 hash without the order-2 term",
        PLE_HASH,
        (("mix ^= (", "mix = history[at] * factors[0] ^ ("),),
    ),
    Mistake(
        "no signed root",
        f"{MODEL}.ple",
        (("mx.sign(score) * mx.sqrt(mx.maximum(mx.abs(score), 1e-6))", "score"),),
    ),
    Mistake(
        "conv on un-normed value",
        f"{MODEL}.ple",
        (("history.run(committed, normed.", "history.run(committed, gated."),),
    ),
    Mistake(
        "dilation 1",
        f"{MODEL}.ple",
        (
            (
                "short_conv(rows, self.taps, dilation=self.dilation)",
                "short_conv(rows[1 - self.taps.shape[0] - h.shape[0] :], self.taps)",
            ),
        ),
    ),
    Mistake(
        "no silu after PLE's conv",
        f"{MODEL}.ple",
        (("(y * mx.sigmoid(y))", "y"),),
    ),
    Mistake(
        "PLE after the attention half",
        f"{MODEL}.layer",
        (
            (
                """h, history = self.ple(h, embedding, committed[0])
            pending, committed = (history,), committed[1:]""",
                "late, committed = committed[0], committed[1:]",
            ),
            (
                "        row, halves = self.expert_mixer(h)",
                """        if self.ple is not None and embedding is not None:
            h, history = self.ple(h, embedding, late)
            pending = (history,)
        row, halves = self.expert_mixer(h)""",
            ),
        ),
    ),
)

MISTAKES = (*_ATTENTION, *_DELTA_NET, *_STREAMS, *_EXPERTS, *_PLE)
