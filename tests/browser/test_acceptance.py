"""`Acceptance` and `Economics` on a page: a click, keys, Python's hand, the numbers."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from widgets.fake_trace import trace
from strata_nb import Trace
from strata_widgets import Acceptance, Economics, link

class Words:
    name, stop_ids = "words", ()
    def encode(self, text): return []
    def decode(self, ids): return "<img src=x onerror=alert(1)></script>"

run = Trace(trace(40))
view, money = Acceptance(run, model=Words()), Economics(run)
link(view, money)
"""


def panel(page: Page, kind: str) -> Locator:
    return page.locator(f".strata-panel[data-kind={kind}]").first


def ready(view: Locator, chart: str) -> Locator:
    found = view.locator(f".strata-{chart} .strata-chart").first
    expect(found).to_have_attribute("data-state", "ready")
    return found


def test_acceptance_and_economics_follow_each_other(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook("acceptance.ipynb", cells=[CELL, "view", "money"])
    page = notebook.page
    view, money = panel(page, "acceptance"), panel(page, "economics")
    line, other = view.locator(".strata-status"), money.locator(".strata-status")
    windows = ready(view, "rolling")
    numbers = notebook.in_kernel("print(view._status())")
    expect(line).to_have_text(numbers)
    first = notebook.in_kernel(
        "p = view._drafts.places[0]; print(f'{p.accepted} of {p.offered}')"
    )
    bar = ready(view, "positions").locator(f"path[aria-label^='draft 1: {first} acc']")
    expect(bar).to_have_count(1)

    # A mark that a person clicks selects its window here and in the other view.
    windows.locator("path[aria-label^='window 12:']").click()
    expect(line).to_have_attribute("data-window", "12")
    expect(other).to_have_attribute("data-window", "12")
    expect(view.locator("caption")).to_contain_text("Window 12: T =")
    expect(view.locator("td .strata-chip").first).to_have_text(
        "<img·src=x·onerror=alert(1)></script>"
    )
    slider = money.get_by_label("Window", exact=True)
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(line).to_have_attribute("data-window", "11")
    assert notebook.in_kernel("print(view.selection['window'])") == "11"
    notebook.in_kernel("view.selection = {'window': 3}")
    expect(other).to_contain_text("window 3: T =")

    # The run grows while it is looked at, and the answer below is asked for again.
    notebook.in_kernel(
        "for record in trace(47)[40:]: run.append(record)\n"
        "view.refresh(); money.refresh()"
    )
    expect(line).to_contain_text("47 windows")
    expect(windows.locator("path[aria-label^='window 46:']")).to_have_count(1)
    ready(money, "speeds")
    expect(money.locator("table").nth(2)).to_contain_text("(40 windows)")
    money.get_by_role("button", name="Why am I slower?").press("Enter")
    expect(money.locator("table").nth(2)).to_contain_text("(47 windows)")
    best = notebook.in_kernel("print(money._found[1].best)")
    marked = money.locator(".strata-speeds path[aria-label$=', the best']")
    expect(marked).to_have_attribute("aria-label", re.compile(f"^T = {best}: "))
    assert notebook.cells() == 3
