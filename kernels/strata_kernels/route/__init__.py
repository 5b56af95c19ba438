"""Choosing experts: the top k of the router's logits and their weights.

The engine's choice is the reference: on an H200 a stable sort takes half the time of
the kernel. The kernels are worth their launch where union and plan are wanted too.
"""

from strata_kernels.route.reference import route, shares, strongest

__all__ = ["route", "shares", "strongest"]
