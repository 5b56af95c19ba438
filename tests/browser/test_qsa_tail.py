"""`TailView` on a page: play, scrub, another fault, a click on a key."""

import re

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = """
from strata_widgets.qsa_tail import TailView

tail = TailView(behaviour="qsa_ring", start=5, T=4, keep=1)
# It plays as far as moment 2 and there goes on only when the test has seen that.
play_on, seen = tail._ticker._tick, False
tail._ticker._tick = lambda: play_on() if seen or tail.moment < 2 else True
tail
"""


def test_the_fault_plays_cell_by_cell(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("tail.ipynb", cells=[CELL])
    page = notebook.page
    view = page.locator(".strata-panel[data-kind=tailview]").first
    line = view.locator(".strata-status")
    chart = view.locator(".strata-slots .strata-chart").first
    expect(chart).to_have_attribute("data-state", "ready")
    expect(line).to_contain_text("block 1 pools [raw8 rejected, raw5, raw6, raw7]")

    moment = view.get_by_label("Moment", exact=True)
    moment.focus()
    page.keyboard.press("Home")
    expect(line).to_contain_text("moment 0 of 7, before")
    expect(view.locator(".strata-slots path[aria-label*=': slot ']")).to_have_count(4)
    view.get_by_role("button", name="Play / pause").press("Enter")
    expect(line).to_contain_text("playing")
    expect(line).to_contain_text("moment 2 of 7, row 1")
    view.get_by_role("button", name="Play / pause").click()
    expect(line).not_to_contain_text("playing")
    assert notebook.in_kernel("print(tail.moment)") == "2"
    expect(moment).to_have_value("2")
    notebook.in_kernel("seen = True")
    view.get_by_role("button", name="Play / pause").click()
    expect(line).to_contain_text("moment 7 of 7")
    expect(view.locator(".strata-slots path[aria-label*=': slot ']")).to_have_count(32)
    last = view.locator(".strata-slots path[aria-label^='right 7: slot 0: 8 ✗, rej']")
    expect(last).to_have_count(1)

    view.locator(".strata-blocks path[aria-label^='block 1, place 0: 8']").click(
        force=True  # the key's text lies above it, and means the same
    )
    expect(line).to_have_attribute("data-cell", "8")
    expect(line).to_contain_text("cell 8: its key is in slot 0 and block 1")
    view.get_by_label("Tail", exact=True).select_option("snapshot and replay")
    expect(line).to_contain_text("at the end every pooled key is right")
    view.get_by_label("Rows (T)").focus()
    page.keyboard.press("ArrowRight")
    expect(line).to_contain_text(re.compile("T = 5, keep 1"))
    assert notebook.in_kernel("print(tail.behaviour, tail.case.T)") == (
        "snapshot and replay 5"
    )
    assert notebook.cells() == 1
