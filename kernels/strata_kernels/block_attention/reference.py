"""Masked softmax attention, grouped queries, keys shared or listed row by row."""

import mlx.core as mx


def attend(q: mx.array, k: mx.array, v: mx.array, visible: mx.array) -> mx.array:
    """Softmax attention over W listed cells.

    Args:
        q: queries, [T, Hq, D].
        k, v: [W, Hkv, D] when all rows list the same cells, else [T, W, Hkv, D];
            Hq is a multiple of Hkv and consecutive query heads share one.
        visible: bool [T, W]; each row sees at least one cell.

    Returns:
        [T, Hq, D] in the dtype of `v`.
    """
    rows, heads, size = q.shape
    kv_heads = k.shape[-2]
    if k.ndim == 3:
        k, v = k[None], v[None]
    # [T or 1, Hkv, W, D]; the rows then join the group axis when the cells are shared.
    k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
    grouped = q.reshape(rows, kv_heads, heads // kv_heads, size)
    scores = (grouped @ k.swapaxes(-1, -2)).astype(mx.float32) * size**-0.5
    scores = mx.where(visible[:, None, None, :], scores, -mx.inf)
    weights = mx.softmax(scores, axis=-1, precise=True).astype(v.dtype)
    return (weights @ v).reshape(rows, heads, size)
