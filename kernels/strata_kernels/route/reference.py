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
    chosen = strongest(logits, top_k=top_k)
    return chosen, shares(logits, chosen, renormalise=renormalise)


def strongest(logits: mx.array, *, top_k: int) -> mx.array:
    """The `top_k` most probable experts of each row by rank, uint32 [T, K].

    Args:
        logits: router logits, [T, E].
        top_k: experts a row, K.
    """
    # `argsort` is stable, `argpartition` has no order among equals.
    return mx.argsort(-logits.astype(mx.float32), axis=-1)[:, :top_k]


def shares(
    logits: mx.array,
    chosen: mx.array,
    *,
    renormalise: bool,
    used: mx.array | None = None,
) -> mx.array:
    """The weights of chosen experts, [T, K] in the logits' dtype.

    Args:
        logits: router logits, [T, E].
        chosen: expert numbers, [T, K].
        renormalise: divide the chosen probabilities by their sum.
        used: bool [T, K], places that count; the others weigh 0, and so do all of a
            row that uses none. None: all count.
    """
    # Over all experts: a NaN among those not chosen must not hide.
    everyone = mx.softmax(logits.astype(mx.float32), axis=-1, precise=True)
    weights = mx.take_along_axis(everyone, chosen, axis=-1)
    if used is not None:
        # A product, so that a NaN does not hide in a place that is not used.
        weights = weights * used
    if renormalise:
        total = weights.sum(axis=-1, keepdims=True)
        if used is not None:
            total = mx.where(total == 0, 1.0, total)
        weights = weights / total
    return weights.astype(logits.dtype)
