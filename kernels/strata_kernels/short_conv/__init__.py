"""A short causal convolution of each channel with its own past."""

from strata_kernels.short_conv.reference import short_conv

__all__ = ["short_conv"]
