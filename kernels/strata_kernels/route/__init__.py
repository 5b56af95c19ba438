"""Choosing experts: the top k of the router's logits and their weights."""

from strata_kernels.route.reference import route

__all__ = ["route"]
