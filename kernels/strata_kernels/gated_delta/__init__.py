"""The gated delta rule: a memory that decays, is corrected, and is read."""

from strata_kernels.gated_delta.launch import gated_delta
from strata_kernels.gated_delta.reference import gated_delta_reference

__all__ = ["gated_delta", "gated_delta_reference"]
