"""JupyterLab in a real browser, shut off from every network but loopback."""

import contextlib
import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
# What is waited for ends a wait at once, so this long is only what fails (in ms).
PATIENCE = 60_000
# `STRATA_SLOW_PAGE=6` makes the page's processor so many times slower: what a slow
# machine brings to light is found on a fast one.
SLOWER = float(os.environ.get("STRATA_SLOW_PAGE", "1"))
expect.set_options(timeout=PATIENCE)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}
IDLE = """() => {
  const shown = window.jupyterapp?.shell.currentWidget;
  return !!(shown?.content && shown.context.isReady && shown.sessionContext.isReady
    && shown.sessionContext.session?.kernel?.status === 'idle');
}"""
RUN_ALL = """() => Promise.race([
  window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => 'done'),
  new Promise((resolve) => setTimeout(() => resolve('timeout'), 300000))])"""
IN_KERNEL = """async (code) => {
  const session = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const asked = session.kernel.requestExecute({ code, store_history: false });
  let out = '';
  asked.onIOPub = (message) => {
    const { text, traceback } = message.content;
    if (message.header.msg_type === 'stream') out += text;
    if (message.header.msg_type === 'error') out += traceback.join('\\n');
  };
  const late = new Promise((_, reject) => setTimeout(() => reject("no answer"), 60000));
  await Promise.race([asked.done, late]);
  return out;
}"""
# Each view is there and each chart shows all that has come.
RESTED = """() => {
  const shown = [...document.querySelectorAll("[data-mime-type*='widget-view']")];
  const charts = [...document.querySelectorAll('.strata-place, .strata-chart')];
  return shown.every((one) => one.querySelector('.jupyter-widgets')
      && !one.querySelector('.jupyter-widgets:empty'))
    && charts.every((one) => one.matches('.strata-chart')
      ? ['ready', 'error'].includes(one.dataset.state) : one.childElementCount);
}"""
# anywidget's word about a model that took 2 s to begin; ours hear all the same
# (`test_late.py`).
LATE = "[anywidget] Failed to initialize model."
# An image that has just come is not decoded yet; one that can't be makes this fail.
DECODED = "(image) => image.decode().then(() => image.naturalWidth > 0)"
SHUT_DOWN = "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name where no browser is found."""
    if chromium() is None:
        reason = f"none of {', '.join(BROWSERS)} is on the path"
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason=reason))


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@dataclass
class Lab:
    """A running JupyterLab or Notebook: where it is, and the folder it serves."""

    url: str
    token: str
    folder: Path
    page: str = "doc/tree"


@dataclass
class Opened:
    """A notebook on the page, and whatever went wrong there."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def in_kernel(self, code: str) -> str:
        """Run `code` beside the notebook and return what it printed."""
        return str(self.page.evaluate(IN_KERNEL, code)).strip()

    def rest(self) -> None:
        """Wait until the page shows all that Python has sent."""
        # Answers come in the order of questions: what was asked before has come too.
        self.in_kernel("pass")
        self.page.wait_for_function(RESTED)

    def until(self, code: str, want: str) -> None:
        """Wait until `code` prints `want` in the kernel."""
        end = time.monotonic() + PATIENCE / 1000
        while (got := self.in_kernel(code)) != want and time.monotonic() < end:
            self.page.wait_for_timeout(100)
        assert got == want

    def cells(self) -> int:
        """Return how many cells the notebook has."""
        script = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
        return int(self.page.evaluate(script))

    def save(self) -> None:
        """Save the notebook."""
        # Not Lab's command, which does nothing while Lab is saving by itself.
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start JupyterLab with settings of its own, serving copies of the notebooks."""
    home = tmp_path_factory.mktemp("lab")
    ask_nobody(home / "settings")
    with served(home, "jupyterlab", "LabApp") as started:
        yield started


@contextlib.contextmanager
def served(home: Path, module: str, app: str) -> Iterator[Lab]:
    """Serve copies of the notebooks by `module`, whose settings are those of `app`."""
    folder = home / "notebooks"
    shutil.copytree(REPOSITORY / "notebooks", folder)
    environment = dict(os.environ, JUPYTER_TOKEN=secrets.token_hex(16))
    for name, place in FOLDERS.items():
        (home / place).mkdir(exist_ok=True)
        environment[name] = str(home / place)
    command = [
        sys.executable, "-m", module, "--no-browser", "--allow-root",
        "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0",
        f"--ServerApp.root_dir={folder}", f"--{app}.expose_app_in_browser=True",
    ]  # fmt: skip
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        url = _wait(process, home)
        yield Lab(url, environment["JUPYTER_TOKEN"], folder)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask_nobody(settings: Path) -> None:
    file = settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text('{"fetchNews": "false", "checkForUpdates": false}')


