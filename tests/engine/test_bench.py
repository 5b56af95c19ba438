"""The benchmarks: what would measure nothing is refused before it starts."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from strata_nb import Model, cli
from strata_nb.bench import draft_texts, drafters, head_cost
from strata_nb.bench import engine as bench
from strata_nb.bench.draft_texts import TEXTS
from strata_nb.draft import Constant, Draft
from strata_nb.engine import Engine
from strata_nb.errors import StrataError


def options(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(given)


@pytest.mark.parametrize("option", ["--rounds", "--context"])
@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "x", "1" + "0" * 26, "9" * 5000])
def test_numbers_that_are_no_measurement_are_refused(
    option: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options(option, wrong)
    message = capsys.readouterr().err
    assert f"argument {option}: wanted a whole number from 1 to 1" in message
    assert len(message) < 500


def test_the_limits_themselves_are_taken() -> None:
    assert options("--rounds", "1").rounds == 1
    assert options("--rounds", "1000", "--context", "1").rounds == 1000
    assert (options().rounds, options().context) == (40, 200)


@pytest.mark.parametrize(
    ("given", "cells"),
    [
        (["--context", "99999999"], 99999999 + 45 * 8),
        (["--context", "7833"], 7833 + 45 * 8),
        (["--rounds", "1000"], 200 + 1005 * 8),
    ],
)
def test_what_the_model_has_no_cells_for_is_refused(
    given: list[str], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before anything is measured: the next step would fail otherwise.
    monkeypatch.setattr(bench, "_memory_ratio", None)
    with pytest.raises(StrataError, match=f"take {cells} cells, strata-tiny has 8192;"):
        bench.main(options(*given))


def test_the_default_and_the_largest_context_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class MeasuredError(Exception):
        pass

    def measured(*_: object) -> None:
        raise MeasuredError

    monkeypatch.setattr(bench, "_memory_ratio", measured)
    for given in ([], ["--context", "7832"]):
        with pytest.raises(MeasuredError):
            bench.main(options(*given))


class Counting(Constant):
    """Writes down what it is told."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__([1])
        self.told: list[tuple[str, Any]] = []

    def assign(self, tokens: Sequence[int]) -> None:
        self.told.append(("assign", list(tokens)))

    def append(self, tokens: Sequence[int]) -> None:
        self.told.append(("append", list(tokens)))

    def propose(self, most: int) -> Draft:
        self.told.append(("propose", most))
        return super().propose(most)


def test_each_round_begins_at_the_same_history() -> None:
    one, other = Counting(), Counting()
    makers: drafters.Makers = {"one": lambda: one, "other": lambda: other}
    ran: list[int] = []
    text = [7, 8, 9, 1, 10]
    costs, rows = drafters.measure(
        makers, text, 2, rounds=3, alone=lambda: ran.append(0)
    )
    assert costs.keys() == {"one", "other"}
    assert len(ran) == len(rows) == 3
    for cost in costs.values():
        assert len(cost.token) == 3
        assert len(cost.windows) == 3 * 2
        assert min(cost.token) > 0
        assert min(cost.windows) >= 0
    begin = ("assign", [7, 8])
    tokens = [("propose", 3), ("append", [9]), ("propose", 3), ("append", [1])]
    tokens += [("propose", 3), ("append", [10])]
    # The draft is 1: wrong at first, then right, and one token more is emitted.
    windows = [("propose", 7), ("append", [9]), ("propose", 7), ("append", [1, 10])]
    assert one.told == other.told == 3 * [begin, *tokens, begin, *windows]


def test_what_99_of_100_stay_under() -> None:
    assert drafters.highest([3.0, 1.0, 2.0]) == 3
    assert drafters.highest(range(100, 0, -1)) == 99
    assert drafters.highest(range(200)) == 197


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("phrases", 1000, 3000),
        ("code", 500, 4096),
        ("random", 20_000, 60_000),
        ("equal", 1, 1),
        ("period 3", 3, 3),
        ("noisy 97", 1000, 1400),
    ],
)
def test_texts_to_draft_in_are_the_same_every_time(
    name: str, least: int, most: int
) -> None:
    text = TEXTS[name]
    assert (len(text(1501)), len(text(60_000))) == (1501, 60_000)
    assert text(1500)[:700] == text(700)
    assert least <= len(set(text(60_000))) <= most


