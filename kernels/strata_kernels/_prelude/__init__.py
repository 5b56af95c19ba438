"""One text of a kernel for Metal, for CUDA, and for a check on the host."""

from strata_kernels._prelude.kernel import Kernel, KernelError, Launch

__all__ = ["Kernel", "KernelError", "Launch"]
