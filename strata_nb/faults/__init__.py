"""Defects to switch on: variants of a part on the real engine, or of a policy.

`model.engine(fault="qsa_ring")` plants one of a part, `Session(model, fault=...)` one
of a policy too, `load(..., experts=Streaming(...), fault=...)` one of experts in slots.
None is on unless it is asked for.

One of your own is a part that does something wrong:

    class Forgetful(RowHistory):
        def commit(self, committed, pending, *, keep):
            return committed

    fault = Fault(
        name="forgetful",
        part="gdn_conv",
        what="the history of the convolution never moves",
        shows="after every window",
        variant=extending(Forgetful),
    )
    register(fault)  # model.engine(fault="forgetful"), gates.run(fault="forgetful")
"""

from strata_nb.faults.defect import Defect
from strata_nb.faults.experts import ExpertFault
from strata_nb.faults.fault import Fault
from strata_nb.faults.kernels import KernelFault
from strata_nb.faults.policy import PolicyFault
from strata_nb.faults.registry import (
    DEFECTS,
    EXPERT_FAULTS,
    FAULTS,
    KERNEL_FAULTS,
    POLICY_FAULTS,
    ROUTING_FAULTS,
    find,
    of_experts,
    of_part,
    register,
    withdraw,
)
from strata_nb.faults.variant import extending

__all__ = [
    "DEFECTS",
    "EXPERT_FAULTS",
    "FAULTS",
    "KERNEL_FAULTS",
    "POLICY_FAULTS",
    "ROUTING_FAULTS",
    "Defect",
    "ExpertFault",
    "Fault",
    "KernelFault",
    "PolicyFault",
    "extending",
    "find",
    "of_experts",
    "of_part",
    "register",
    "withdraw",
]
