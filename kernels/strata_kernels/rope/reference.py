"""Angles on the host, once for all heads and layers; the rotation in plain MLX."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt


class Angles(NamedTuple):
    """Cosines and sines of T positions, each pair twice: float32 [T, 1, dims]."""

    cos: mx.array
    sin: mx.array


def angles(positions: npt.ArrayLike, *, dims: int, theta: float) -> Angles:
    """Angles `p * theta^(-2i / dims)`, rounded as float32 products.

    Args:
        positions: absolute positions, int [T].
        dims: rotated features of a head, even.
        theta: base of the frequencies.
    """
    power = 2 * np.arange(dims // 2) / dims
    # Periods in float64, rounded once: a float32 power drifts with the position.
    frequencies = np.float32(1) / (theta**power).astype(np.float32)
    turned = np.asarray(positions, dtype=np.float32)[:, None] * frequencies
    both = np.concatenate([turned, turned], axis=1)[:, None, :]
    return Angles(mx.array(np.cos(both)), mx.array(np.sin(both)))


def rotate(x: mx.array, angles: Angles) -> mx.array:
    """Turn pairs (i, i + dims / 2) of the first `dims` features; the rest pass.

    Args:
        x: [T, heads, D], D at least `dims`.
        angles: of the T rows.
    """
    dims = angles.cos.shape[-1]
    first, second, rest = mx.split(x, [dims // 2, dims], axis=-1)
    turned = mx.concatenate([first, second], axis=-1) * angles.cos.astype(x.dtype)
    across = mx.concatenate([-second, first], axis=-1) * angles.sin.astype(x.dtype)
    return mx.concatenate([turned + across, rest], axis=-1)
