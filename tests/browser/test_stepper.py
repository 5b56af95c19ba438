"""`Stepper` on a page: typed drafts, clicks, keys, charts, hostile text."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import Opened, OpenNotebook

pytestmark = pytest.mark.browser

FAKE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from strata_widgets import Stepper
from widgets.fake_model import HOSTILE, FakeModel

stepper = Stepper(FakeModel().engine(), prompt="def f(x")
stepper
"""

DRAFTER = FAKE.replace('"def f(x"', '"def f(x", drafter=Perfect(SCRIPT)').replace(
    "import HOSTILE, FakeModel",
    "import HOSTILE, SCRIPT, FakeModel\nfrom strata_nb.draft import Perfect",
)

COMMAND_MODE = "() => window.jupyterapp.commands.execute('notebook:enter-command-mode')"


RUN_AT_ONCE = """(text) => {
  const field = document.querySelector('.strata-draft');
  field.value = text;
  field.dispatchEvent(new Event('input'));
  document.querySelector('[data-verb=run]').click();
}"""
AT_THE_END = """() => {
  const box = document.querySelector('.strata-text');
  return box.scrollTop + box.clientHeight === box.scrollHeight
    && box.clientHeight % 26 === 0 && box.clientHeight < box.scrollHeight;
}"""
RESTART = """() =>
  window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"""


def status(page: Page) -> Locator:
    return page.locator(".strata-status").first


def phase(page: Page, name: str) -> None:
    """Wait for Python's echo; what the page did by itself proves nothing."""
    expect(status(page)).to_have_attribute("data-phase", name)


def button(page: Page, name: str) -> Locator:
    # Until Python's answer a click does nothing.
    expect(page.locator(".strata-waiting")).to_have_count(0)
    return page.get_by_role("button", name=name, exact=True).first


def draft(page: Page) -> Locator:
    return page.get_by_label("Draft", exact=True).first


def chart(page: Page, name: str) -> Locator:
    """Return a chart that is drawn."""
    found = page.locator(f".strata-{name} .strata-chart").first
    expect(found).to_have_attribute("data-state", "ready")
    return found


def bars(drawn: Locator) -> Locator:
    return drawn.locator("path[aria-roledescription=bar]")


def labels(drawn: Locator) -> list[str]:
    """The labels of one moment; which one, `Opened.rest` says."""
    said = bars(drawn).evaluate_all("(all) => all.map((bar) => bar.ariaLabel)")
    return [str(label) for label in said]


