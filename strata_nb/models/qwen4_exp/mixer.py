"""Hyper-connections: several residual streams mixed into one row and fed back."""

import mlx.core as mx

from strata_kernels.norms import RmsNorm
from strata_nb.models.qwen4_exp.weights import Weights


class StreamMixer:
    """Reads one row from C streams and says how strongly to write back (spec 4)."""

    def __init__(self, weights: Weights, name: str, *, injects: bool) -> None:
        config = weights.config
        self.streams = config.hc_count
        self.rank = config.hc_lowrank
        # Everything that reads the normed streams divides by C: the scale does it once.
        scale = weights.norm(f"{name}.hc_norm.weight", heads=self.streams)
        self.norm = RmsNorm(scale / self.streams, eps=config.rms_norm_eps)
        down = [f"{name}.input_mix_weight_down.weight"]
        if injects:
            down.append(f"{name}.block_inject_weight.weight")
        self.down = weights.linear(*down)
        self.up = weights.linear(f"{name}.input_mix_weight_up.weight")

    def __call__(self, h: mx.array) -> tuple[mx.array, mx.array]:
        """Mix the streams.

        Args:
            h: residual streams, [T, C, H].

        Returns:
            The mixed row, [T, H]; half the strengths of the write, [T, C] (no columns
            in the final mixer).
        """
        normed = self.norm(h)
        low = self.down(normed.reshape(h.shape[0], -1))
        inner, writes = mx.split(low, [self.rank], axis=-1)
        mix = mx.sigmoid(self.up(inner * mx.sigmoid(inner)))
        row = (mix.reshape(h.shape) * normed).sum(axis=1)
        return row, mx.sigmoid(writes)


def write_back(h: mx.array, halves: mx.array, y: mx.array) -> mx.array:
    """`h[t, c] + 2 halves[t, c] * y[t]`; [T, C, H]."""
    return mx.addmm(h, halves[:, :, None], y[:, None, :], alpha=2.0)
