"""`HandDrafts` on a page: typed drafts, clicks, keys, charts."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

FAKE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from strata_widgets import HandDrafts
from widgets.fake_model import HOSTILE, FakeModel

hands = HandDrafts(FakeModel().engine(), prompt="def f(x")
hands
"""


def status(page: Page) -> Locator:
    return page.locator(".strata-status")


def verb(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def drawn(page: Page, chart: str) -> Locator:
    """Return a chart that has been mounted, by the class of its place."""
    found = page.locator(f".strata-{chart} .strata-chart")
    expect(found).to_have_attribute("data-state", "ready", timeout=20_000)
    return found


def bars(chart: Locator) -> list[str]:
    marks = chart.locator("path[aria-roledescription=bar]")
    return [str(mark.get_attribute("aria-label")) for mark in marks.all()]


def test_type_run_finish_keep_commit(open_notebook: OpenNotebook) -> None:
    page = open_notebook("fake.ipynb", cells=[FAKE]).page
    windows, union = drawn(page, "windows"), drawn(page, "union")
    assert bars(windows) == bars(union) == []

    page.get_by_label("Draft", exact=True).fill("):\n    return * 2")
    expect(page.locator(".strata-preview")).to_contain_text("4 drafts:")
    verb(page, "Run").click()
    expect(status(page)).to_have_attribute("data-phase", "run")
    verb(page, "Finish").click()
    expect(status(page)).to_have_attribute("data-phase", "finished")
    rows = page.locator(".strata-rows tbody tr")
    expect(rows.locator(".strata-verdict")).to_have_text(
        ["root", "accepted", "accepted", "accepted", "first mismatch"]
    )
    slider = page.get_by_label("Keep rows")
    expect(slider).to_have_value("4")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    verb(page, "Commit").click()
    expect(status(page)).to_have_attribute("data-phase", "committed")
    expect(status(page)).to_have_attribute("data-keep", "2")
    expect(status(page)).to_have_attribute("data-position", "4")
    expect(windows.locator("path[aria-roledescription=bar]")).not_to_have_count(0)
    expect(union.locator("path[aria-roledescription=bar]")).not_to_have_count(0)
