"""Attention of each row over its own list of cells."""

from strata_kernels.block_attention.reference import attend

__all__ = ["attend"]
