"""`Timeline` on a page: clicks, keys, zoom, Python's hand, and linked views."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from widgets.fake_trace import trace
from strata_widgets import Timeline, link

line, other = Timeline(trace(40)), Timeline(trace(40))
link(line, other)
line
"""


def panel(page: Page, kind: str) -> Locator:
    return page.locator(f".strata-panel[data-kind={kind}]").first


def status(view: Locator) -> Locator:
    return view.locator(".strata-status")


def ready(view: Locator, chart: str) -> Locator:
    found = view.locator(f".strata-{chart} .strata-chart").first
    expect(found).to_have_attribute("data-state", "ready")
    return found


def test_click_keys_python_and_link_select(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("timeline.ipynb", cells=[CELL])
    page, view = notebook.page, panel(notebook.page, "timeline")
    rows, line = ready(view, "rows"), status(view)
    expect(line).to_contain_text("40 windows, shown 0 to 39")

    rows.locator("path[aria-label^='window 12, row 0']").click()
    expect(line).to_have_attribute("data-window", "12")
    expect(view.get_by_label("Window", exact=True)).to_have_value("12")
    view.get_by_label("Window", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(line).to_have_attribute("data-window", "13")
    assert notebook.in_kernel("print(line.selection, other.selection)") == (
        "{'window': 13, 'layer': None, 'cell': None} "
        "{'window': 13, 'layer': None, 'cell': None}"
    )
    notebook.in_kernel("other.selection = {'window': 5}")
    expect(line).to_have_attribute("data-window", "5")
    expect(line).to_contain_text("window 5: cell")
    view.get_by_role("button", name="Window: none").press("Enter")
    expect(line).to_have_attribute("data-window", "")
    assert notebook.cells() == 1


def test_drag_zooms_and_a_reload_shows_the_same(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("zoom.ipynb", cells=[CELL])
    page, view = notebook.page, panel(notebook.page, "timeline")
    ready(view, "rows")
    area = ready(view, "overview").locator("g.mark-group path.background").first
    box = area.bounding_box()
    assert box is not None
    wide, middle = box["width"] / 64, box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 10.5 * wide, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 19.5 * wide, middle, steps=6)
    page.mouse.up()
    expect(status(view)).to_contain_text("shown 10 to 19")
    expect(view.get_by_label("Windows shown")).to_have_value("10")
    squares = view.locator(".strata-rows path[aria-label^='window 1']")
    expect(squares).not_to_have_count(0)
    expect(view.locator(".strata-rows path[aria-label^='window 20']")).to_have_count(0)

    notebook.save()
    page.reload()
    again = panel(page, "timeline")
    ready(again, "rows")
    expect(status(again)).to_contain_text("shown 10 to 19")
    again.get_by_role("button", name="Follow the newest").click()
    expect(status(again)).to_contain_text("shown 30 to 39")
