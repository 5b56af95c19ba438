"""Gated delta net: linear attention through a recurrent memory."""

from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels.norms import gated_rms_norm, l2_norm
from strata_kernels.short_conv import short_conv
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.parts import DeltaRows, GdnState, RowHistory


class Gdn:
    """The attention half of a linear layer (spec 6)."""

    def __init__(self, weights: Weights, layer: int, options: EngineOptions) -> None:
        config = weights.config
        name = f"layers.{layer}.linear_attn"
        self.eps = config.rms_norm_eps
        self.key_heads, self.key_dim = (
            config.linear_num_key_heads,
            config.linear_key_head_dim,
        )
        self.value_heads, self.value_dim = (
            config.linear_num_value_heads,
            config.linear_value_head_dim,
        )
        self.silu_gate = config.output_gate == "silu"
        self.keys_width = self.key_heads * self.key_dim
        self.values_width = self.value_heads * self.value_dim
        self.channels = 2 * self.keys_width + self.values_width
        widths = (self.channels, self.values_width, self.value_heads)
        self.borders = np.cumsum(widths).tolist()  # of qkv, z, b and a
        self.into = weights.linear(
            *(f"{name}.in_proj_{n}.weight" for n in ("qkv", "z", "b", "a"))
        )
        self.out = weights.linear(f"{name}.out_proj.weight")
        self.taps = weights.taps(f"{name}.conv1d.weight")
        self.scale = weights.plain(f"{name}.norm.weight")
        self.dt_bias = weights.wide(f"{name}.dt_bias")
        self.rate = -mx.exp(weights.wide(f"{name}.A_log"))
        mx.eval(self.rate)
        past = config.linear_conv_kernel_dim - 1
        self.parts = (
            options.vary(RowHistory("gdn_conv", past, self.channels, weights.dtype)),
            options.vary(
                GdnState(
                    self.value_heads,
                    self.value_dim,
                    self.key_dim,
                    lazy=options.fold == "lazy",
                    partial=options.partial,
                )
            ),
        )

    def __call__(
        self, x: mx.array, committed: tuple[Any, ...], *, head: bool
    ) -> tuple[mx.array, tuple[Any, ...]]:
        """Outputs [T, H] of rows [T, H], and what is pending."""
        history, memory = self.parts
        qkv, z, beta, step = mx.split(self.into(x), self.borders, axis=-1)
        rows, pending_rows = history.run(committed[0], qkv)
        mixed = short_conv(rows, self.taps)
        queries, delta = self._rows(mixed * mx.sigmoid(mixed), beta, step)
        outputs, pending_memory = memory.run(committed[1], queries, delta, head=head)
        wide = z.reshape(outputs.shape).astype(mx.float32)
        gate = mx.sigmoid(wide)
        if self.silu_gate:
            gate = wide * gate
        y = gated_rms_norm(outputs, self.scale, gate, eps=self.eps)
        return self.out(y.reshape(x.shape[0], -1)), (pending_rows, pending_memory)

    def _rows(
        self, mixed: mx.array, beta: mx.array, step: mx.array
    ) -> tuple[mx.array, DeltaRows]:
        """Scaled queries [T, Hk, Dk], and the other inputs of the recurrence."""
        count = mixed.shape[0]
        heads, values = mx.split(mixed, [2 * self.keys_width], axis=-1)
        unit = l2_norm(heads.reshape(count, -1, self.key_dim))
        queries, keys = mx.split(unit, 2, axis=1)
        # softplus, written so that it cannot overflow
        rate = mx.logaddexp(step.astype(mx.float32) + self.dt_bias, 0)
        rows = DeltaRows(
            k=keys,
            v=values.reshape(count, self.value_heads, -1).astype(mx.float32),
            decay=mx.exp(self.rate * rate),
            beta=mx.sigmoid(beta).astype(mx.float32),
        )
        return queries * self.key_dim**-0.5, rows
