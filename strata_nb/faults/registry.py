"""All faults by name; the room that builds a part adds the faults of that part."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from strata_nb.faults import (
    draft_head,
    drafters,
    embeddings,
    experts,
    indexer,
    kernels,
    key_values,
    penalties,
    recurrence,
    routing,
    sampling,
)
from strata_nb.faults.defect import Defect
from strata_nb.faults.experts import ExpertFault
from strata_nb.faults.fault import Fault
from strata_nb.faults.kernels import KernelFault
from strata_nb.faults.policy import PolicyFault
from strata_nb.faults.routing import RoutingFault

Kind = TypeVar("Kind", bound=Defect)


def _by_name(*groups: Iterable[Kind]) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for fault in (f for group in groups for f in group):
        if fault.name in found:
            raise ValueError(f"two faults are named {fault.name!r}; rename one")
        found[fault.name] = fault
    return found


_faults = _by_name(
    embeddings.FAULTS,
    recurrence.FAULTS,
    key_values.FAULTS,
    indexer.FAULTS,
    draft_head.FAULTS,
)
FAULTS: Mapping[str, Fault] = MappingProxyType(_faults)
"""Those of the engine's parts, and those that were registered."""

POLICY_FAULTS: Mapping[str, PolicyFault] = MappingProxyType(
    _by_name(drafters.FAULTS, penalties.FAULTS, sampling.FAULTS)
)
"""Those of what surrounds an engine: a session has it, an engine alone does not."""

EXPERT_FAULTS: Mapping[str, ExpertFault] = MappingProxyType(_by_name(experts.FAULTS))
"""Those of experts in slots: a model that is loaded so has it."""

ROUTING_FAULTS: Mapping[str, RoutingFault] = MappingProxyType(_by_name(routing.FAULTS))
"""Those of approximate routings."""

KERNEL_FAULTS: Mapping[str, KernelFault] = MappingProxyType(_by_name(kernels.FAULTS))
"""Those of one kernel's text: the gates have it beside another text."""

_defects: dict[str, Defect] = _by_name(
    FAULTS.values(),
    EXPERT_FAULTS.values(),
    ROUTING_FAULTS.values(),
    KERNEL_FAULTS.values(),
    POLICY_FAULTS.values(),
)
DEFECTS: Mapping[str, Defect] = MappingProxyType(_defects)
"""All of them."""

# Each part has a fault here, so these are the parts that a fault can be in.
_PARTS = tuple(dict.fromkeys(fault.part for fault in _faults.values()))
_PACKAGE = frozenset(_defects)


def register(fault: Fault) -> Fault:
    """Add a fault of your own; engines, sessions and gates then know its name.

    It is known in this process alone, so leave a gate's `processes` at 1. A fault of
    yours that has the name already is replaced, so that a cell can run again; engines
    made with it stay as they are.

    Returns:
        `fault`.

    Raises:
        TypeError: it is no `Fault`.
        ValueError: its name is no word or a fault of the package has it, or no part
            of a model is called so.
    """
    if not isinstance(fault, Fault):
        raise TypeError(
            f"wanted a Fault of a part, got {type(fault).__name__}; make one with "
            "`Fault(name=..., part=..., what=..., shows=..., variant=...)`"
        )
    if not fault.name.isidentifier():
        raise ValueError(
            f"a fault is asked for by one word of letters, digits and _, got "
            f"{fault.name!r}; rename it"
        )
    _refuse_ours(fault.name)
    if fault.part not in _PARTS:
        raise ValueError(
            f"no part is named {fault.part!r}, so the fault {fault.name!r} would never "
            f"act; wanted one of {', '.join(_PARTS)}"
        )
    _faults[fault.name] = _defects[fault.name] = fault
    return fault


def withdraw(name: str) -> None:
    """Take out a fault that was registered; engines made with it stay as they are.

    Raises:
        ValueError: there is none, or it is one of the package.
    """
    find(name)
    _refuse_ours(name)
    del _faults[name], _defects[name]


def _refuse_ours(name: str) -> None:
    if name in _PACKAGE:
        raise ValueError(
            f"{name!r} is a fault of the package and stays; give yours another name"
        )


def find(name: str) -> Defect:
    """The defect called `name`, of a part or of a policy.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name not in DEFECTS:
        raise ValueError(
            f"no fault is named {name!r}; wanted one of {', '.join(DEFECTS)}"
        )
    return DEFECTS[name]


def of_part(name: str) -> Fault:
    """The fault called `name`, for an engine.

    Raises:
        ValueError: there is none, or an engine alone has nothing in which it could be.
    """
    fault = find(name)
    if not isinstance(fault, Fault):
        raise _elsewhere(fault, "which an engine alone does not have")
    return fault


def of_experts(name: str) -> ExpertFault:
    """The fault called `name`, for experts in slots.

    Raises:
        ValueError: there is none, or it is elsewhere.
    """
    fault = find(name)
    if not isinstance(fault, ExpertFault):
        raise _elsewhere(fault, "and not in the slots of experts")
    return fault


def _elsewhere(fault: Defect, but: str) -> ValueError:
    return ValueError(
        f"the fault {fault.name!r} is in the {fault.part}, {but}; plant it with "
        f"`{fault.planted_by}`"
    )
