"""A defect of one kernel's text, where another text computes the same."""

from dataclasses import dataclass

from strata_kernels._prelude import Kernel
from strata_kernels.route.launch import FUSED
from strata_nb.faults.defect import Defect


@dataclass(frozen=True, kw_only=True)
class KernelFault(Defect):
    """One edit of the fused router; `gates.run("gate_2", fault=...)` takes its name.

    Attributes:
        old: what the sound text says, once.
        new: what the faulty one says in its place.
    """

    planted_by = "gates.run('gate_2', fault=..., only='*/routers/*')"

    old: str
    new: str
    part: str = "experts"
    families: tuple[str, ...] = ("routers",)

    def fused(self) -> Kernel:
        """The fused router with the defect in it."""
        return FUSED.changed(self.old, self.new)


FAULTS = (
    KernelFault(
        name="routers_differ",
        what="drafts compete with the root's bonus where the router is fused, and with "
        "their own where it is not: one text was changed and not the other",
        shows="under a bonus that drafts have of their own",
        report="https://github.com/flashinfer-ai/flashinfer/pull/3590",
        old="settings[row == 0 ? 2 : 5]",
        new="settings[2]",
    ),
)
