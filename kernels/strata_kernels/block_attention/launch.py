"""The kernels that attend over listed cells where they lie, without a copy of them."""

from functools import lru_cache

import mlx.core as mx

from strata_kernels._prelude import Kernel, Launch
from strata_kernels._prelude.kernel import Target

ATTEND = Kernel.read(
    __file__,
    "attend",
    inputs=("q", "k", "v", "cells", "sizes", "scale"),
    outputs=("mixes", "most", "sums"),
)
JOIN = Kernel.read(__file__, "join", inputs=("mixes", "most", "sums"), outputs=("y",))
# Into which a row's cells are divided: always as many, so that a row's numbers do not
# depend on its window.
STREAMS = 64
_JOIN_SIMDGROUPS = 4


def attend_kernel(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    cells: mx.array,
    *,
    target: Target,
    kernel: Kernel = ATTEND,
    join: Kernel = JOIN,
) -> mx.array:
    """`attend` of float32 rows over cells of the whole context.

    Args:
        q: queries, [T, Hq, D]; D at most 512.
        k, v: of all cells, [n, Hkv, D].
        cells: what each row lists, int32 [T, W]; -1 where it sees none; each row sees
            at least one.
        target: where.
        kernel, join: other texts, for tests.

    Returns:
        [T, Hq, D].
    """
    rows, heads, size = q.shape
    kv_heads, streams = k.shape[1], (rows * heads, STREAMS)
    constants = {"HQ": heads, "HKV": kv_heads, "D": size, "STREAMS": STREAMS}
    outputs = [((*streams, size), mx.float32), *[(streams, mx.float32)] * 2]
    launch = Launch(rows * kv_heads * STREAMS, 1, constants, outputs)
    arrays = [q, k, v, cells, *_numbers(cells.shape[1], size)]
    parts = kernel(arrays, launch, target=target)
    constants = {"D": size, "STREAMS": STREAMS, "SIMDGROUPS": _JOIN_SIMDGROUPS}
    outputs = [((rows, heads, size), mx.float32)]
    launch = Launch(rows * heads, _JOIN_SIMDGROUPS, constants, outputs)
    (y,) = join(parts, launch, target=target)
    return y


@lru_cache(maxsize=256)
def _numbers(listed: int, size: int) -> tuple[mx.array, mx.array]:
    scale = mx.array([size**-0.5], dtype=mx.float32)
    return mx.array([listed], dtype=mx.int32), scale
