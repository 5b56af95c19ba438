"""The chosen experts of each row, applied and summed."""

from strata_kernels.experts.reference import mix_experts, swiglu

__all__ = ["mix_experts", "swiglu"]
