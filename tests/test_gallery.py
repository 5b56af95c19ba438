"""The gallery shows every widget in its own words, the badges what is so."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import strata_widgets
from strata_widgets import StrataWidget

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 70_000
# What others are made of: it has no picture of its own.
BASES = {"StrataWidget", "LiveChart"}


def tool(name: str = "make_gallery") -> ModuleType:
    path = ROOT / f"tools/{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_widget_is_in_it() -> None:
    found = {name: getattr(strata_widgets, name) for name in strata_widgets.__all__}
    widgets = {
        name
        for name, one in found.items()
        if isinstance(one, type) and issubclass(one, StrataWidget)
    }
    assert set(tool().MAKERS) == widgets - BASES


def test_the_page_is_what_the_tool_writes() -> None:
    assert tool().PAGE.read_text(encoding="utf-8") == tool().page()


def test_each_picture_is_there_and_small() -> None:
    for name in tool().MAKERS:
        picture = (tool().FOLDER / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < LARGEST, name


def test_views_can_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tool("measure_views")
    monkeypatch.setattr(made, "WINDOWS", 80)
    made.in_this_process()
    said = capsys.readouterr().out
    assert all(kind.__name__ in said for kind in made.VIEWS)
    made.report([], [], [])
    assert "no chart drew a frame" in capsys.readouterr().out
    # Ten frames of one chart and five of another, in a second; one is out of view.
    drawn = [(100.0 * n, "rows") for n in range(11)] + [
        (200.0 * n, "map") for n in range(5)
    ]
    heard = [(50.0 * n, "comm_msg") for n in range(20)]
    made.report([*drawn, (0.0, "away")], heard, ["rows", "map"])
    said = capsys.readouterr().out
    assert "5.0 frames a second (`map`, the slowest)" in said
    assert "20.0 messages a second" in said


def test_each_badge_says_what_the_project_says() -> None:
    made = tool("make_badges")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, text in made.badges().items():
        assert (made.FOLDER / name).read_text(encoding="utf-8") == text
        assert f"docs/badges/{name}" in readme
