"""Norms in plain MLX; the arithmetic is float32 whatever the dtype of the rows."""

import mlx.core as mx

L2_EPS = 1e-6


class RmsNorm:
    """Divide by the root mean square of the last axis, then multiply by a scale.

    Args:
        scale: float32 [..., D], broadcast over the rows; the caller has added the 1 of
            a zero-centred weight.
        eps: added to the mean of squares, under the root.
    """

    def __init__(self, scale: mx.array, *, eps: float) -> None:
        size = scale.shape[-1]
        # The mean's 1 / D moves into the scale and the epsilon: two operations fewer.
        self._scale = scale * size**0.5
        self._eps = eps * size
        mx.eval(self._scale)

    @property
    def on_squares(self) -> tuple[mx.array, float]:
        """Scale and epsilon for `x / sqrt(sum of squares + epsilon) * scale`."""
        return self._scale, self._eps

    def __call__(self, x: mx.array) -> mx.array:
        """Rows [..., D], in their own dtype: rounded once, after the product."""
        wide = x.astype(mx.float32)
        root = mx.rsqrt(mx.square(wide).sum(axis=-1, keepdims=True) + self._eps)
        return mx.multiply(wide * root, self._scale).astype(x.dtype)


def l2_norm(x: mx.array) -> mx.array:
    """`x / sqrt(sum(x^2) + 1e-6)` over the last axis [..., D]; float32 out."""
    wide = x.astype(mx.float32)
    return wide * mx.rsqrt(mx.square(wide).sum(axis=-1, keepdims=True) + L2_EPS)


def gated_rms_norm(
    x: mx.array, scale: mx.array, gate: mx.array, *, eps: float
) -> mx.array:
    """Norm first, gate second: `rms(x) * scale * gate`.

    Args:
        x: float32 outputs of the recurrence, [..., D].
        scale: one-centred weight, [D]: nothing is added to it.
        gate: the activated gate, float32, [..., D].
        eps: added to the mean of squares, under the root.

    Returns:
        [..., D] in the dtype of `scale`; the norm is rounded to it before the product.
    """
    y = mx.fast.rms_norm(x.astype(mx.float32), None, eps).astype(scale.dtype) * scale
    return (y.astype(mx.float32) * gate).astype(scale.dtype)
