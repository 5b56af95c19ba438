"""JupyterLab in a real browser, shut off from every network but loopback."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
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
  new Promise((resolve) => setTimeout(() => resolve('timeout'), 120000))])"""
IN_KERNEL = """async (code) => {
  const session = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const asked = session.kernel.requestExecute({ code, store_history: false });
  let out = '';
  asked.onIOPub = (message) => {
    const { text, traceback } = message.content;
    if (message.header.msg_type === 'stream') out += text;
    if (message.header.msg_type === 'error') out += traceback.join('\\n');
  };
  await asked.done;
  return out;
}"""
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

    def cells(self) -> int:
        """Return how many cells the notebook has."""
        script = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
        return int(self.page.evaluate(script))

    def save(self) -> None:
        """Save the notebook."""
        self.page.evaluate(
            "() => window.jupyterapp.commands.execute('docmanager:save')"
        )


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", module, "--no-browser", "--allow-root",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}",
        f"--{app}.expose_app_in_browser=True",
    ]  # fmt: skip
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    started = Lab(f"http://127.0.0.1:{port}", environment["JUPYTER_TOKEN"], folder)
    try:
        _wait(f"{started.url}/api/status?token={started.token}", process, home / "log")
        yield started
    finally:
        process.terminate()
        process.wait(15)


def ask_nobody(settings: Path) -> None:
    file = settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text('{"fetchNews": "false", "checkForUpdates": false}')


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Open the browser once."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium(), args=list(ARGUMENTS)
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
        notebook = Opened(context.new_page())
        opened.append(notebook)
        _watch(notebook, lab)
        address = f"{lab.url}/{lab.page}/{name}?token={lab.token}&reset"
        notebook.page.goto(address)
        notebook.page.wait_for_function(IDLE, timeout=60_000)
        if run:
            assert notebook.page.evaluate(RUN_ALL) == "done"
            notebook.page.wait_for_function(IDLE)
        return notebook

    yield open_it
    wrong = []
    for notebook in opened:
        outputs = notebook.page.locator(".jp-OutputArea-output[data-mime-type*=stderr]")
        wrong += notebook.wrong + outputs.all_inner_texts()
        notebook.page.evaluate(SHUT_DOWN)
        notebook.page.context.close()
    assert not wrong


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
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    page.on("request", asked)
    page.on("console", logged)
    page.on("pageerror", lambda error: wrong.append(f"page: {error}"))
