"""The command: what it prints, its exit codes, and that mistakes are one line."""

import argparse
import csv
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import strata_nb
from strata_nb import cli, doctor, lab
from strata_nb.bench import engine as bench
from strata_nb.trace import Trace
from trace_samples import measured_window, plain, prompt_window, window

ROOT = Path(__file__).parents[2]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A trace file with a prompt, drafts, and everything measured once."""
    path = tmp_path / "t.parquet"
    records = [prompt_window(9), window(), plain(3, 3), measured_window()]
    Trace(records, provenance={"device": "cpu"}).save(path)
    return path


def child(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "strata_nb.cli", *arguments],
        cwd=ROOT,
        text=True,
        stderr=subprocess.PIPE,
        # Words wait in a buffer, as they do in a person's shell.
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
        **options,
    )


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said when a command cannot do its work."""
    assert cli.main([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("strata-nb: ")
    return said.err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {name} " in out for name in ("lab", "doctor", "trace", "bench"))


def test_help_imports_nothing_heavy() -> None:
    # The package's own door is left out: this is about the command's modules.
    code = (
        "import sys, types\n"
        "package = types.ModuleType('strata_nb')\n"
        "package.__path__ = ['strata_nb']\n"
        "sys.modules['strata_nb'] = package\n"
        "import strata_nb.cli\n"
        "try: strata_nb.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'mlx', 'polars', 'numpy', 'altair', 'jupyterlab', 'tokenizers'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_the_distributions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    for version, printed in (
        (lambda name: {"strata-nb": "7.8.9"}[name], "7.8.9"),
        (absent, "(a source tree, not installed)"),
    ):
        monkeypatch.setattr(strata_nb, "version", version)
        with pytest.raises(SystemExit, match="0"):
            cli.main(["--version"])
        assert capsys.readouterr().out == f"strata-nb {printed}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["trace"],
        ["trace", "show"],
        ["doctor", "--nonsense"],
        ["trace", "show", "x", "--nonsense"],
        ["trace", "show", "x", "--rows", "-1"],
        ["lab", "--port", "0"],
        ["lab", "--port", "65536"],
        ["lab", "--port", "http"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_refused_with_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert "usage: strata-nb" in capsys.readouterr().err


# ------------------------------------------------------------------ trace


def test_show_prints_a_line_a_window_and_the_sums(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trace", "show", str(saved)]) == 0
    rows, sums = (
        part.splitlines() for part in capsys.readouterr().out.split("\n\n", maxsplit=1)
    )
    assert rows[0].split()[:4] == ["window", "cell", "T", "drafter"]
    assert rows[1].split()[:4] == ["0", "0", "9", "prompt"]
    assert rows[2].split() == [
        "1",
        "5",
        "3",
        "hand",
        "-",
        "2",
        "1",
        "2",
        "2",
        "5.00",
        "-",
    ]
    assert rows[4].split()[-7:] == ["2", "1", "2*", "2", "limit", "5.00", "7.80"]
    assert rows[5] == "*  keep was forced: the caller's, and not what `finish` said"
    assert "windows             3, and 1 of a prompt" in sums
    assert "rows T              3: 2, 4: 1" in sums
    assert "tokens per window   2.67" in sums
    assert "drafts accepted     5 of 7, 71.4 %" in sums
    assert "  draft 3           1 of 1, 100.0 %" in sums
    assert "ms, warm            mean 7.8, median 7.8, 95 % within 7.8; 1 window" in sums
    assert "union per layer     5.00" in sums
    assert "approximate         MoCE, ü" in sums
    assert "device: cpu" in sums


def test_show_lists_as_many_rows_as_asked(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trace", "show", str(saved), "--rows", "1"]) == 0
    rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert len(rows) == 3
    # And no word of the star, which is in a row that is not shown.
    assert rows[-1] == "… 3 more windows"
    assert cli.main(["trace", "show", str(saved), "--rows", "3"]) == 0
    assert "\n… 1 more window\n" in capsys.readouterr().out


def test_show_of_an_empty_trace_invents_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Trace().save(tmp_path / "t.parquet")
    assert cli.main(["trace", "show", str(tmp_path / "t.parquet")]) == 0
    out = capsys.readouterr().out
    assert "drafts accepted     0 of 0, -" in out
    assert "tokens per window   -" in out


def test_show_lets_no_escape_sequence_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Trace([window(drafter="\x1b[2J")], provenance={"\x1b[1m": "\r\n"})
    trace.save(tmp_path / "t.parquet")
    assert cli.main(["trace", "show", str(tmp_path / "t.parquet")]) == 0
    out = capsys.readouterr().out
    assert "?[2J" in out
    assert all(c.isprintable() or c == "\n" for c in out)


def test_convert_to_parquet_keeps_everything(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy.PARQUET"
    assert cli.main(["trace", "convert", str(saved), str(out)]) == 0
    assert Trace.load(out) == Trace.load(saved)


def test_convert_to_json_keeps_everything(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    assert cli.main(["trace", "convert", str(saved), str(out)]) == 0
    whole = json.loads(out.read_text(encoding="utf-8"))
    assert whole["version"] == "1"
    assert whole["provenance"] == {"device": "cpu"}
    assert [row["T"] for row in whole["windows"]] == [9, 3, 4, 3]
    assert whole["windows"][1]["run_ms"] is None
    assert whole["windows"][1]["layers"][0]["expert_ids"] == [3, 1, 1, 2, 7, 9]
    assert whole["windows"][2]["layers"] == []


def test_convert_to_csv_gives_one_of_the_two_tables(
    saved: Path, tmp_path: Path
) -> None:
    out = tmp_path / "t.csv"
    assert cli.main(["trace", "convert", str(saved), str(out)]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [row["T"] for row in rows] == ["9", "3", "4", "3"]
    assert json.loads(rows[1]["inputs"]) == [10, 11, 12]
    assert rows[1]["run_ms"] == ""
    assert rows[3]["drafter"] == 'Größe "✓", 草稿'
    assert cli.main(["trace", "convert", str(saved), str(out), "--layers"]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [row["window"] for row in rows] == ["0", "0", "1", "3"]
    assert json.loads(rows[2]["expert_ids"]) == [3, 1, 1, 2, 7, 9]


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("t.xlsx", [], "a trace becomes .parquet, .json or .csv, got .xlsx in t.xlsx"),
        ("t", [], "got no suffix in t; choose one of these endings"),
        ("t.json", ["--layers"], "layers are a table of their own in .csv only"),
        ("none/t.json", [], "make the folder"),
    ],
)
def test_convert_refuses_what_it_cannot_write(
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    more: list[str],
    message: str,
) -> None:
    out = saved.parent / name
    assert message in refusal(capsys, "trace", "convert", saved, out, *more)
    assert list(saved.parent.iterdir()) == [saved]


def test_compare_says_whether_two_traces_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / name) for name in ("a.parquet", "b.parquet", "c.parquet")]
    Trace([window(fold="lazy", run_ms=1)], provenance={"n": 1}).save(names[0])
    Trace([window(fold="lazy", run_ms=2)], provenance={"n": 2}).save(names[1])
    Trace([window(fold="eager")], provenance={"n": 1}).save(names[2])
    assert cli.main(["trace", "compare", *names[:2]]) == 0
    assert capsys.readouterr().out == "their provenance differs\nequal: 1 window\n"
    assert cli.main(["trace", "compare", names[0], names[2]]) == 1
    out = capsys.readouterr().out
    assert out == "1 difference; the first: window 0, fold: lazy | eager\n"
    ignoring = ["trace", "compare", names[0], names[2], "--ignore", "fold"]
    assert cli.main(ignoring) == 0


def test_mistakes_are_one_line(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = tmp_path / "none.parquet"
    assert "none.parquet" in refusal(capsys, "trace", "show", none)
    assert "directory" in refusal(capsys, "trace", "show", tmp_path)
    text = tmp_path / "two\nlines.parquet"
    text.write_text("no\ntrace\n" * 9)
    assert "whole Parquet file" in refusal(capsys, "trace", "compare", saved, text)
    said = refusal(capsys, "trace", "compare", saved, saved, "--ignore", "fald")
    assert "`ignore` must name columns" in said


@pytest.mark.parametrize("more", [[], ["--rows", "3"]])
def test_a_file_without_a_command_is_told_which(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "trace", "my runs/t.parquet", *more)
    assert said.endswith(": strata-nb trace show 'my runs/t.parquet'\n")


# ------------------------------------------------------------------ pipes and signals


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    Trace([window()] * 3000).save(path)
    reader, writer = os.pipe()
    process = child("trace", "show", str(path), "--rows", "3000", stdout=writer)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


def test_a_pipe_closed_before_the_first_word_ends_quietly(saved: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = child("trace", "show", str(saved), stdout=writer)
    os.close(writer)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


def test_ctrl_c_ends_quietly(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: Path) -> Trace:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trace, "load", interrupted)
    assert cli.main(["trace", "show", str(saved)]) == 130
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------ the others


def test_a_benchmark_reads_its_own_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[argparse.Namespace] = []

    def main(args: argparse.Namespace) -> int:
        seen.append(args)
        return 3

    monkeypatch.setattr(bench, "main", main)
    assert cli.main(["bench", "engine", "--rounds", "4"]) == 3
    assert (seen[0].rounds, seen[0].model) == (4, "strata-tiny")
    with pytest.raises(SystemExit, match="0"):
        cli.main(["bench", "engine", "--help"])
    assert "usage: strata-nb bench engine [-h] [--model" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "engine", "--nonsense"])
    assert len(seen) == 1


def test_lab_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(lab, "start", lambda **options: seen.append(options))
    cli.main(["lab", "--no-browser", "--port", "9000", "--dir", "x", "--ip=0.0.0.0"])
    cli.main(["lab"])
    assert seen == [
        {"folder": Path("x"), "port": 9000, "browser": False, "more": ["--ip=0.0.0.0"]},
        {"folder": None, "port": None, "browser": True, "more": []},
    ]


@pytest.mark.parametrize(("missing", "code"), [(True, 1), (False, 0)])
def test_doctor_prints_saves_and_answers(
    missing: bool,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    finding = doctor.Finding("no arms", "grow some", needed=missing)
    report = doctor.Report("1", "CPython 3", {}, {"mlx": "2"}, {}, [], [finding])
    monkeypatch.setattr(doctor, "examine", lambda: report)
    out = tmp_path / "r.json"
    assert cli.main(["doctor", "--report", str(out)]) == code
    said = capsys.readouterr().out
    assert "no arms\n    remedy: grow some" in said
    assert said.endswith(f"wrote {out}\n")
    assert json.loads(out.read_text())["findings"][0]["what"] == "no arms"


def test_doctor_cannot_write_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = doctor.Report("1", "CPython 3", {}, {"mlx": "2"}, {}, [], [])
    monkeypatch.setattr(doctor, "examine", lambda: report)
    assert cli.main(["doctor", "--report", str(tmp_path / "none" / "r.txt")]) == 2
    assert "make the folder" in capsys.readouterr().err
