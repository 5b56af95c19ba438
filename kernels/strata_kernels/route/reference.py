"""Routing by a stable sort: the lower expert wins a tie."""

import mlx.core as mx


def route(
    logits: mx.array, *, top_k: int, renormalise: bool
) -> tuple[mx.array, mx.array]:
    """The `top_k` most probable experts of each row, strongest first.

    Args:
        logits: router logits, [T, E].
        top_k: experts a row, K.
        renormalise: divide the chosen probabilities by their sum.

    Returns:
        Expert numbers, uint32 [T, K], and their weights, [T, K] in the logits' dtype.
    """
    wide = logits.astype(mx.float32)
    # `argsort` is stable, `argpartition` has no order among equals.
    chosen = mx.argsort(-wide, axis=-1)[:, :top_k]
    # Over all experts: a NaN among those not chosen must not hide.
    everyone = mx.softmax(wide, axis=-1, precise=True)
    weights = mx.take_along_axis(everyone, chosen, axis=-1)
    if renormalise:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return chosen, weights.astype(logits.dtype)
