"""`strata-nb generate`: the answer on the output, all else beside it."""

import io
import sys
from pathlib import Path

import pytest

from strata_nb import Trace
from strata_nb.cli import main
from strata_nb.session import command

TEXT = "def add(a, b):\n    return a + b\n\n\ndef add(a, b):\n"


def run(
    capsys: pytest.CaptureFixture[str], *words: str, code: int = 0
) -> tuple[str, str]:
    assert main(["generate", *words]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_answer_and_what_it_took(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain, said = run(capsys, TEXT, "--max-new", "12")
    assert "answer: 12 tokens" in said
    assert "it ended by limit; 12 windows, 1.00 tokens a window" in said
    assert "drafts" not in said
    trace = tmp_path / "a.parquet"
    how = ["--max-new", "12", "--preset", "seed_stage1", "--trace", str(trace)]
    drafted, said = run(capsys, TEXT, *how)
    assert drafted == plain
    assert "drafts: " in said
    windows = [r for r in Trace.load(trace) if not r.headless]
    assert sum(len(r.emitted) for r in windows) == 12


def test_a_file_the_input_and_a_user(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(TEXT, encoding="utf-8")
    plain, _ = run(capsys, TEXT, "--max-new", "5")
    assert run(capsys, "--file", str(file), "--max-new", "5", "--quiet") == (plain, "")
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert run(capsys, "--file", "-", "--max-new", "5")[0] == plain
    asked = "Rename `a` to `b`:\ndef f(a):\n    return a"
    _, said = run(capsys, "--chat", asked, "--max-new", "60")
    assert "it ended by stop" in said


def test_sampling_repeats_by_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    hot = [TEXT, "--max-new", "12", "--temperature", "1.5", "--quiet"]
    one, two, other = (run(capsys, *hot, "--seed", seed)[0] for seed in ("1", "1", "2"))
    assert one == two != other
    lookup = ["--drafter", "suffix_lookup", "--frequency-penalty", "0.4"]
    with_drafts = run(capsys, *hot, *lookup)[0]
    assert with_drafts == run(capsys, *hot, "--frequency-penalty", "0.4")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "--max-new", "-1"], "`max_new` is -1, wanted 0 or more"),
        (["x", "--temperature", "-1"], "`temperature` is -1.0"),
        (["x", "--preset", "seed_stage1", "--temperature", "1"], "is for greedy"),
        (["", "--max-new", "1"], "got none at all"),
        (["x", "--model", "/nowhere"], "there is no folder"),
        (["--file", "/nowhere.txt"], "No such file"),
        (["x", "--trace", "/nowhere/a.parquet"], "make the folder /nowhere first"),
        (["x", "--trace", "/dev/null"], "it is not a regular file"),
        (["a\udcff"], r"character 1 of the text is '\udcff', half of one"),
    ],
)
def test_what_is_refused_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out, said = run(capsys, *words, code=2)
    assert out == ""
    assert message in said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


def test_an_input_that_is_no_text_is_called_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stdin)
    _, said = run(capsys, "--file", "-", code=2)
    assert said.startswith("strata-nb: the input is no text in UTF-8: ")


@pytest.mark.parametrize(("name", "code"), [("stdin", 2), ("stdout", 0), ("stderr", 0)])
def test_a_closed_stream_is_an_empty_one(
    name: str, code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As a shell closes one by `>&-`."""
    file = tmp_path / "a.txt"
    file.write_text("x", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"sys.{name}", None)
        source = "-" if name == "stdin" else str(file)
        assert main(["generate", "--file", source, "--max-new", "1"]) == code
        getattr(sys, name).close()
    captured = capsys.readouterr()
    assert bool(captured.out) is (name == "stderr")
    assert ("got none at all" in captured.err) is (name == "stdin")


def test_text_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    command._show("a\x1b[2Jb\r\x07c\n")
    assert capsys.readouterr().out == "a\\x1b[2Jb\\r\\x07c\n"


@pytest.mark.parametrize(
    "options",
    [["--drafter", "suffix_trees"], ["--slots", "9"], ["--drafter", "suffix_lookup"]],
)
def test_neither_drafts_nor_slots_change_the_text(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [TEXT, "--max-new", "12", "--quiet"]
    text, _ = run(capsys, *plain)
    assert run(capsys, *plain, *options) == (text, "")
    assert len(text) > 12


def test_no_slots_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    _, said = run(capsys, "def", "--slots", "0", code=2)
    assert "`slots` is 0, wanted 1 or more" in said
