"""Executable release gates: they compare state parts and tell rounding from damage.

`run` runs gates and returns a report; `check` also shows it and raises on a miss;
`cases` lists what would run.

A gate has a folder, `gate_1` to `gate_5` and `tail`, that no other gate imports;
`known` and `planted` are made of theirs. What gates share is apart: `stage` is what
cases run on, `judge` says what a difference is, `spread` spreads the cases over
processes, `report` is what came of them. `foreign` is the gate for other engines,
`adapters` are its calls for three of them; `recipe` writes a finding as a notebook
cell.
"""

from strata_nb.gates.records import PARTS, PROFILES, Case, CaseResult, Finding
from strata_nb.gates.report import Report
from strata_nb.gates.runner import GATES, cases, check, run
from strata_nb.gates.stage.rig import Rig

__all__ = [
    "GATES",
    "PARTS",
    "PROFILES",
    "Case",
    "CaseResult",
    "Finding",
    "Report",
    "Rig",
    "cases",
    "check",
    "run",
]
