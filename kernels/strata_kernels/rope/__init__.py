"""Rotary positions: half-split rotation of the first features of a head."""

from strata_kernels.rope.reference import Angles, angles, rotate

__all__ = ["Angles", "angles", "rotate"]
