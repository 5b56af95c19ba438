"""Measure what views cost: Python a window, bytes of charts, growth, frames.

    python tools/measure_views.py             in this process
    python tools/measure_views.py --browser   a request that runs in JupyterLab: the
                                              first chart, frames and messages a second

Numbers are printed, never checked: they belong to the machine that ran this.
"""

import argparse
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from strata_nb import Trace
from strata_widgets import (
    Acceptance,
    Economics,
    ExpertMap,
    FoldView,
    LiveChart,
    SlotsAndIO,
    Timeline,
)
from strata_widgets.trace_view import TraceView

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

WINDOWS: Final = 10_000
VIEWS: Final[tuple[type[TraceView], ...]] = (
    Acceptance,
    Economics,
    ExpertMap,
    FoldView,
    SlotsAndIO,
    Timeline,
)
# Until the first chart is drawn, in ms: from here on, where a cell is about to be run.
FIRST: Final = """() => new Promise((done) => {
  const began = performance.now();
  window.jupyterapp.commands.execute('notebook:run-cell-and-select-next');
  const look = () => document.querySelector('.strata-chart[data-state=ready]')
    ? done(performance.now() - began) : requestAnimationFrame(look);
  look();
})"""
# What the page draws and hears from here on; `seen` are the charts that are in view.
FRAMES: Final = """() => new Promise((done) => {
  window.drawn = [];
  window.heard = [];
  const charts = [...document.querySelectorAll('.strata-chart')];
  const name = (chart) => chart.parentElement.className.split('strata-').at(-1);
  for (const chart of charts)
    new MutationObserver(() => window.drawn.push([performance.now(), name(chart)]))
      .observe(chart, { attributes: true, attributeFilter: ['data-seq'] });
  const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
  session.kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction !== 'recv') return;
    window.heard.push([performance.now(), msg.header.msg_type]);
  });
  const view = new IntersectionObserver((found) => {
    view.disconnect();
    done(found.filter((one) => one.isIntersecting).map((one) => name(one.target)));
  });
  for (const chart of charts) view.observe(chart);
})"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--browser", action="store_true")
    if parser.parse_args(arguments).browser:
        in_a_browser()
    else:
        in_this_process()


def say(line: str) -> None:
    """Print one line."""
    sys.stdout.write(line + "\n")


def in_this_process() -> None:
    """Grow one trace under all views, one window a refresh: the dearest case."""
    from widgets.fake_trace import trace

    whole = trace(WINDOWS)
    growing = Trace(whole[:64])
    views = [kind(growing) for kind in VIEWS]
    sizes = {type(view).__name__: 0 for view in views}
    for view in views:
        note_sizes(view, sizes)
    spent: dict[str, list[float]] = {name: [] for name in sizes}
    for number in range(64, WINDOWS):
        growing.append(whole[number])
        for view in views:
            began = time.process_time()
            view.refresh()
            spent[type(view).__name__].append((time.process_time() - began) * 1e3)
    for name, times in spent.items():
        middle, most = statistics.median(times), sizes[name]
        say(f"{name:12} {middle:6.2f} ms a window, {most:6} bytes a chart's update")
    total = [sum(times) for times in zip(*spent.values(), strict=True)]
    say(f"all together {statistics.median(total):6.2f} ms a window")
    say("held, MB: " + ", ".join(f"{mb:.1f}" for mb in held(whole)))


def held(whole: Trace) -> Iterator[float]:
    """Memory that views take after the first three quarters, without the trace's."""
    growing = Trace(whole[:64])
    tracemalloc.start()
    views = [kind(growing) for kind in VIEWS]
    for number in range(64, WINDOWS):
        growing.append(whole[number])
        if number % 8 == 0:
            for view in views:
                view.refresh()
        if number % (WINDOWS // 4) == 0:
            yield tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()


def note_sizes(view: TraceView, sizes: dict[str, int]) -> None:
    """Keep the largest message of the charts of `view`; its page's is not counted."""
    name = type(view).__name__

    def noting(send: Callable[..., Any]) -> Callable[..., Any]:
        def sent(content: Any, *rest: Any) -> Any:
            sizes[name] = max(sizes[name], len(json.dumps(content)))
            return send(content, *rest)

        return sent

    for chart in charts_of(view):
        chart.send = noting(chart.send)


def charts_of(view: TraceView) -> Iterator[LiveChart]:
    """The live charts of a view."""
    yield from view._live.values()


IMPORTS: Final = """
import ipywidgets
import strata_nb
from strata_widgets import *
session = strata_nb.Session(strata_nb.load("strata-tiny"), preset="seed_stage1")
"""
CELL: Final = """
views = [Timeline(session), Acceptance(session), ExpertMap(session)]
link(*views)
live = LiveRun(session, prompt="def area(r):\\n    return", max_new=3000, views=views)
ipywidgets.VBox([live, *views])
"""
ONE: Final = "Timeline(session)"
# Pixels: a usual window, and one in which all eight charts are in view.
HEIGHTS: Final = (1000, 2600)


def in_a_browser() -> None:
    """The first chart, and frames a second while a request runs on its thread."""
    import tempfile

    from playwright.sync_api import sync_playwright

    from browser import conftest

    home = Path(tempfile.mkdtemp())
    conftest.ask_nobody(home / "settings")
    with (
        conftest.served(home, "jupyterlab", "LabApp") as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=conftest.chromium(), args=list(conftest.ARGUMENTS)
        )
        with conftest.opening(lab, browser) as open_it:
            _, first = opened(open_it, ONE, HEIGHTS[0])
            say(f"one view: first chart {first:.2f} s after its cell was run")
        for height in HEIGHTS:
            with conftest.opening(lab, browser) as open_it:
                live_run(open_it, height)
        browser.close()


def opened(open_it: Callable[..., Any], cell: str, height: int) -> tuple[Any, float]:
    """A notebook whose `cell` was run after the imports; seconds to its first chart."""
    cells = [IMPORTS, cell]
    notebook = open_it("measure.ipynb", cells=cells, run=False, size=(1400, height))
    page = notebook.page
    page.evaluate(
        "() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
    )
    return notebook, page.evaluate(FIRST) / 1e3


def live_run(open_it: Callable[..., Any], height: int) -> None:
    """Open the views in a window of `height` pixels, and run a request under them."""
    notebook, first = opened(open_it, CELL, height)
    page = notebook.page
    page.wait_for_selector(".strata-map .strata-chart[data-state=ready]")
    page.locator(".strata-panel").first.scroll_into_view_if_needed()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_timeout(1000)
    seen = page.evaluate(FRAMES)
    page.wait_for_timeout(4000)
    drawn, heard = page.evaluate("() => [window.drawn, window.heard]")
    cancel = page.get_by_role("button", name="Cancel")
    if cancel.is_enabled():
        cancel.click()
    page.wait_for_timeout(1500)
    windows = notebook.in_kernel("print(live.reply.windows)")
    say(f"1400 x {height}: {len(seen)} charts in view; {windows} windows")
    say(f"  first chart {first:.2f} s after its cell was run")
    report(drawn, heard, seen)


def report(
    drawn: list[tuple[float, str]], heard: list[tuple[float, str]], seen: list[str]
) -> None:
    """Print what came a second; a frame is one that every chart in view drew."""
    if not drawn or not seen:
        say("  no chart drew a frame")
        return
    seconds = max(at for at, _ in drawn + heard) - min(at for at, _ in drawn + heard)
    seconds = max(seconds / 1e3, 1e-9)
    frames = {name: 0 for name in seen}
    for _, name in drawn:
        if name in frames:
            frames[name] += 1
    slowest = min(frames, key=lambda name: frames[name])
    say(f"  {frames[slowest] / seconds:.1f} frames a second (`{slowest}`, the slowest)")
    say(f"  {len(heard) / seconds:.1f} messages a second")


if __name__ == "__main__":
    main()
