"""Hyper-connections: several residual streams mixed into one row and fed back."""

import mlx.core as mx

from strata_kernels.norms import rms_norm
from strata_nb.models.qwen4_exp.weights import Weights


class StreamMixer:
    """Reads one row from C streams and says how strongly to write back (spec 4)."""

    def __init__(self, weights: Weights, name: str, *, injects: bool) -> None:
        config = weights.config
        self.eps = config.rms_norm_eps
        self.streams = config.hc_count
        self.rank = config.hc_lowrank
        self.scale = weights.norm(f"{name}.hc_norm.weight", heads=self.streams)
        # The division by C is inside both nonlinearities, so it can go into the map.
        down = [f"{name}.input_mix_weight_down.weight"]
        if injects:
            down.append(f"{name}.block_inject_weight.weight")
        self.down = weights.linear(*down, divide=self.streams)
        self.up = weights.linear(f"{name}.input_mix_weight_up.weight")

    def __call__(self, h: mx.array) -> tuple[mx.array, mx.array]:
        """Mix the streams.

        Args:
            h: residual streams, [T, C, H].

        Returns:
            The mixed row, [T, H]; the strengths of the write, [T, C] (no columns in
            the final mixer).
        """
        normed = rms_norm(h, self.scale, eps=self.eps)
        low = self.down(normed.reshape(h.shape[0], -1))
        inner, writes = mx.split(low, [self.rank], axis=-1)
        mix = mx.sigmoid(self.up(inner * mx.sigmoid(inner)))
        row = (mix.reshape(h.shape) * normed).mean(axis=1)
        return row, 2 * mx.sigmoid(writes)


def write_back(h: mx.array, strengths: mx.array, y: mx.array) -> mx.array:
    """`h[t, c] + strengths[t, c] * y[t]`; [T, C, H]."""
    return mx.addmm(h, strengths[:, :, None], y[:, None, :])