def test_code_begins_again_where_it_ends() -> None:
    whole = len(draft_texts._source())
    text = TEXTS["code"](2 * whole + 1)
    assert text[:whole] == text[whole:-1]
    assert len(text) == 2 * whole + 1


def test_drafters_are_measured_alone_or_beside_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "drafters", "--history", "20", "30", "--rounds", "1"]
    monkeypatch.setattr(drafters, "HEAD_TURNS", 1)
    monkeypatch.setitem(sys.modules, "arctic_inference.suffix_decoding", None)
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "arctic_inference is not measured beside ours\n" in out
    assert out.count("suffix_lookup, ") == out.count("suffix_trees, ") == 12
    assert "A window of one row: " in out
    assert (
        "The draft head, in windows of one row. A draft of so many tokens: 1: " in out
    )

    peer: Any = ModuleType("arctic_inference.suffix_decoding")
    peer.SuffixDecodingCache = Peer
    monkeypatch.setitem(sys.modules, "arctic_inference", ModuleType("arctic_inference"))
    monkeypatch.setitem(sys.modules, "arctic_inference.suffix_decoding", peer)
    file = tmp_path / "figures.json"
    assert cli.main([*words, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    # Three drafters, two histories, six texts, four columns; the window alone; the
    # draft head at four depths, its pairs in two windows, and a row.
    assert len(figures) == 3 * 2 * 6 * 4 + 2 + 9
    assert figures["mtp, a draft of 4, windows"] > 0
    assert figures["arctic_inference, period 3, 30 us"] > 0
    label = "suffix_trees, noisy 97, 20"
    assert 0 < figures[f"{label} us a window"] <= figures[f"{label} us a window, 99 %"]
    quickest = figures["one row, us, the quickest"]
    assert 0 < quickest <= figures["one row, us"]
    assert figures[f"{label} us, 5% of one row"] >= quickest / 20
    assert "not measured" not in capsys.readouterr().out


def test_the_draft_head_is_measured_in_windows_of_one_row(
    trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that goes on by what is run, and stands otherwise."""
    now, waiting = 3.0, 0

    def runs(engine: Engine, rows: int) -> None:
        nonlocal now, waiting
        fed = engine.options.get("mtp", "off") != "off"
        now += 2.0 + 0.3 * (rows - 1) + (0.25 * rows if fed else 0.0)
        waiting += rows if fed else 0

    def drafts(engine: Engine, most: int, **how: object) -> None:
        nonlocal now, waiting
        assert engine.options["mtp"] != "off"
        now += 0.5 * most + 0.03125 * waiting
        waiting = 0

    monkeypatch.setattr(head_cost, "_window", runs)
    monkeypatch.setattr(Engine, "draft", drafts)
    found = head_cost.measure(trained, turns=3, clock=lambda: now)
    assert found.drafts == pytest.approx({1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0})
    assert found.windows == pytest.approx({1: 0.125, 4: 0.5})
    assert found.pairs == pytest.approx({1: 0.015625, 64: 1.0})
    assert found.row == pytest.approx(0.15)
    assert found.text == (
        "The draft head, in windows of one row. A draft of so many tokens: 1: 0.25, "
        "2: 0.50, 3: 0.75, 4: 1.00.\nSo many waiting pairs more: 1: 0.02, 64: 1.00. "
        "A window of so many rows with the head on: 1: 0.12, 4: 0.50 more.\n"
        "A row more: 0.15.\n"
    )


class Peer:
    """The peer's verbs, in the order that it allows."""

    def __init__(self, depth: int, max_cached_requests: int) -> None:
        self.text: list[int] | None = None

    def start_request(self, request: int, tokens: list[int]) -> None:
        assert self.text is None
        self.text = tokens

    def add_active_response(self, request: int, tokens: list[int]) -> None:
        assert self.text is not None
        self.text += tokens

    def speculate(self, request: int, pattern: list[int], most: int) -> SimpleNamespace:
        assert self.text is not None
        assert pattern == self.text[-64:]
        return SimpleNamespace(token_ids=[1], match_len=2)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--history", "0"),
        ("--history", "x"),
        ("--history", "10000001"),
        ("--rounds", "0"),
        ("--rounds", "-1"),
        ("--rounds", "1001"),
    ],
)
def test_options_that_draft_nothing_are_refused(
    option: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "drafters", option, wrong])
    assert f"argument {option}: wanted a whole number from 1" in capsys.readouterr().err
