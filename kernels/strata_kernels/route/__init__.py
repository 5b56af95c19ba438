"""Choosing experts: the top k of the router's logits and their weights."""

import mlx.core as mx

from strata_kernels._select import choice
from strata_kernels.route.launch import choose_kernel, fits
from strata_kernels.route.reference import route, shares
from strata_kernels.route.reference import strongest as strongest_reference

__all__ = ["route", "shares", "strongest", "strongest_reference"]


def strongest(logits: mx.array, *, top_k: int) -> mx.array:
    """`strongest_reference`, by the kernel that STRATA_KERNELS chooses; same numbers.

    Args:
        logits: router logits, [T, E].
        top_k: experts a row, K.
    """
    where = choice()
    if where == "reference" or not fits(logits.shape[1], top_k):
        return strongest_reference(logits, top_k=top_k)
    wide = logits.astype(mx.float32)
    ids, _ = choose_kernel(wide, top_k=top_k, renormalise=False, target=where)
    return ids.astype(mx.uint32)