def test_type_run_finish_keep_commit(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("fake.ipynb", cells=[FAKE])
    page = notebook.page
    windows, union = chart(page, "windows"), chart(page, "union")
    expect(windows).to_contain_text("Commit a window with drafts")
    assert labels(windows) == labels(union) == []

    draft(page).fill("):\n    return * 2")
    preview = page.locator(".strata-preview")
    expect(preview).to_contain_text("4 drafts:")
    expect(preview.locator(".strata-chip")).to_have_text(
        ["):", "↵", "····return", "·*·2"]
    )
    button(page, "Run").click()
    phase(page, "run")
    expect(bars(union)).not_to_have_count(0)
    button(page, "Finish").click()
    phase(page, "finished")
    expect(page.locator(".strata-verdict")).to_have_text(
        ["root", "accepted", "accepted", "accepted", "first mismatch"]
    )
    slider = page.get_by_label("Keep rows")
    expect(slider).to_have_value("4")
    slider.focus()
    # At once, with no wait for an echo: the click brings the slider's value along.
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    button(page, "Commit").click()
    phase(page, "committed")
    expect(draft(page)).to_have_value("")
    expect(status(page)).to_have_attribute("data-keep", "2")
    expect(status(page)).to_have_attribute("data-position", "4")
    expect(windows).not_to_contain_text("Commit a window with drafts")
    notebook.rest()
    assert sorted(labels(windows)) == [
        "window 1: 0 first mismatch",
        "window 1: 0 never reached",
        "window 1: 1 accepted",
    ]
    assert notebook.in_kernel("print(stepper.engine.trace[-1].keep)") == "2"

    # A page that is opened again asks the kernel for the state and the rows.
    notebook.save()
    page.reload()
    phase(page, "committed")
    expect(bars(chart(page, "windows"))).not_to_have_count(0)


def test_errors_are_words_and_change_nothing(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("errors.ipynb", cells=[FAKE])
    page = notebook.page
    draft(page).fill("#1 #2 #3 #4 #5 #6 #7 #8")
    expect(button(page, "Run")).to_be_disabled()
    expect(page.locator(".strata-why")).to_have_text("8 drafts, at most 7")
    preview = page.locator(".strata-preview")
    expect(preview.locator(".strata-chip")).to_have_count(7)
    expect(preview).to_contain_text("… 1 more; a window takes at most 7 drafts")
    draft(page).fill("#99999")
    expect(preview).to_contain_text("got #99999")
    # Faster than the preview, the engine's own word; but never both.
    page.evaluate(RUN_AT_ONCE, "#88888")
    expect(preview).to_contain_text("got #88888")
    expect(page.get_by_text("got #88888")).to_have_count(1)
    phase(page, "ready")
    draft(page).fill(" x")
    expect(button(page, "Run")).to_be_enabled()
    expect(preview).to_contain_text("1 draft")
    notebook.rest()
    below = page.locator(".strata-charts").bounding_box()
    button(page, "Run").click()
    phase(page, "run")
    notebook.rest()
    assert page.locator(".strata-charts").bounding_box() == below
    expect(button(page, "Run")).to_be_disabled()
    button(page, "Finish").click()
    phase(page, "finished")
    expect(page.get_by_label("Keep rows")).to_have_attribute("max", "1")
    page.get_by_label("force more").check()
    expect(page.get_by_label("Keep rows")).to_have_attribute("max", "2")
    button(page, "Abort").click()
    phase(page, "aborted")
    expect(status(page)).to_have_attribute("data-position", "2")
    expect(page.locator(".strata-verdict")).to_have_count(0)
    # The window came and went, and nothing below it moved.
    notebook.rest()
    assert page.locator(".strata-charts").bounding_box() == below
    button(page, "Fill in the model's own").click()
    expect(draft(page)).to_have_value("):\n    return")


def test_the_end_of_a_long_text_is_seen_at_once(open_notebook: OpenNotebook) -> None:
    long = FAKE.replace('"def f(x"', '"def f(x):\\n" * 12 + "def"')
    page = open_notebook("long.ipynb", cells=[long]).page
    expect(page.locator(".strata-root")).to_be_in_viewport()
    page.wait_for_function(AT_THE_END)


def test_a_kernel_that_is_gone_is_said(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("gone.ipynb", cells=[FAKE])
    page = notebook.page
    phase(page, "ready")
    page.evaluate(RESTART)
    button(page, "Run").click()
    expect(status(page)).to_have_text("the kernel is gone; run this cell again")
    expect(button(page, "Run")).to_be_disabled()


def test_hostile_text_is_shown_as_text(open_notebook: OpenNotebook) -> None:
    page = open_notebook("hostile.ipynb", cells=[FAKE]).page
    hostile = '<img src=x onerror="window.hacked=1">'
    # First as a draft, then, kept by force, in the committed text.
    draft(page).fill(hostile + hostile)
    button(page, "Run").click()
    phase(page, "run")
    shown = hostile.replace(" ", "·")
    expect(page.locator(".strata-rows tbody td:nth-child(2)").nth(1)).to_contain_text(
        shown
    )
    button(page, "Finish").click()
    phase(page, "finished")
    page.get_by_label("force more").check()
    page.get_by_label("Keep rows").focus()
    page.keyboard.press("End")
    button(page, "Commit").click()
    phase(page, "committed")
    expect(page.locator(".strata-text")).to_contain_text(shown)
    # And in an error, which quotes what was typed.
    draft(page).fill("<script>window.hacked=1</script>")
    expect(page.locator(".strata-preview .strata-error")).to_contain_text(
        "<script>window.hacked=1</script>"
    )
    expect(page.locator(".strata-stepper :is(img, script, b)")).to_have_count(0)
    assert page.evaluate("() => window.hacked") is None


def test_controls_have_names_and_keep_their_keys(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("keys.ipynb", cells=[FAKE, "1"])
    page = notebook.page
    for name in ("windows", "positions", "union"):
        chart(page, name)
    _check_names(page)
    draft(page).focus()
    order = []
    for _ in range(5):
        page.keyboard.press("Tab")
        order.append(page.evaluate("() => document.activeElement.textContent"))
    assert order[:3] == ["Fill in the model's own", "Fill in one wrong", "Run"]

    draft(page).fill("):")
    # Enter on a focused button; the button goes off, and the focus moves on with it.
    button(page, "Run").focus()
    page.keyboard.press("Enter")
    phase(page, "run")
    expect(button(page, "Finish")).to_be_focused()
    page.keyboard.press("Space")
    phase(page, "finished")
    controls = (
        button(page, "Commit"),
        page.get_by_label("Keep rows"),
        page.get_by_label("force more"),
        draft(page),
        page.locator(".strata-text"),
        page.locator(".strata-union .strata-chart"),
    )
    for control in controls:
        # Only then are letters the notebook's: typing in a field had left this mode.
        page.evaluate(COMMAND_MODE)
        control.focus()
        # This key alone: it inserts a cell, and others would delete that one again.
        page.keyboard.press("b")
        assert notebook.cells() == 2
    expect(draft(page)).to_have_value("):b")

    draft(page).fill("):")
    page.keyboard.press("Control+Enter")
    phase(page, "finished")  # a window is open: Run is off, and so is its key
    button(page, "Abort").click()
    phase(page, "aborted")
    draft(page).press("Control+Enter")
    phase(page, "run")


def _check_names(page: Page) -> None:
    named = page.locator(".strata-stepper").aria_snapshot()
    for role_and_name in (
        'group "Stepper"',
        'region "Committed text, then the root"',
        'textbox "Draft"',
        'button "Run"',
        'button "Finish"',
        'slider "Keep rows"',
        'checkbox "force more"',
        'button "Commit"',
        'button "Abort"',
        "status: ready, position 2",
    ):
        assert role_and_name in named
    described = page.locator(".strata-stepper [role=graphics-document]")
    assert all(d.get_attribute("aria-label") for d in described.all())
    assert described.count() == 3


def record(notebook: Opened, field: str) -> str:
    return notebook.in_kernel(f"print(stepper.engine.trace[-1].{field})")


def window_by_clicks(page: Page) -> None:
    for name, ends in (("Run", "run"), ("Finish", "finished"), ("Commit", "committed")):
        button(page, name).click()
        phase(page, ends)


def test_a_draft_is_taken_and_may_be_edited(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("take.ipynb", cells=[DRAFTER])
    page = notebook.page
    said = page.locator(".strata-message")
    take = button(page, "Take from perfect")
    take.click()
    expect(said).to_have_text("perfect proposes 7 drafts. Edit them, or Run.")
    expect(draft(page)).to_have_value("):\n    return x + 1\ndef")
    expect(page.locator(".strata-preview .strata-chip")).to_have_count(7)
    window_by_clicks(page)
    assert record(notebook, "drafter") == "perfect"
    expect(draft(page)).to_have_value("")

    # By keyboard, and then edited: it is typed.
    take.focus()
    page.keyboard.press("Enter")
    expect(said).to_contain_text("perfect proposes 7 drafts")
    expect(draft(page)).to_have_value("(x):\n    return x * 2\n")
    draft(page).fill("(x):")
    window_by_clicks(page)
    assert record(notebook, "drafter") == "hand"

    # From a cell, it reaches the field too; and what went wrong is said in words.
    notebook.in_kernel("stepper.take()")
    expect(draft(page)).to_have_value("    return x * 2\n<end>")
    notebook.in_kernel("stepper._proposals._drafter.propose = lambda most: 1 / 0")
    take.click()
    expect(said).to_have_role("alert")
    expect(said).to_contain_text("raised ZeroDivisionError: division by zero; type a")
    expect(draft(page)).to_have_value("    return x * 2\n<end>")


def test_going_back_by_keyboard(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("back.ipynb", cells=[FAKE])
    page = notebook.page
    windows = chart(page, "windows")
    places = page.get_by_label("Back to cell")
    expect(places).to_be_disabled()
    expect(page.get_by_text("no checkpoint lies before this cell")).to_be_visible()
    for text in ("):\n", " x + 1\n"):
        draft(page).fill(text)
        window_by_clicks(page)
    expect(status(page)).to_have_attribute("data-position", "9")
    expect(places.locator("option")).to_have_text(["5, after window 1", "2, the start"])
    expect(places).to_have_value("5")
    expect(bars(windows)).not_to_have_count(0)

    draft(page).fill(" x")
    button(page, "Run").click()
    phase(page, "run")
    expect(button(page, "Go back")).to_be_disabled()
    expect(
        page.get_by_text("a window is open: Commit or Abort it first")
    ).to_be_visible()
    button(page, "Abort").click()
    phase(page, "aborted")

    button(page, "Run").focus()
    page.keyboard.press("Tab")
    expect(places).to_be_focused()
    cells = notebook.cells()
    page.keyboard.press("b")
    page.keyboard.press("ArrowDown")
    expect(places).to_have_value("2")
    page.keyboard.press("Tab")
    expect(button(page, "Go back")).to_be_focused()
    page.keyboard.press("Enter")
    expect(status(page)).to_have_attribute("data-position", "2")
    phase(page, "ready")
    said = page.locator(".strata-message")
    expect(said).to_have_text("Back at cell 2: 2 windows are undone.")
    # The button went off, and the focus moved on with it.
    expect(button(page, "Run")).to_be_focused()
    expect(bars(windows)).to_have_count(0)
    expect(page.locator(".strata-text .strata-chip")).to_have_text(
        ["def", "·f", "(xroot"]
    )
    assert notebook.in_kernel("print(stepper.engine.position)") == "2"
    assert notebook.cells() == cells

    draft(page).fill("):")
    window_by_clicks(page)
    expect(places).to_have_value("2")
    button(page, "Go back").click()
    expect(said).to_have_text("Back at cell 2: 1 window is undone.")


def test_a_page_opened_later_has_the_draft(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("later.ipynb", cells=[DRAFTER])
    page = notebook.page
    button(page, "Take from perfect").click()
    expect(draft(page)).not_to_have_value("")
    notebook.save()
    page.reload()
    expect(draft(page)).to_have_value("):\n    return x + 1\ndef")
    expect(page.locator(".strata-preview .strata-chip")).to_have_count(7)
    window_by_clicks(page)
    assert record(notebook, "drafter") == "perfect"
