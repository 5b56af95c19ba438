"""A page with views of one run: hostile tokens are text, and nothing is fetched.

The page is shut off from every network; a request to anywhere fails the test.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from ipywidgets import VBox
from strata_widgets import Acceptance, Histories, Timeline, link
from widgets.test_cases_hostile import EvilModel

model = EvilModel()
engine = model.engine()


def window(keep):
    opened = engine.run([1, 2, 3, 4, 5, 6, 7, 8])
    engine.finish(opened)
    engine.commit(opened, keep=keep, force=True)


window(2)
window(8)
line = Timeline(engine)
views = [line, Acceptance(engine, model=model), Histories(engine)]
link(*views)
VBox(views)
"""
HARM = "img[src=x], .strata-panel b, .strata-panel script"


def test_tokens_are_words_and_linked_views_move(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("cases.ipynb", cells=[CELL])
    page = notebook.page
    panels = page.locator(".strata-panel")
    expect(panels).to_have_count(3)
    charts = page.locator(".strata-panel .strata-chart[data-state=ready]")
    expect(charts.first).to_be_visible()
    rows = page.locator(".strata-panel[data-kind=acceptance] table tr")
    expect(rows.filter(has_text="<img·src=x·onerror=").first).to_be_visible()
    expect(rows.filter(has_text="</script><script>").first).to_be_visible()
    expect(rows.filter(has_text="\\u202egnp.exe").first).to_be_visible()
    expect(rows.filter(has_text="… (10000 characters)").first).to_be_visible()
    assert page.evaluate("() => window.hacked") is None
    assert page.locator(HARM).count() == 0
    # One selection from Python, then one from the page: all three follow.
    notebook.in_kernel("line.select(window=0)")
    for kind in ("timeline", "acceptance", "histories"):
        status = page.locator(f".strata-panel[data-kind={kind}] .strata-status")
        expect(status).to_have_attribute("data-window", "0")
    panels.nth(1).get_by_label("Window", exact=True).focus()
    page.keyboard.press("End")
    for kind in ("timeline", "acceptance", "histories"):
        status = page.locator(f".strata-panel[data-kind={kind}] .strata-status")
        expect(status).to_have_attribute("data-window", "1")
    assert page.evaluate("() => window.hacked") is None
