"""Notebook 7 shows the widgets too: one smoke test."""

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import opening, served
from browser.test_timeline import CELL, panel, ready, status

pytestmark = pytest.mark.browser


def test_a_panel_draws_and_answers(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("notebook")
    with served(home, "notebook", "JupyterNotebookApp") as server:
        server.page = "notebooks"
        with opening(server, browser) as open_it:
            # What this page complains of by itself is not ours.
            empty = open_it("empty.ipynb", cells=["1"])
            notebook = open_it("seven.ipynb", cells=[CELL])
            view = panel(notebook.page, "timeline")
            ready(view, "rows").locator("path[aria-label^='window 9, row 0']").click()
            expect(status(view)).to_have_attribute("data-window", "9")
            assert notebook.in_kernel("print(other.selection['window'])") == "9"
            own = set(empty.wrong)
            assert set(notebook.wrong) <= own
            empty.wrong.clear()
            notebook.wrong.clear()