def _wait(process: subprocess.Popen[bytes], home: Path) -> str:
    """Wait for the server's answer; it says in a file which port it chose."""
    told = home / FOLDERS["JUPYTER_RUNTIME_DIR"] / f"jpserver-{process.pid}.json"
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        # The file may be half written, and the server too busy for an answer yet.
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            server = json.loads(told.read_text())
            url = f"http://127.0.0.1:{server['port']}"
            status = f"{url}/api/status?token={server['token']}"
            with urllib.request.urlopen(status, timeout=10):
                return url
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{(home / 'log').read_text()[-2000:]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Open the browser once."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium(), args=list(ARGUMENTS), timeout=3 * PATIENCE
        )
        yield opened
        opened.close()


OpenNotebook = Callable[..., Opened]


@pytest.fixture
def open_notebook(
    lab: Lab, browser: Browser, request: pytest.FixtureRequest
) -> Iterator[OpenNotebook]:
    """Give a function that opens a notebook and runs it; it fails on whatever is wrong.

    Wrong is a request to anywhere but loopback, an error on the console or the page,
    and an error output.
    """
    with opening(lab, browser) as open_it:
        yield open_it


@contextlib.contextmanager
def opening(lab: Lab, browser: Browser) -> Iterator[OpenNotebook]:
    """What `open_notebook` gives, for any server."""
    opened: list[Opened] = []

    def open_it(
        name: str,
        *,
        cells: Sequence[str] = (),
        run: bool = True,
        size: tuple[int, int] = (1400, 1000),
    ) -> Opened:
        if cells:
            _write_notebook(lab.folder / name, cells)
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        notebook = Opened(_new_page(context))
        opened.append(notebook)
        _watch(notebook, lab)
        address = f"{lab.url}/{lab.page}/{name}?token={lab.token}&reset"
        notebook.page.goto(address)
        notebook.page.wait_for_function(IDLE)
        if run:
            assert notebook.page.evaluate(RUN_ALL) == "done"
            notebook.page.wait_for_function(IDLE)
            notebook.rest()
        return notebook

    yield open_it
    wrong = []
    for notebook in opened:
        outputs = notebook.page.locator(".jp-OutputArea-output[data-mime-type*=stderr]")
        try:
            wrong += notebook.wrong + outputs.all_inner_texts()
            notebook.page.evaluate(SHUT_DOWN)
        finally:
            notebook.page.context.close()
    assert not wrong


def _new_page(context: BrowserContext) -> Page:
    # Lab's first page is more than anything later.
    context.set_default_timeout(2 * PATIENCE)
    page = context.new_page()
    if SLOWER > 1:
        throttle = context.new_cdp_session(page)
        throttle.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    return page


def _write_notebook(path: Path, cells: Sequence[str]) -> None:
    made: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    # Without a kernel's name, JupyterLab asks for one in a dialog.
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    for source in cells:
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
        made.cells.append(cell)
    nbformat.write(made, path)  # type: ignore[no-untyped-call]


def _watch(notebook: Opened, lab: Lab) -> None:
    page, wrong = notebook.page, notebook.wrong

    def asked(request: Any) -> None:
        inside = (lab.url, lab.url.replace("http", "ws"), "blob:", "data:")
        if not request.url.startswith(inside):
            wrong.append(f"request to {request.url}")

    def logged(message: Any) -> None:
        place = str(message.location.get("url", ""))
        # Jupyter's own requests to its own server, which answered 500 once under load
        # as a page closed; what the page shows is looked at all the same.
        is_jupyters = "status of 500" in message.text and place.startswith(
            (f"{lab.url}/api/", f"{lab.url}/lab/api/")
        )
        if message.type == "error" and not is_jupyters:
            wrong.append(f"console: {message.text}")

    def broke(error: Any) -> None:
        if LATE not in str(error):
            wrong.append(f"page: {error}")

    page.on("request", asked)
    page.on("console", logged)
    page.on("pageerror", broke)
