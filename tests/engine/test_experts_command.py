"""`strata-nb pack`: what it prints, and how it ends."""

from pathlib import Path

import pytest

from expert_samples import checkpoint, interrupted, packed, stopping
from strata_nb import cli
from strata_nb.experts.command import Bar, size
from strata_nb.packs import Checkpoint


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The file to make; nothing else is in its folder."""
    return tmp_path / "model.experts"


def command(*words: object) -> int:
    return cli.main(["pack", *map(str, words)])


def test_the_command_packs_and_says_so(
    source: Checkpoint, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(source.path, target, "--experts", "q4") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(
        f"wrote {target}: 6 experts (2 layers x 3) as q4 in groups of 32, "
    )
    again = packed(source, target.with_name("again"), "q4")
    assert target.read_bytes() == again.read_bytes()
    assert command(source.path, target, "--experts", "q4") == 0
    assert f"{target} is whole already: 6 experts" in capsys.readouterr().out


def test_the_command_goes_on_and_counts(
    source: Checkpoint, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(source, target, 2, kind="bfloat16")
    assert command(source.path, target) == 0
    assert "as bfloat16, " in (said := capsys.readouterr().out)
    assert ", 2 of them from before, in " in said


def test_ctrl_c_says_how_to_go_on(
    source: Checkpoint,
    target: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Bar, "show", lambda *_: stopping(1, KeyboardInterrupt())(1, 1))
    assert command(source.path, target) == 130
    assert capsys.readouterr().err == "stopped; the same command goes on from here\n"
    assert list(target.parent.glob(".*.part"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-model", "x"], r"there is no folder no-such-model; .*strata-tiny"),
        (["MODEL", "none/x"], r"make the folder .*none first"),
    ],
    ids=["model", "folder"],
)
def test_the_command_refuses_in_one_line(
    source: Checkpoint,
    tmp_path: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(*(str(source.path) if w == "MODEL" else w for w in words)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match=said):
        raise ValueError(error)


def test_the_command_knows_its_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        command("--help")
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in ("q4", "mxfp4"))
    with pytest.raises(SystemExit, match="2"):
        command("strata-tiny", "x", "--experts", "q5")


def test_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(shown=True)
    bar.show(1, 4)
    bar.show(4, 4)
    drawn = capsys.readouterr().err
    assert drawn.startswith("\r[" + "#" * 24 + "] 4 of 4 experts, 0 s left")
    bar._drawn -= 1
    bar.show(1, 4)
    assert "[######..................] 1 of 4" in capsys.readouterr().err
    bar.say("a word\033[2J")
    assert capsys.readouterr().err == "\r\033[Ka word\\x1b[2J\n"


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999 bytes"), (7_884_800, "7.9 MB"), (68e9, "68.0 GB"), (1000, "1.0 kB")],
)
def test_sizes_are_for_people(count: int, words: str) -> None:
    assert size(count) == words
