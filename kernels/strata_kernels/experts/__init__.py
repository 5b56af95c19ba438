"""The chosen experts of each row, applied and summed."""

from strata_kernels.experts.reference import (
    Matrices,
    Quantised,
    apply_experts,
    mix_experts,
    mix_outputs,
    swiglu,
)

__all__ = [
    "Matrices",
    "Quantised",
    "apply_experts",
    "mix_experts",
    "mix_outputs",
    "swiglu",
]
