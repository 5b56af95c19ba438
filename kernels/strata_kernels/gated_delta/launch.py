"""The kernels' launches, and MLX's own kernel for the recurrence."""

from functools import lru_cache
from typing import NamedTuple

import mlx.core as mx

from strata_kernels._prelude import Kernel, Launch
from strata_kernels._prelude.kernel import Target

MOST_ROWS = 8
# MLX passes smaller arrays in another memory than the helpers read.
_LEAST_NUMBERS = 8

WINDOW = Kernel.read(
    __file__,
    "window",
    headers=("row.h",),
    inputs=("q", "k", "v", "decay", "beta", "state"),
    outputs=("y", "root", "last"),
)
REPLAY = Kernel.read(
    __file__,
    "replay",
    headers=("row.h",),
    inputs=("k", "v", "decay", "beta", "state", "span"),
    outputs=("last",),
)


class Sizes(NamedTuple):
    """Key heads, value heads and the size of each head."""

    key_heads: int
    value_heads: int
    value_dim: int
    key_dim: int

    @classmethod
    def of(cls, k: mx.array, v: mx.array) -> "Sizes":
        """From keys [T, Hk, Dk] and values [T, Hv, Dv]."""
        return cls(k.shape[1], v.shape[1], v.shape[2], k.shape[2])

    def launch(self, *, rows: int | None) -> Launch:
        """The launch for `rows` rows; None: of a replay, which is the same for all."""
        heads, value_dim, key_dim = self.value_heads, self.value_dim, self.key_dim
        places = heads * value_dim
        simdgroups = next(n for n in (4, 2, 1) if places % n == 0)
        constants = {
            "HK": self.key_heads,
            "HV": heads,
            "DV": value_dim,
            "DK": key_dim,
            "SIMDGROUPS": simdgroups,
        }
        memory = ((heads, value_dim, key_dim), mx.float32)
        if rows is None:
            return Launch(places // simdgroups, simdgroups, constants, [memory])
        outputs = [((rows, heads, value_dim), mx.float32), memory, memory]
        constants = {"ROWS": rows, **constants}
        return Launch(places // simdgroups, simdgroups, constants, outputs)


def fits(k: mx.array) -> bool:
    """Whether the kernels take keys [T, Hk, Dk]: a row of at least 8 numbers."""
    return k.shape[1] * k.shape[2] >= _LEAST_NUMBERS


def window_kernel(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
    *,
    target: Target,
    kernel: Kernel = WINDOW,
) -> tuple[mx.array, mx.array, mx.array]:
    """`gated_delta_reference` for 1 to 8 rows, and the state after row 0.

    Returns:
        Outputs, float32 [T, Hv, Dv]; the state after row 0; the state after row T.
    """
    launch = Sizes.of(k, v).launch(rows=v.shape[0])
    arrays = (q, k, v, decay, beta, state)
    y, root, last = kernel(arrays, launch, target=target)
    return y, root, last


def replay_kernel(
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
    *,
    target: Target,
    first: int = 0,
    keep: int | None = None,
    kernel: Kernel = REPLAY,
) -> mx.array:
    """The state after rows `first` to `keep` - 1, the bits of `window_kernel`.

    Args:
        k, v, decay, beta, state: as in `gated_delta_reference`.
        target: where.
        first: the first row that `state` lacks.
        keep: rows that are kept; None: all.
        kernel: another text, for tests.
    """
    span = _span(first, v.shape[0] if keep is None else keep)
    launch = Sizes.of(k, v).launch(rows=None)
    (last,) = kernel((k, v, decay, beta, state, span), launch, target=target)
    return last


@lru_cache(maxsize=128)
def _span(first: int, end: int) -> mx.array:
    return mx.array([first, end], dtype=mx.int32)


def gated_delta_fast(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array]:
    """`gated_delta_reference` through `mx.fast`; the same shapes and meaning."""
    outputs, last = mx.fast.gated_delta_update(
        q[None], k[None], v[None], decay[None], beta[None], state[None]
    )
    return outputs[0], last[0]
