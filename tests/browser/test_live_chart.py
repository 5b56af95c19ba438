"""`LiveChart` on a page: many rows, a selection, and keys that stay inside."""

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
        expect(drawn).to_have_attribute("data-state", "ready", timeout=30_000)
    points = charts.nth(1).locator("path[aria-roledescription=point]")
    expect(points).to_have_count(50)
    expect(points.last).to_have_attribute("aria-label", "n: 499")

    notebook.in_kernel('live.append({"k": "c", "v": 3})')
    bars = charts.first.locator("path[aria-roledescription=bar]")
    expect(bars).to_have_count(3)
    bars.last.click()
    told = "print(live.selection)"
    for _ in range(50):
        if notebook.in_kernel(told) != "{}":
            break
        notebook.page.wait_for_timeout(100)
    assert "'k': ['c']" in notebook.in_kernel(told)

    charts.first.focus()
    notebook.page.keyboard.press("b")
    assert notebook.cells() == 2
