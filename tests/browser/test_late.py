"""A page so busy that a widget begins late: it shows what Python says all the same."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

TESTS = str(Path(__file__).resolve().parents[1])
# anywidget refuses all messages for a model that was not there after 2 s.
LATE = """
import altair as alt
from strata_widgets import LiveChart, Timeline, together

WAIT = "await new Promise((done) => setTimeout(done, 2500));"
slow = lambda of: type(of.__name__, (of,), {"_esm": WAIT + of._esm})
together._carrier = slow(together._Carrier)()
bars = alt.Chart(alt.InlineData(values=[{"k": "a", "v": 1}])).mark_bar()
chart = slow(LiveChart)(bars.encode(x="k:N", y="v:Q"))
line = slow(Timeline)(trace(4))
chart
"""
FAKE = "import sys\nsys.path.insert(0, TESTS)\nfrom widgets.fake_trace import trace\n"


def test_a_widget_that_begins_late_hears_all_the_same(
    open_notebook: OpenNotebook,
) -> None:
    cells = [(FAKE + LATE).replace("TESTS", repr(TESTS)), "line"]
    notebook = open_notebook("late.ipynb", cells=cells)
    page = notebook.page
    bars = page.locator(".strata-chart").first.locator("path[aria-roledescription=bar]")
    expect(bars).to_have_count(1)
    notebook.in_kernel('chart.append({"k": "b", "v": 2})')
    expect(bars).to_have_count(2)
    # By one message for several widgets, which is late as well.
    notebook.until("print(together.carrier().ready)", "True")
    status = page.locator(".strata-panel .strata-status")
    expect(status).to_contain_text("4 windows")
    notebook.in_kernel("line.select(window=2)")
    expect(status).to_have_attribute("data-window", "2")
    page.get_by_label("Window", exact=True).press("ArrowRight")
    expect(status).to_have_attribute("data-window", "3")
