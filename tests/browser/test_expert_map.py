"""`ExpertMap` and `SlotsAndIO` on a page: one selection, by mouse, keys and Python."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

PATH = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
"""
MAP = (
    PATH
    + """
from widgets.test_expert_map import by_hand
from strata_nb import Trace
from strata_widgets import ExpertMap
made = Trace([by_hand(), by_hand(position=2)])
view = ExpertMap(made, experts=8, chosen=2)
view
"""
)
SLOTS = (
    PATH
    + """
from widgets.test_slots_io import TWO, window
from strata_nb import Trace
from strata_widgets import ExpertMap, SlotsAndIO, link
made = Trace([window(*TWO) for _ in range(3)])
view, other = SlotsAndIO(made), ExpertMap(made)
link(view, other)
view
"""
)


def panel(page: Page, kind: str, *charts: str) -> tuple[Locator, Locator]:
    """The panel, when its charts are drawn, and its status."""
    view = page.locator(f".strata-panel[data-kind={kind}]").first
    for chart in charts:
        found = view.locator(f".strata-{chart} .strata-chart").first
        expect(found).to_have_attribute("data-state", "ready")
    return view, view.locator(".strata-status")


def mark(view: Locator, chart: str, says: str) -> Locator:
    return view.locator(f".strata-{chart} path[aria-label='{says}']")


def test_a_layer_is_selected_by_mouse_keys_and_python(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook("experts.ipynb", cells=[MAP])
    page = notebook.page
    view, status = panel(page, "expertmap", "map", "unions")
    expect(status).to_contain_text("unions of 3 to 3, mean 3.0 (by chance 3.5, at most")
    for one in ("0, expert 1: root only", "2, expert 5: drafts only"):
        expect(mark(view, "map", f"layer {one}")).to_have_count(1)

    mark(view, "map", "layer 0, expert 4: root and drafts").click()
    expect(status).to_have_attribute("data-layer", "0")
    expect(view.locator("caption")).to_have_text("Experts of layer 0")
    expect(view.locator("tbody tr").nth(2)).to_have_text("4root, draft 1in a slot")
    mark(view, "unions", "layer 2: 2 read").click()
    expect(status).to_have_attribute("data-layer", "2")
    assert notebook.in_kernel("print(view.selection['layer'])") == "2"
    view.get_by_label("Layer", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    expect(status).to_contain_text("layer 1 is selected, which has no experts here")
    notebook.in_kernel("view.selection = {'window': 0, 'layer': 2}")
    expect(view.get_by_label("Window", exact=True)).to_have_value("0")
    expect(view.locator("tbody tr")).to_have_count(3)
    notebook.in_kernel("view.select(window=None); made.append(made[0]); view.refresh()")
    expect(status).to_contain_text("window 2, the newest")
    assert notebook.cells() == 1


def test_a_window_is_selected_and_a_run_grows(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("slots.ipynb", cells=[SLOTS])
    page = notebook.page
    view, status = panel(page, "slotsandio", "wanted", "reads", "shares", "overview")
    expect(status).to_contain_text("24 experts wanted, 12 in a slot (50.0%), 3 late")
    expect(status).to_contain_text("waited 6.0 of 24.0 ms (25%)")

    mark(view, "wanted", "window 1: 3 read").click()
    expect(status).to_have_attribute("data-window", "1")
    expect(view.locator("caption")).to_have_text("Layers of window 1")
    view.get_by_label("Layer", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(status).to_have_attribute("data-layer", "1")
    own = "window 1: 25% in a slot, selected layer"
    expect(mark(view, "shares", own)).to_have_count(1)
    said = "{'window': 1, 'layer': 1, 'cell': None}"
    assert notebook.in_kernel("print(other.selection)") == said
    notebook.in_kernel("other.select(window=0)")
    expect(status).to_have_attribute("data-window", "0")

    notebook.in_kernel("made.append(made[0]); view.refresh()")
    expect(mark(view, "reads", "window 3: 150 bytes wanted")).to_have_count(1)
    expect(mark(view, "reads", "window 3: 200 bytes ahead of need")).to_have_count(1)
    expect(status).to_contain_text("4 windows; 32 experts wanted")
