"""The benchmark of experts in slots: its sums, its table, and how it ends."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata_nb import cli
from strata_nb.bench import expert_arms
from strata_nb.bench import experts as bench
from strata_nb.bench.expert_arms import Hits, Watched, hidden, share
from strata_nb.bench.experts import Figure, throttle_for
from strata_nb.experts import Streaming
from strata_nb.experts.pool import Taken
from strata_nb.policies import NO_PREFETCH, History, Now


class Pool:
    """A pool in which some experts are ready, whatever is taken."""

    def __init__(self, ready: Sequence[int]) -> None:
        self.ready = frozenset(ready)

    def resident(self, layer: int) -> frozenset[int]:
        return self.ready

    def take(self, layer: int, wanted: Sequence[int]) -> Taken:
        misses = tuple(e for e in wanted if e not in self.ready)
        hits = tuple(e for e in wanted if e in self.ready)
        return Taken(layer, {}, hits, misses, (), 1)


_BEFORE: set[threading.Thread] = set()
"""Threads that a test found: pools of other tests may not have been collected yet."""


@pytest.fixture(autouse=True)
def _others_are_not_ours() -> None:
    _BEFORE.clear()
    _BEFORE.update(threading.enumerate())


def readers() -> list[str]:
    """Threads of this test that read experts now."""
    names = [thread.name for thread in set(threading.enumerate()) - _BEFORE]
    return [name for name in names if name.startswith("strata-expert-")]


def test_guesses_are_counted_by_what_was_wanted_and_what_was_there() -> None:
    hits = Hits()
    assert (hits.recall, hits.precision, hits.coverage) == (0, 0, 0)
    hits.count({1, 2, 3, 4}, {2, 3, 5}, {3})
    assert hits.recall == 2 / 3
    assert hits.precision == 2 / 4
    # 2 and 5 had to be read, and 2 was said.
    assert hits.coverage == 1 / 2
    hits.count({7}, {7}, set())
    assert (hits.recall, hits.precision, hits.coverage) == (3 / 4, 3 / 5, 2 / 3)


def test_the_hidden_share_is_that_of_predicted_experts() -> None:
    assert share(1, 0) == 0
    assert hidden(0, 10, 0.5) == 1
    assert hidden(2, 10, 0.5) == pytest.approx(0.6)
    assert hidden(5, 10, 0.5) == 0
    # It made things worse; nothing was predicted, or nothing waited for.
    assert hidden(10, 10, 0.5) == -1
    assert hidden(0, 10, 0) == hidden(1, 0, 1) == 0


def test_a_throttle_takes_half_of_what_is_computed() -> None:
    throttle = throttle_for(compute_ms=40, reads=90, layers=8, nbytes=10_000)
    through_ms = 90 * 10_000 / throttle.mb_per_s / 1e3
    assert through_ms + 8 * throttle.latency_ms == pytest.approx(20)
    assert 8 * throttle.latency_ms == pytest.approx(2)
    assert throttle_for(compute_ms=40, reads=0, layers=8, nbytes=1).mb_per_s > 0


def test_a_watched_prefetch_says_what_the_other_says() -> None:
    within = History(np.ones((3, 6, 6), np.float32))
    watched, pool = Watched(within), Pool([1, 4])
    watched.watch(pool)  # type: ignore[arg-type]
    now = Now(1, 4, 6, np.array([[0, 3]]), {})
    assert watched.tasks(now) == within.tasks(now) == [(2, [0, 1])]
    assert (watched.name, watched.asks(0, layers=4)) == ("history", ())
    assert watched.said == {2: {0, 1}}
    assert watched.there == {2: {1, 4}}
    pool.take(2, [1, 4])
    # Nobody guesses for layer 0.
    pool.take(0, [0])
    assert (watched.wait_ms, watched.wait_said_ms) == (0, 0)
    # One of three that are waited for had been said.
    pool.take(2, [0, 1, 2, 3])
    assert watched.wait_said_ms == pytest.approx(watched.wait_ms / 3)
    watched.clear()
    assert (watched.said, watched.wait_ms) == ({}, 0)


@pytest.mark.parametrize(
    ("figure", "line", "held"),
    [
        (Figure("a", 1.25), ["a", "1.250"], True),
        (Figure("a", 1.5, 1.5), ["a", "1.500", "<=", "1.5"], True),
        (Figure("a", 1.6, 1.5), ["a", "1.600", "<=", "1.5", "missed"], False),
        (Figure("a", 0.8, 0.8, least=True), ["a", "0.800", ">=", "0.8"], True),
        (Figure("a", 0, 1, least=True), ["a", "0.000", ">=", "1", "missed"], False),
    ],
)
def test_a_bound_stands_beside_its_number(
    figure: Figure, line: list[str], held: bool
) -> None:
    assert figure.line().split() == line
    assert figure.held == held


def test_the_command_prints_each_number_and_writes_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in (bench, expert_arms):
        monkeypatch.setattr(module, "CONTEXT", 8)
        monkeypatch.setattr(module, "WARM_UP", 1)
    monkeypatch.setattr(bench, "REPEATS", 1)
    file = tmp_path / "figures.json"
    assert cli.main(["bench", "experts", "--rounds", "1", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    figures: dict[str, Any] = json.loads(file.read_text())
    assert len(lines) == len(figures)
    for line, (name, value) in zip(lines, figures.items(), strict=True):
        assert line.startswith(f"{name:46}{value:12.3f}")
    assert sum("<=" in line or ">=" in line for line in lines) == 7
    for rows in (1, 4, 8):
        assert figures[f"T={rows} ratio"] > 0
    for name in ("ahead 1", "ahead 2", "root ahead 1"):
        assert 0 < figures[f"{name}: recall"] <= 1
        assert 0 < figures[f"{name}: precision"] <= 1
    # One row is guessed for, and four are read.
    assert figures["root ahead 1: recall"] < figures["ahead 1: recall"]
    for name in ("slots", "held"):
        assert 0 < figures[f"{name}, bytes over the budget"] <= 1
    assert readers() == []


def test_an_interrupt_leaves_no_threads_and_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[int] = []

    def interrupted(*args: object, **more: object) -> None:
        seen.append(len(readers()))
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "side_by_side", interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cli.main(["bench", "experts"]) == 130
    assert seen[0] > 0
    assert readers() == []
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_load_takes_no_threads_along() -> None:
    ways = {
        "fine": Streaming(slots=2, prefetch=Watched(NO_PREFETCH)),
        "wrong": Streaming(slots=0, prefetch=Watched(NO_PREFETCH)),
    }
    with pytest.raises(ValueError, match="`slots`"), expert_arms.models(ways):
        pass
    assert readers() == []


@pytest.mark.parametrize("wrong", ["0", "61", "x"])
def test_rounds_are_a_whole_number(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "experts", "--rounds", wrong])
    assert "wanted a whole number from 1 to 60" in capsys.readouterr().err
