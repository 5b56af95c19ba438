"""Notebook 01 as a reader meets it: on the real engine, and without a kernel."""

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import DECODED, OpenNotebook
from browser.test_stepper import bars, button, chart, draft, labels, phase, status

pytestmark = pytest.mark.browser

NAME = "01_hand_drafts.ipynb"
THEME = """(theme) =>
  window.jupyterapp.commands.execute('apputils:change-theme', { theme })"""
# While a chart is drawn anew its text is gone.
RECOLOURED = """(light) => {
  const text = document.querySelector('.strata-union svg text');
  return !!text && getComputedStyle(text).fill !== light;
}"""


def ink(page: Page) -> str:
    script = "(text) => getComputedStyle(text).fill"
    return str(page.locator(".strata-union svg text").first.evaluate(script))


def test_a_window_by_hand_on_the_real_engine(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(NAME)
    page = notebook.page
    windows, union = chart(page, "windows"), chart(page, "union")
    start = int(str(status(page).get_attribute("data-position")))

    draft(page).fill("def paint(")
    expect(page.locator(".strata-preview .strata-chip")).to_have_count(4)
    button(page, "Run").click()
    phase(page, "run")
    expect(bars(union)).not_to_have_count(0)
    notebook.rest()
    opened = labels(union)
    button(page, "Finish").click()
    phase(page, "finished")
    expect(page.locator(".strata-verdict")).to_have_text(["root"] + ["accepted"] * 4)
    page.get_by_label("Keep rows").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    button(page, "Commit").click()
    phase(page, "committed")
    expect(status(page)).to_have_attribute("data-position", str(start + 3))
    expect(bars(windows)).not_to_have_count(0)

    button(page, "Fill in one wrong").click()
    # Commit has emptied the field.
    expect(draft(page)).not_to_have_value("")
    button(page, "Run").click()
    phase(page, "run")
    button(page, "Finish").click()
    phase(page, "finished")
    expect(page.locator(".strata-verdict")).to_have_text(
        ["root", "accepted", "first mismatch", "never reached"]
    )
    notebook.rest()
    before = labels(windows)
    button(page, "Commit").click()
    phase(page, "committed")
    expect(bars(windows)).not_to_have_count(len(before))
    notebook.rest()
    assert labels(union) != opened
    code = "print(len([r for r in stepper.engine.trace if not r.headless]))"
    assert notebook.in_kernel(code) == "2"

    notebook.rest()
    light = ink(page)
    page.evaluate(THEME, "JupyterLab Dark")
    page.wait_for_function(RECOLOURED, arg=light)
    expect(bars(chart(page, "union"))).not_to_have_count(0)
    page.evaluate(THEME, "JupyterLab Light")


def test_without_a_kernel_the_still_picture_is_there(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(NAME, run=False).page
    pictures = page.locator(".jp-OutputArea-output img")
    expect(pictures).not_to_have_count(0)
    for picture in pictures.all():
        assert picture.evaluate(DECODED)
    assert page.locator(".strata-stepper").count() == 0
    expect(page.locator(".jp-OutputArea-output[data-mime-type*=stderr]")).to_have_count(
        0
    )
