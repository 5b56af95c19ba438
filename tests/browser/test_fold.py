"""`FoldView` on a page: which rows are due, by mouse, keyboard and Python."""

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = """
import strata_nb
from strata_widgets.fold import FoldView

model = strata_nb.load("strata-tiny")
engine = model.engine(fold="lazy", partial=True)
ids = model.encode("def mean(values):\\n    return sum(values)\\n") * 3
engine.prefill(ids[:8])


def more(T, keep):
    window = engine.run(ids[engine.position :][:T])
    engine.finish(window)
    engine.commit(window, keep=keep, force=True)


more(4, 3)
more(3, 1)
folds = FoldView(engine)
folds
"""


def test_rows_due_are_replayed_by_the_next_run(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("fold.ipynb", cells=[CELL])
    page = notebook.page
    view = page.locator(".strata-panel[data-kind=foldview]").first
    line = view.locator(".strata-status")
    chart = view.locator(".strata-rows .strata-chart").first
    expect(chart).to_have_attribute("data-state", "ready")
    expect(line).to_contain_text("3 windows, 1 replays 2 rows; window 2: T = 3, keep 1")

    for begin, count in (
        ("run begins: window 1, row", 2),
        ("run: window 2, row 0: partial, state after row 0", 1),
        ("commit: window 2, row 2: ✗, rejected", 1),
    ):
        expect(chart.locator(f"path[aria-label^='{begin}']")).to_have_count(count)
    # A row that the window before left due leads there.
    chart.locator("path[aria-label^='run begins: window 1, row 2']").click(
        force=True  # its text lies above it, and means the same
    )
    expect(line).to_have_attribute("data-window", "1")
    expect(line).to_contain_text("leaves due 2 rows from offset 1")
    expect(view.locator("tr.strata-marked td").first).to_have_text("1")
    view.get_by_label("Layer", exact=True).focus()
    page.keyboard.press("End")
    expect(line).to_have_attribute("data-layer", "7")
    expect(view.get_by_text("layer 7 is indexed_attention")).to_be_visible()
    assert notebook.in_kernel("print(folds.selection)") == (
        "{'window': 1, 'layer': 7, 'cell': None}"
    )
    notebook.in_kernel("more(2, 2); folds.refresh(); folds.selection = {}")
    expect(line).to_contain_text("4 windows, 2 replay 3 rows; window 3: T = 2, keep 2")
    assert notebook.cells() == 1
