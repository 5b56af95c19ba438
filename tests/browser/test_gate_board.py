"""`GateBoard` on a page: a gate runs, cells fill, Cancel works, a case is read."""

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = """
import time

import strata_nb
from strata_widgets import GateBoard

board = GateBoard(
    "gate_3",
    model=strata_nb.load("strata-tiny"),
    fault="qsa_ring",
    only="gate_3/reject/context=below/residue=[123]/*",
)


# However late the page is, the gate is still at work: its last case waits for Cancel.
def held(make):
    job = make()
    work, told = job._work, []

    def waits(each, cancel):
        def one(result):
            told.append(result)
            each(result)
            while len(told) == 35 and not cancel():
                time.sleep(0.01)

        return work(one, cancel)

    job._work = waits
    return job


make = board._source.gate_job
board._source.gate_job = lambda: held(make)
board
"""
JUDGED = "[aria-label^='case ']"


def panel(page: Page) -> Locator:
    return page.locator(".strata-panel[data-kind=gateboard]").first


def test_a_gate_runs_is_cancelled_and_a_case_is_read(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook("gate_board.ipynb", cells=[CELL])
    page, view = notebook.page, panel(notebook.page)
    status = view.locator(".strata-status")
    cells = view.locator(".strata-cells .strata-chart").first
    expect(cells).to_have_attribute("data-state", "ready")
    expect(status).to_contain_text("0 of 36 cases judged")
    expect(cells.locator(JUDGED)).to_have_count(0)
    expect(view.get_by_role("button", name="Cancel")).to_be_disabled()

    view.get_by_role("button", name="Run").click()
    fault = cells.locator("path[aria-label$='reject: fault']")
    expect(fault).not_to_have_count(0)
    # The kernel answers while the gate is at work.
    assert notebook.in_kernel("print(board.running)") == "True"
    view.get_by_role("button", name="Cancel").press("Enter")
    expect(status).to_contain_text(", cancelled:")
    counts = notebook.in_kernel("print(*board._book.counts().values())").split()
    waiting, same, _, wrong, _ = map(int, counts)
    assert 0 < waiting < 36
    expect(status).to_contain_text(f"{same + wrong} of 36 cases judged")
    expect(cells.locator("path[aria-label$=': same']")).to_have_count(same)
    expect(fault).to_have_count(wrong)
    expect(view.get_by_role("button", name="Run")).to_be_enabled()

    notebook.rest()
    label = str(fault.first.get_attribute("aria-label"))
    number = int(label.split(",")[0].removeprefix("case "))
    fault.first.click()
    expect(view.get_by_label("Case", exact=True)).to_have_value(str(number))
    expect(status).to_contain_text(f"case {number}, reject: fault in qsa_tail layer")
    table = view.get_by_role("table", name=f"Case {number}")
    expect(table.get_by_role("row", name="part qsa_tail")).to_be_visible()
    code = view.get_by_role("table", name="Runs this case again").locator("tbody")
    assert code.inner_text().strip() == notebook.in_kernel("print(board.reproduce())")

    view.get_by_label("Case", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(status).to_contain_text(f"case {number + 1}, reject: ")
    assert notebook.in_kernel("print(board.case)") == str(number + 1)
    notebook.in_kernel("board.case = 0")
    expect(status).to_contain_text("case 0, reject: ")
    assert notebook.cells() == 1
