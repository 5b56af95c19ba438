"""The small functions that every block uses, each as the specification writes it."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def sigmoid(x: Array) -> Array:
    """The logistic function, as a log-sum: no overflow, small values keep digits."""
    return np.exp(-np.logaddexp(0.0, -x))


def silu(x: Array) -> Array:
    """Each x times its sigmoid."""
    return x * sigmoid(x)


def gated(gate: Array, up: Array) -> Array:
    """The features between the products of an expert (spec 8)."""
    return silu(gate) * up


ACTIVATIONS = {"silu": silu, "sigmoid": sigmoid}


def softmax(x: Array) -> Array:
    """Softmax over the last axis."""
    powers: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    total: Array = powers.sum(axis=-1, keepdims=True)
    return powers / total


def normed(x: Array, eps: float) -> Array:
    """X / sqrt(mean(x^2) + eps) over the last axis, without a weight."""
    mean_square: Array = (x * x).mean(axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + eps)


def rms1(x: Array, weight: Array, eps: float) -> Array:
    """RMS_1 of spec 3: the weight is stored zero-centred.

    The grouped form is the same for x [C, H]: C separate means, C·H weights.
    """
    weights = weight.reshape(x.shape) if weight.size == x.size else weight
    return normed(x, eps) * (1.0 + weights)


def l2(x: Array) -> Array:
    """L2 of spec 3: its eps is fixed and stands under the root, on the sum."""
    square_sum: Array = (x * x).sum(axis=-1, keepdims=True)
    return x / np.sqrt(square_sum + 1e-6)


def conv(weight: Array, rows: Array, *, dilation: int = 1) -> Array:
    """The newest output [F] of a causal depthwise convolution (spec 5.4 and 6).

    The last tap of weight [F, 1, taps] meets the newest of rows [n, F], and each tap
    before it a row `dilation` earlier; n is (taps - 1) · dilation + 1.
    """
    y: Array = (weight[:, 0, :].T * rows[::dilation]).sum(axis=0)
    return y


def applied(matrices: Array, vectors: Array) -> Array:
    """One matrix-vector product per head or expert: [H, m, n], [H, n] to [H, m]."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def appended(rows: Array, row: Array) -> Array:
    """A new array: `rows` [n, ...], then `row` [...]."""
    return np.concatenate([rows, row[None]])


def highest(scores: Array, count: int) -> Indices:
    """Indices of the `count` highest scores, best first; ties: the lower index wins."""
    return np.argsort(-scores, kind="stable")[:count]


def rope(x: Array, position: int, theta: float, rotary_dim: int) -> Array:
    """Turn the first `rotary_dim` features of heads x [..., D], half-split (spec 7)."""
    # Three roundings to float32, the model's own; far positions tell the difference.
    powers = theta ** (np.arange(0, rotary_dim, 2) / rotary_dim)
    frequencies = np.float32(1.0) / powers.astype(np.float32)
    angle = (np.float32(position) * frequencies).astype(np.float64)
    cos, sin = np.cos(angle), np.sin(angle)
    left, right, rest = np.split(x, [rotary_dim // 2, rotary_dim], axis=-1)
    turned = [left * cos - right * sin, right * cos + left * sin, rest]
    return np.concatenate(turned, axis=-1)
