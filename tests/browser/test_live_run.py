"""`LiveRun` on a page: it moves while it runs, Cancel works, text stays text."""

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook
from browser.test_timeline import panel, ready, status

pytestmark = pytest.mark.browser

MOST = 8000  # as many as the context has, more than come before a slow page says Cancel
CELL = """
import ipywidgets
import strata_nb
from strata_widgets import LiveRun, Timeline

session = strata_nb.Session(strata_nb.load("strata-tiny"), preset="seed_stage1")
line = Timeline(session)
live = LiveRun(session, prompt="def area(r):\\n    return", max_new=MOST, views=[line])
ipywidgets.VBox([live, line])
""".replace("MOST", str(MOST))


def test_it_moves_while_it_runs_and_cancel_works(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("live.ipynb", cells=[CELL])
    page = notebook.page
    live, line = panel(page, "liverun"), panel(page, "timeline")
    ready(line, "rows")
    run = live.get_by_role("button", name="Run")
    cancel = live.get_by_role("button", name="Cancel")
    expect(cancel).to_be_disabled()
    run.focus()
    page.keyboard.press("Enter")
    expect(status(live)).to_contain_text("running")
    expect(run).to_be_disabled()
    # Views draw, the text grows and a selection answers while windows come.
    drawn = line.locator(".strata-rows .strata-chart")
    for _ in range(3):
        before = drawn.get_attribute("data-seq")
        expect(drawn).not_to_have_attribute("data-seq", before or "")
    expect(live.locator(".strata-prose")).not_to_be_empty()
    line.get_by_label("Window", exact=True).press("ArrowRight")
    expect(status(line)).not_to_have_attribute("data-window", "")
    expect(status(live)).to_contain_text("running")
    cancel.click()
    expect(status(live)).to_contain_text("ended by cancelled")
    expect(run).to_be_enabled()
    emitted = int(notebook.in_kernel("print(len(live.reply.tokens))"))
    assert 0 < emitted < MOST
    # A selected window that is far from the newest is shown instead of that.
    notebook.in_kernel("line.selection = {}; line.follow()")
    # At rest each square has its label.
    newest = int(notebook.in_kernel("print(len(session.trace) - 1)"))
    square = line.locator(f"path[aria-label^='window {newest}, row 0']")
    expect(square).to_have_count(1)
    expect(status(live)).to_contain_text(f"{emitted} tokens")


HOSTILE = """
from strata_widgets.panel import Panel
from strata_widgets.panel.control import Table

TEXT = "<img src=x onerror='window.hacked=1'></script><b>x</b>"

class Hostile(Panel):
    TITLE = TEXT
    def _status(self):
        return TEXT
    def _prose(self):
        return TEXT
    def _tables(self):
        return [Table(TEXT, (TEXT,), [[TEXT], [{"text": TEXT}]])]

view = Hostile()
view._say(TEXT, kind="error")
view
"""


def test_hostile_text_is_text_everywhere_on_a_panel(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook("panel.ipynb", cells=[HOSTILE]).page
    view = panel(page, "hostile")
    expect(view).to_be_visible()
    # Title, note, status, prose, caption, heading, a cell, a chip.
    expect(view.get_by_text("<img src=x")).to_have_count(8)
    expect(view.locator(":is(img, script, b)")).to_have_count(0)
    assert page.evaluate("() => window.hacked") is None
