"""A notebook that Lab saved, opened again when its kernel is gone."""

import pytest
from playwright.sync_api import expect

from browser.conftest import DECODED, SHUT_DOWN, Lab, OpenNotebook
from browser.test_stepper import FAKE, phase

pytestmark = pytest.mark.browser

LARGEST = 1_000_000
# JupyterLab says so on the console for each widget whose kernel is gone.
NO_MODEL = "widget model not found"


def test_the_picture_takes_the_place_of_a_widget_without_kernel(
    open_notebook: OpenNotebook, lab: Lab
) -> None:
    notebook = open_notebook("saved.ipynb", cells=[FAKE])
    phase(notebook.page, "ready")
    expect(notebook.page.locator(".strata-still")).to_be_hidden()
    notebook.save()
    notebook.page.evaluate(SHUT_DOWN)

    again = open_notebook("saved.ipynb", run=False)
    expect(again.page.locator(".strata-still")).to_be_visible()
    assert again.page.locator(".strata-still").evaluate(DECODED)
    failed = again.page.get_by_text("Error displaying widget")
    expect(failed).to_have_count(1)
    expect(failed).to_be_hidden()
    expect(again.page.locator(".strata-stepper")).to_have_count(0)
    assert (lab.folder / "saved.ipynb").stat().st_size < LARGEST
    for opened in (notebook, again):
        opened.wrong[:] = [line for line in opened.wrong if NO_MODEL not in line]
