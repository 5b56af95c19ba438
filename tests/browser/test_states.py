"""`StateDiff` and `Histories` on a page: clicks, keys, choices, Python's hand."""

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

CELL = """
import strata_nb
from strata_widgets import Histories, StateDiff, link

model = strata_nb.load("strata-tiny")
HTML = "<img src=x onerror='window.hacked=1'></script>"
ids = model.encode(HTML + " def mean(values): return sum(values) / len(values)" * 2)
sound, broken = model.engine(), model.engine(fault="ple_conv_no_rewind")


def go(rows, keep):
    for engine in (sound, broken):
        at = engine.position
        window = engine.run([*ids[at : at + keep], *[9] * (rows - keep)])
        engine.finish(window)
        engine.commit(window, keep=keep, force=True)


for engine in (sound, broken):
    engine.prefill(ids[:20])
"""
DIFF = """
diff = StateDiff(sound, broken)
go(4, 2)
diff
"""
HISTORIES = """
tokens = model.engine(fault="ple_tokens_kept")
tokens.prefill(ids[:20])
window = tokens.run([*ids[20:22], 9, 9])
tokens.finish(window)
tokens.commit(window, keep=2, force=True)
go(4, 2)
told = Histories(tokens, beside=sound)
diff = StateDiff(sound, broken)
link(told, diff)
told
"""


INSIDE = """(row) => {
  const box = row.closest(".strata-scroll").getBoundingClientRect();
  const own = row.getBoundingClientRect();
  return own.top >= box.top && own.bottom <= box.bottom;
}"""


def panel(page: Page, kind: str) -> Locator:
    return page.locator(f".strata-panel[data-kind={kind}]").first


def ready(view: Locator, chart: str) -> Locator:
    found = view.locator(f".strata-{chart} .strata-chart").first
    expect(found).to_have_attribute("data-state", "ready")
    return found


def test_a_box_is_chosen_by_mouse_keys_and_python(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("diff.ipynb", cells=[CELL, DIFF])
    page, view = notebook.page, panel(notebook.page, "statediff")
    boxes, status = ready(view, "map"), view.locator(".strata-status")
    expect(status).to_have_text("cell 20: equal to the bit in all 22 arrays")
    expect(ready(view, "sizes")).to_contain_text("Nothing differs")

    view.get_by_role("button", name="Look again").press("Enter")
    expect(status).to_contain_text("cell 22: 1 of 22 arrays differ, in ple_conv")
    view.get_by_label("Part", exact=True).select_option("gdn_state")
    expect(view.locator("caption")).to_have_text("Arrays of gdn_state")
    # Its sign lies upon the box and means the same.
    box = boxes.locator("path[aria-label^='ple_conv, layer 1: differs']")
    box.click(force=True)
    expect(status).to_have_attribute("data-layer", "1")
    expect(view.get_by_label("Part", exact=True)).to_have_value("ple_conv")
    row = view.locator("tbody tr")
    expect(row).to_contain_text("differs")
    expect(row).to_contain_text("of 4,608")
    assert notebook.in_kernel("print(diff.part, diff.selection['layer'])") == (
        "ple_conv 1"
    )
    counted = "print(f'{diff._now.differing[0].differing:,} of 4,608')"
    expect(row).to_contain_text(notebook.in_kernel(counted))
    view.get_by_label("Layer", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(status).to_contain_text("layer 2 is selected, which has no ple_conv")
    notebook.in_kernel("diff.choose('kv'); diff.select(layer=7)")
    expect(view.locator("caption")).to_have_text("Arrays of kv, layer 7")
    assert notebook.cells() == 2


def test_cells_are_chosen_and_tokens_stay_text(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("told.ipynb", cells=[CELL, HISTORIES])
    page, view = notebook.page, panel(notebook.page, "histories")
    cells, status = ready(view, "cells"), view.locator(".strata-status")
    expect(status).to_contain_text("1 shown cell differs, the first is 21 (PLE)")
    expect(view.locator("tbody tr")).to_have_count(23)
    expect(view.locator("tbody")).to_contain_text("onerror")
    expect(view.locator("tbody img")).to_have_count(0)

    cells.locator("path[aria-label='cell 21 differs: PLE']").click()
    expect(status).to_have_attribute("data-cell", "21")
    expect(status).to_have_attribute("data-window", "1")
    expect(view.locator("tr.strata-marked .strata-is-mismatch")).to_have_count(2)
    view.get_by_label("Cell", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    expect(status).to_have_attribute("data-cell", "20")
    assert notebook.in_kernel("print(diff.selection)") == (
        "{'window': 1, 'layer': None, 'cell': 20}"
    )
    # The table is long, and shows the row that is selected.
    assert view.locator("tr.strata-marked").evaluate(INSIDE)
    notebook.in_kernel("diff.select(cell=3)")
    expect(view.locator("tr.strata-marked td").first).to_have_text("3")
    notebook.in_kernel("window = tokens.run([ids[22], 9]); told.refresh()")
    expect(status).to_contain_text("2 rows of the open window are pending")
    view.get_by_role("button", name="Read the state").press("Enter")
    expect(view.locator("tbody tr")).to_have_count(24)
    assert page.evaluate("() => window.hacked") is None
    assert notebook.cells() == 2
