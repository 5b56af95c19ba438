"""Root-mean-square norms: zero-centred, gated, and the L2 norm of a head."""

from strata_kernels.norms.reference import RmsNorm, gated_rms_norm, l2_norm

__all__ = ["RmsNorm", "gated_rms_norm", "l2_norm"]
