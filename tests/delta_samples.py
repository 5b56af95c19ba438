"""Inputs of the gated delta rule, as the layer makes them."""

from typing import Any

import mlx.core as mx
import numpy as np


def delta_sample(
    rows: int, *, heads: tuple[int, int], dims: tuple[int, int], seed: int = 0
) -> list[mx.array]:
    """Queries, keys, values, decay, beta and a state; float32.

    Args:
        rows: T.
        heads: of keys and of values.
        dims: of values and of keys.
        seed: of the numbers.
    """
    rng = np.random.default_rng(seed)
    (hk, hv), (dv, dk) = heads, dims
    q, k = rng.normal(size=(2, rows, hk, dk))
    made: list[Any] = [a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, k)]
    made += [
        rng.normal(size=(rows, hv, dv)),
        rng.uniform(0.5, 1, (rows, hv)),
        rng.uniform(0, 1, (rows, hv)),
        rng.normal(size=(hv, dv, dk)),
    ]
    return [mx.array(a.astype(np.float32)) for a in made]
