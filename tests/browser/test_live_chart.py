"""`LiveChart` on a page: rows, a selection, a stream, and keys that stay inside."""

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CHART = """
import altair as alt
from strata_widgets import LiveChart

pick = alt.selection_point(name="pick", fields=["k"], on="click")
bars = alt.Chart(alt.InlineData(values=[{"k": "a", "v": 1}, {"k": "b", "v": 2}]))
live = LiveChart(bars.mark_bar().encode(x="k:N", y="v:Q").add_params(pick))
live
"""
STREAM = """
points = alt.Chart(alt.InlineData(values=[])).mark_point()
stream = LiveChart(points.encode(x="n:Q", y="n:Q"), limit=50)
for n in range(500):
    stream.append({"n": n})
stream.flush()
stream
"""


def test_rows_and_selections(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("live.ipynb", cells=[CHART, STREAM])
    charts = notebook.page.locator(".strata-chart")
    expect(charts).to_have_count(2)
    for drawn in charts.all():
        expect(drawn).to_have_attribute("data-state", "ready")
    points = charts.nth(1).locator("path[aria-roledescription=point]")
    expect(points).to_have_count(50)
    expect(points.last).to_have_attribute("aria-label", "n: 499")

    notebook.in_kernel('live.append({"k": "c", "v": 3})')
    bars = charts.first.locator("path[aria-roledescription=bar]")
    expect(bars).to_have_count(3)
    notebook.rest()
    bars.last.click()
    notebook.until("print(live.selection.get('pick', {}).get('k'))", "['c']")

    charts.first.focus()
    notebook.page.keyboard.press("b")
    assert notebook.cells() == 2


FLOW = """
import asyncio

flowing = True

async def flow():
    n = 500
    while flowing:
        near.append({"n": n})
        far.append({"n": n})
        n += 1
        await asyncio.sleep(0.05)

task = asyncio.ensure_future(flow())
"""
# A machine that is busy pauses a stream, and then charts out of view are drawn. So that
# a pause is none here, what waits for one (400 ms) waits for `resume`, then its time.
NO_PAUSE = """() => {
  const later = window.setTimeout, held = new Set();
  window.setTimeout = (call, ms, ...rest) => {
    if (ms !== 400) return later(call, ms, ...rest);
    held.add(call);
    return 0;
  };
  window.resume = () => {
    window.setTimeout = later;
    for (const call of held) later(call, 400);
  };
}"""
TWO = """
from IPython.display import HTML, display

import altair as alt
from strata_widgets import LiveChart

points = alt.Chart(alt.InlineData(values=[])).mark_point().encode(x="n:Q", y="n:Q")
near, far = LiveChart(points, limit=50), LiveChart(points, limit=50)
display(near)
display(HTML("<div style='height: 3000px'></div>"))
far
"""


def test_a_stream_is_drawn_where_it_is_looked_at(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("stream.ipynb", cells=[TWO])
    charts = notebook.page.locator(".strata-chart")
    near, far = charts.first, charts.nth(1)
    for drawn in (near, far):
        expect(drawn).to_have_attribute("data-state", "ready")
    near.scroll_into_view_if_needed()
    expect(near.locator("svg")).to_have_count(1)
    # What is still to be drawn of the far one would be taken for the stream.
    notebook.rest()
    notebook.page.evaluate(NO_PAUSE)
    was = far.get_attribute("data-seq") or ""
    notebook.in_kernel(FLOW)
    expect(near.locator("canvas")).to_have_count(1)
    for _ in range(3):
        before = near.get_attribute("data-seq") or ""
        expect(near).not_to_have_attribute("data-seq", before)
    assert far.get_attribute("data-seq") == was

    far.scroll_into_view_if_needed()
    expect(far).not_to_have_attribute("data-seq", was)
    notebook.page.evaluate("() => window.resume()")
    notebook.in_kernel("flowing = False")
    told = notebook.in_kernel("print(far.rows[-1]['n'], len(far.rows))")
    newest, many = map(int, told.split())
    for drawn in (far, near):
        points = drawn.locator("path[aria-roledescription=point]")
        # At rest each mark has its label again, in view or not.
        expect(points.last).to_have_attribute("aria-label", f"n: {newest}")
        expect(points).to_have_count(many)
        expect(drawn.locator("canvas")).to_have_count(0)
