"""`FaultSwitch` as a reader meets it: notebook 05 on the real engine, by keyboard."""

import re
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import DECODED, REPOSITORY, OpenNotebook
from browser.test_notebook_01 import THEME
from browser.test_stepper import RESTART

pytestmark = pytest.mark.browser

NAME = "05_ple.ipynb"
FIRST = "1: 4 rows, 2 kept: pair, row 0"
FAKE = """
from strata_widgets import FaultSwitch, state_charts
from strata_widgets.state_charts import Box

def draw(fault):
    if fault == "qsa_old_tail":
        raise KeyError("no such slot")
    boxes = [Box("now", "slot 0", "8" if fault else "4", "committed")]
    return state_charts.boxes(boxes, title="Slots", description="One slot."), "<b>words"

fake = FaultSwitch(draw, faults=["qsa_ring", "qsa_old_tail"])
fake
"""
# While a chart is drawn anew its marks are gone.
RECOLOURED = """([begins, light]) => {
  const mark = document.querySelector(begins);
  return !!mark && getComputedStyle(mark).stroke !== light;
}"""


def switches(page: Page) -> Locator:
    return page.locator(".strata-switch")


def status(switch: Locator) -> Locator:
    return switch.get_by_role("status")


def fault_is(switch: Locator, name: str) -> None:
    """Wait for Python's echo; what the control shows by itself proves nothing."""
    expect(status(switch)).to_have_attribute("data-fault", name)


def box(begins: str) -> str:
    return f".strata-switch svg path[aria-label^='{begins}']"


def box_says(page: Page, begins: str, ends: str) -> None:
    said = re.compile(f"^{begins}: .*{ends}$")
    expect(page.locator(box(begins))).to_have_attribute("aria-label", said)


def test_faults_are_switched_on_and_off_by_keyboard(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook(NAME)
    page = notebook.page
    one, several = switches(page).nth(0), switches(page).nth(1)
    toggle = one.get_by_role("switch", name="ple_tokens_kept")
    fault_is(one, "")
    expect(toggle).not_to_be_checked()
    box_says(page, FIRST, "as in plain decoding")

    toggle.focus()
    page.keyboard.press("Space")
    fault_is(one, "ple_tokens_kept")
    expect(toggle).to_be_checked()
    box_says(page, FIRST, "wrong")
    assert notebook.in_kernel("print(switch.fault)") == "ple_tokens_kept"
    page.keyboard.press("Space")
    fault_is(one, "")
    box_says(page, FIRST, "as in plain decoding")

    before = notebook.cells()
    page.keyboard.press("b")
    choice = several.get_by_label("Fault", exact=True)
    choice.focus()
    fault_is(several, "")
    expect(several.locator("svg path[aria-label$='wrong']")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    fault_is(several, "ple_tokens_kept")
    page.keyboard.press("ArrowDown")
    fault_is(several, "ple_conv_no_rewind")
    expect(several.locator(".strata-what")).to_contain_text("convolution")
    box_says(page, "1: 4 rows, 2 kept: ple_conv", "1 wrong, wrong")
    assert notebook.cells() == before

    kept = box("3: 1 row: 1 back")
    light = page.locator(kept).evaluate("(mark) => getComputedStyle(mark).stroke")
    page.evaluate(THEME, "JupyterLab Dark")
    page.wait_for_function(RECOLOURED, arg=[kept, light])
    page.evaluate(THEME, "JupyterLab Light")


def test_without_a_kernel_the_pictures_are_there(open_notebook: OpenNotebook) -> None:
    page = open_notebook(NAME, run=False).page
    pictures = page.locator(".jp-OutputArea-output img")
    file = REPOSITORY / "notebooks" / NAME
    notebook: Any = nbformat.read(file, 4)  # type: ignore[no-untyped-call]
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    drawn = [out for out in outputs if "image/png" in out.get("data", {})]
    assert len(drawn) > 4
    expect(pictures).to_have_count(len(drawn))
    for picture in pictures.all():
        assert picture.evaluate(DECODED)
    expect(switches(page)).to_have_count(0)


def test_what_goes_wrong_is_said(open_notebook: OpenNotebook) -> None:
    page = open_notebook("fake_switch.ipynb", cells=[FAKE]).page
    switch = switches(page)
    choice = switch.get_by_label("Fault", exact=True)
    fault_is(switch, "")
    expect(status(switch)).to_have_text("no fault: <b>words")
    choice.select_option("qsa_ring")
    fault_is(switch, "qsa_ring")
    box_says(page, "now: slot 0", "8, committed")

    choice.select_option("qsa_old_tail")
    expect(status(switch)).to_have_text("KeyError: 'no such slot'")
    expect(choice).to_have_value("qsa_ring")
    box_says(page, "now: slot 0", "8, committed")

    page.evaluate(RESTART)
    choice.select_option("")
    expect(status(switch)).to_have_text("the kernel is gone; run this cell again")
    expect(choice).to_be_disabled()
