"""Opening JupyterLab: which folder, which options, and no word to the network."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from strata_nb import lab
from strata_nb.errors import StrataError

ROOT = Path(__file__).parents[2]
NOTIFICATION = "@jupyterlab/apputils-extension:notification"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space in its name and the first notebook in it."""
    path = tmp_path / "note books"
    path.mkdir()
    book: dict[str, Any] = {"cells": [], "metadata": {}}
    text = json.dumps(book | {"nbformat": 4, "nbformat_minor": 5})
    (path / lab.FIRST).write_text(text)
    return path


def as_user(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: number, raising=False)


def test_the_command_line_opens_the_first_notebook(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    assert lab.command(folder, port=None, browser=True) == [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--LabApp.default_url=/lab/tree/01_hand_drafts.ipynb",
    ]


def test_port_browser_and_root_are_passed_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 0)
    words = lab.command(folder, port=9000, browser=False)
    assert words[-3:] == ["--ServerApp.port=9000", "--no-browser", "--allow-root"]


def test_a_folder_without_the_first_notebook_opens_as_a_folder(tmp_path: Path) -> None:
    assert not [
        word
        for word in lab.command(tmp_path, port=None, browser=True)
        if "default_url" in word
    ]


def test_the_environment_has_this_python_and_our_defaults() -> None:
    there = lab.environment({"PATH": "/bin", "KEEP": "1"})
    assert there["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/bin"
    assert there["JUPYTER_PREFER_ENV_PATH"] == "1"
    assert there["KEEP"] == "1"
    defaults = lab.environment({})["JUPYTER_CONFIG_PATH"]
    assert list(Path(defaults).glob("labconfig/*.json"))
    both = lab.environment({"JUPYTER_CONFIG_PATH": "/mine"})["JUPYTER_CONFIG_PATH"]
    assert both == f"/mine{os.pathsep}{defaults}"
    assert lab.environment({})["PATH"] == str(Path(sys.executable).parent)
    assert (
        lab.environment({"JUPYTER_PREFER_ENV_PATH": "0"})["JUPYTER_PREFER_ENV_PATH"]
        == "0"
    )


def test_notebooks_are_found_in_the_clone_or_where_one_stands(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        lab, "__file__", str(tmp_path / "site" / "strata_nb" / "lab.py")
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StrataError, match="the notebooks are in the repository"):
        lab.notebooks(None)
    monkeypatch.chdir(folder)
    assert lab.notebooks(None) == folder
    folder.rename(tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    assert lab.notebooks(None) == tmp_path / "notebooks"
    (tmp_path / "site").mkdir()
    (tmp_path / "notebooks").rename(tmp_path / "site" / "notebooks")
    assert lab.notebooks(None) == tmp_path / "site" / "notebooks"


def test_a_named_folder_wins_and_must_exist(tmp_path: Path) -> None:
    assert lab.notebooks(tmp_path) == tmp_path
    with pytest.raises(StrataError, match=r"--dir must be a folder, got .*none"):
        lab.notebooks(tmp_path / "none")


def test_without_jupyterlab_the_remedy_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StrataError, match=r"pip install 'strata-nb\[lab\]'"):
        lab.start(folder=folder, port=None, browser=False)


def test_start_becomes_jupyterlab(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(os, "execve", lambda *words: seen.append(words))
    lab.start(folder=folder, port=9000, browser=False, more=["--ip=0.0.0.0"])
    ((program, arguments, environment),) = seen
    assert program == sys.executable
    assert arguments == [
        *lab.command(folder, port=9000, browser=False),
        "--ip=0.0.0.0",
    ]
    assert environment["JUPYTER_PREFER_ENV_PATH"] == "1"


def get(url: str, *, within_s: float = 0) -> str:
    """The body behind `url`; until `within_s` it may not be there yet."""
    end = time.monotonic() + within_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_jupyterlab_starts_beside_a_taken_port_and_asks_no_server(
    folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jupyterlab", reason="the lab extra is not installed")
    # A configuration of its own: the person's may switch the news on again.
    settings = {
        f"JUPYTER{name}": str(tmp_path / name)
        for name in ("_CONFIG_DIR", "_DATA_DIR", "_RUNTIME_DIR", "LAB_SETTINGS_DIR")
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["lab", "--no-browser", "--port", str(port), "--dir", str(folder)]
        process = subprocess.Popen(
            [sys.executable, "-m", "strata_nb.cli", *words],
            cwd=ROOT,
            env={**os.environ, **settings, "JUPYTER_TOKEN": "of-the-test"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            log = ""
            while not (found := re.search(r"http://localhost:(\d+)/lab/tree/\S+", log)):
                log += next(lines, "") or pytest.fail(log)
            assert found[0].split("?")[0].endswith(f"/lab/tree/{lab.FIRST}")
            assert int(found[1]) != port
            base, key = f"http://127.0.0.1:{found[1]}/lab", "?token=of-the-test"
            page = get(base + key, within_s=60)
            update = json.loads(get(f"{base}/api/update{key}"))
            news = json.loads(get(f"{base}/api/news{key}"))
            asking = json.loads(get(f"{base}/api/settings/{NOTIFICATION}{key}"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert '"news": {"disabled": true}' in page
    assert (update, news) == ({"notification": None}, {"news": []})
    # Its own default is "none", which asks the person.
    defaults = asking["schema"]["properties"]
    assert defaults["fetchNews"]["default"] == "false"
    assert defaults["checkForUpdates"]["default"] is False
