"""What tests of `GateBoard` share."""

import gate_samples as samples
from strata_nb.gates import CaseResult, Report
from strata_widgets import GateBoard


def cells(board: GateBoard) -> str:
    """The letters on the page, later rows over earlier ones."""
    page: dict[int, str] = {}
    for row in board._live["cells"].rows:
        for slot, letter in enumerate(row["v"], row["at"]):
            page[slot] = letter
    return "".join(page[slot] for slot in sorted(page)).replace(" ", "")


def toy(*found: CaseResult) -> Report:
    """A report of one gate with these results."""
    return samples.report(samples.gate(*found))
