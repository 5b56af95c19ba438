"""PLE: hashed n-gram embeddings, gated by the streams and convolved."""

import mlx.core as mx
import numpy as np

from strata_kernels.norms import RmsNorm
from strata_kernels.short_conv import short_conv
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.parts import RowHistory


class Ple:
    """Adds an n-gram's embedding to every stream, first thing in a layer (spec 5)."""

    def __init__(self, weights: Weights, layer: int, options: EngineOptions) -> None:
        config = weights.config
        name = f"layers.{layer}.ple"
        streams, self.hidden = config.hc_count, config.hidden_size
        self.table = weights.checkpoint.ple(config.ple_layers.index(layer))
        self.dtype = weights.dtype
        self.width = streams * self.hidden
        self.project = weights.linear(
            f"{name}.key_proj.weight", f"{name}.value_proj.weight"
        )
        self.key_norm, self.query_norm, self.conv_norm = (
            RmsNorm(
                weights.norm(f"{name}.norm_{n}.weight", heads=streams),
                eps=config.rms_norm_eps,
            )
            for n in ("key", "query", "conv")
        )
        self.taps = weights.taps(f"{name}.conv1d.weight")
        self.dilation = config.ngram_size
        past = (config.ple_conv_kernel_size - 1) * self.dilation
        self.parts = (
            options.vary(RowHistory("ple_conv", past, self.width, self.dtype)),
        )

    def embed(self, context: tuple[int, ...], ids: tuple[int, ...]) -> mx.array:
        """The concatenated n-gram embeddings of the window, [T, D_p].

        Hashing is on the host, where the table's rows are read one by one.
        """
        rows = self.table.rows(self.table.hash(context, ids))
        flat = np.ascontiguousarray(rows.reshape(len(ids), -1))
        return mx.array(flat).astype(self.dtype)

    def __call__(
        self, h: mx.array, embedding: mx.array, committed: mx.array
    ) -> tuple[mx.array, mx.array]:
        """The streams with the embedding added, and the pending history.

        Args:
            h: streams as they enter the layer, [T, C, H].
            embedding: [T, D_p].
            committed: history of the convolution.
        """
        projected = self.project(embedding)
        keys = self.key_norm(projected[:, : self.width].reshape(h.shape))
        queries = self.query_norm(h)
        score = (keys * queries).sum(axis=-1, keepdims=True) * self.hidden**-0.5
        score = mx.sign(score) * mx.sqrt(mx.maximum(mx.abs(score), 1e-6))
        gated = mx.sigmoid(score) * projected[:, None, self.width :]  # [T, C, H]
        normed = self.conv_norm(gated)
        (history,) = self.parts
        rows, pending = history.run(committed, normed.reshape(h.shape[0], -1))
        y = short_conv(rows, self.taps, dilation=self.dilation)
        added = gated + (y * mx.sigmoid(y)).reshape(h.shape)
        return h + added, pending
