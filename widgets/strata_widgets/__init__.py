"""What a person sees: views of a trace and an engine."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strata_widgets._base import StrataWidget
    from strata_widgets.acceptance import Acceptance
    from strata_widgets.economics import Economics
    from strata_widgets.exercise import Exercise
    from strata_widgets.expert_map import ExpertMap
    from strata_widgets.fault_switch import FaultSwitch
    from strata_widgets.fold import FoldView
    from strata_widgets.gate_board import GateBoard
    from strata_widgets.histories import Histories
    from strata_widgets.length_rule import LengthRule
    from strata_widgets.live_chart import LiveChart
    from strata_widgets.live_run import LiveRun
    from strata_widgets.qsa_tail import TailView
    from strata_widgets.selection import link
    from strata_widgets.slots_io import SlotsAndIO
    from strata_widgets.state_diff import StateDiff
    from strata_widgets.stepper import Stepper
    from strata_widgets.still import Still
    from strata_widgets.timeline import Timeline

__all__ = [
    "Acceptance",
    "Economics",
    "Exercise",
    "ExpertMap",
    "FaultSwitch",
    "FoldView",
    "GateBoard",
    "Histories",
    "LengthRule",
    "LiveChart",
    "LiveRun",
    "SlotsAndIO",
    "StateDiff",
    "Stepper",
    "Still",
    "StrataWidget",
    "TailView",
    "Timeline",
    "link",
]

_HOME = {
    "Acceptance": "strata_widgets.acceptance",
    "Economics": "strata_widgets.economics",
    "Exercise": "strata_widgets.exercise",
    "ExpertMap": "strata_widgets.expert_map",
    "FaultSwitch": "strata_widgets.fault_switch",
    "FoldView": "strata_widgets.fold",
    "GateBoard": "strata_widgets.gate_board",
    "Histories": "strata_widgets.histories",
    "LengthRule": "strata_widgets.length_rule",
    "LiveChart": "strata_widgets.live_chart",
    "LiveRun": "strata_widgets.live_run",
    "SlotsAndIO": "strata_widgets.slots_io",
    "StateDiff": "strata_widgets.state_diff",
    "Stepper": "strata_widgets.stepper",
    "Still": "strata_widgets.still",
    "StrataWidget": "strata_widgets._base",
    "TailView": "strata_widgets.qsa_tail",
    "Timeline": "strata_widgets.timeline",
    "link": "strata_widgets.selection",
}


def _import_jsonschema() -> None:
    """Import what Altair needs without what no chart needs.

    Where JupyterLab is installed, jsonschema loads a checker of international web
    addresses. That one builds its grammar as it is imported, longer than all the rest
    takes together; a chart has no such address.
    """
    slow = "rfc3987_syntax"
    if "jsonschema" in sys.modules or slow in sys.modules:
        return
    # None in this table means: there is none.
    sys.modules[slow] = None  # type: ignore[assignment]
    try:
        import_module("jsonschema")
    finally:
        del sys.modules[slow]


_import_jsonschema()


def __getattr__(name: str) -> Any:
    """Load a widget's room on first use, so that one widget costs no other."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__]
