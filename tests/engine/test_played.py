"""Policies played through a recording meet what a session with them meets."""

import math
from dataclasses import dataclass, field, replace

import pytest

from courses import PRICES, course, recording
from strata_nb import Model, Session
from strata_nb.bench.courses import Course
from strata_nb.bench.memory import RESIDENT, Memory, memories
from strata_nb.bench.played import FIXED, Player, compared
from strata_nb.bench.record import walk
from strata_nb.draft import SuffixLookup
from strata_nb.experts.replay import replay
from strata_nb.policies import Offer, Paid
from strata_nb.policies.length import FREE, Fixed, Length
from strata_nb.prompts import Kind, prompts

DRAFT, LAYER = PRICES.draft_ms["by hand"], PRICES.layer_ms


@dataclass
class Told:
    """Takes the rows it is told to, and writes down what it sees."""

    rows_: list[int]
    name: str = "told"
    offers: list[Offer] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        return most

    def cut(self, offer: Offer) -> int:
        self.offers.append(offer)
        return min(self.rows_[len(self.offers) - 1], 1 + len(offer.tokens))

    def learn(self, paid: Paid) -> None:
        self.paid.append(paid)


class Zero:
    name = "zero"

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        return 0


def test_a_window_is_worked_out_by_hand() -> None:
    text = course([3, 0, 1, 0, 0, 0, 1, 0, 0])
    policy = Told([4, 2, 1, 3, 1])
    windows = Player(PRICES).play(text, policy)
    assert [(w.position, w.rows, w.accepted, w.keep) for w in windows] == [
        (5, 4, 3, 4),
        (9, 2, 0, 1),
        (10, 1, 0, 1),
        (11, 3, 1, 2),
        (13, 1, 0, 1),
    ]
    assert [t for w in windows for t in w.emitted] == list(text.tokens)
    assert [w.ms for w in windows] == [16.5, 12.5, 10.5, 13.5, 10.0]
    # Rows 0 to 3 use experts 0 to 4 of both layers; a wrong draft the last two.
    assert [w.union for w in windows] == [2 * 5, 2 * 4, 2 * 2, 2 * 3, 2 * 2]
    assert [(p.rows, p.keep, p.decided, p.ms) for p in policy.paid] == [
        (4, 4, 3, 16.5),
        (2, 1, 1, 12.5),
        (1, 1, 0, 10.5),
        (3, 2, 2, 13.5),
        (1, 1, 0, 10.0),
    ]
    # As a session tells it: what came also judges drafts that were not verified.
    assert [p.emitted for p in policy.paid] == [w.emitted for w in windows]
    (first, *_) = policy.offers
    assert (first.position, first.tokens, first.match_length) == (5, (101, 102, 103), 4)
    assert first.chances == (0.5, 0.5, 0.5)


def test_who_looks_for_no_draft_pays_for_none() -> None:
    (window, *_) = Player(PRICES).play(course([3, 0, 0, 0]), Fixed(1))
    assert (window.ms, window.match_length) == (PRICES.window_ms[0], None)


def test_what_is_missing_is_loaded() -> None:
    text = course([3, 0, 1, 0])
    # Two slots a layer: nothing of the window before is there, but for one expert.
    memory = Memory(slots=2, load=0.5)
    windows = Player(PRICES, memory).play(text, Fixed(1))
    assert [w.misses for w in windows] == [4, 2, 2, 2]
    assert [w.wait_ms for w in windows] == [m * 0.5 * LAYER for m in (4, 2, 2, 2)]
    (whole,) = Player(PRICES, Memory(slots=8, load=2.0)).play(text, FREE)
    assert (whole.misses, whole.wait_ms) == (10, 10 * 2.0 * LAYER)
    assert whole.ms == DRAFT + PRICES.window_ms[3] + whole.wait_ms


def test_known_reads_hide_behind_what_is_computed() -> None:
    memory = Memory(slots=2, load=1.0, coverage=0.5, efficiency=0.8)
    many = {"draft_ms": 2.0, "layer_ms": 5.0}
    # Ten misses take 50 ms, of which 25 are known; 2 + 0.8 * (12 - 2) = 10 can hide.
    assert memory.wait_ms(10, compute_ms=12.0, **many) == pytest.approx(40.0)
    assert memory.wait_ms(2, compute_ms=12.0, **many) == pytest.approx(5.0)
    assert replace(memory, coverage=0.0).wait_ms(10, compute_ms=12.0, **many) == 50.0
    assert replace(memory, coverage=1.0, efficiency=1.0).wait_ms(
        2, compute_ms=12.0, **many
    ) == pytest.approx(0.0)


def test_slots_are_those_of_a_replayed_trace(trained: Model) -> None:
    """The same windows, taken from a session's trace and played through slots."""
    ids = prompts(trained, "code")[1]
    session = Session(trained, drafter=SuffixLookup(minimum=2, most=7))
    session.reply(ids, max_new=24)
    trace = [record for record in session.trace if not record.headless]
    spots = walk(trained, ids, SuffixLookup(minimum=2, most=7), max_new=24)
    text = Course("code", 1, "by hand", 24, spots)
    windows = Player(PRICES, Memory(slots=32, load=1.0)).play(text, FREE)
    total = replay(trace, slots=32).total
    assert sum(w.misses for w in windows) == total.misses > 0
    assert [w.union for w in windows] == [
        sum(layer.union_size for layer in record.layers) for record in trace
    ]


@pytest.mark.parametrize("kind", ["edit", "agent"])
@pytest.mark.parametrize("length", [Fixed(1), Fixed(3), Fixed(8), FREE])
def test_a_replay_has_the_windows_of_a_session(
    trained: Model, courses: dict[str, Course], kind: Kind, length: Length
) -> None:
    drafter = SuffixLookup(minimum=2, most=7)
    session = Session(trained, drafter=drafter, length=length)
    reply = session.reply(prompts(trained, kind)[0], max_new=24)
    windows = Player(PRICES).play(courses[kind], length)
    wanted = [
        (r.position, r.T, r.accepted, r.keep, r.emitted, r.match_length)
        for r in session.trace
        if not r.headless
    ]
    got = [
        (w.position, w.rows, w.accepted, w.keep, w.emitted, w.match_length)
        for w in windows
    ]
    assert got == wanted
    assert tuple(t for w in windows for t in w.emitted) == reply.tokens


@pytest.fixture(scope="module")
def courses(trained: Model) -> dict[str, Course]:
    found: dict[str, Course] = {}
    kinds: tuple[Kind, ...] = ("edit", "agent")
    for kind in kinds:
        ids, drafter = prompts(trained, kind)[0], SuffixLookup(minimum=2, most=7)
        spots = walk(trained, ids, drafter, max_new=24)
        found[kind] = Course(kind, 0, "by hand", 24, spots)
    return found


def test_a_row_counts_all_of_a_kind() -> None:
    told = recording(course([3, 0, 1, 0]), course([1, 0]), course([0], kind="prose"))
    rows = list(compared(told, FIXED, memories=memories(8)))
    assert len(rows) == 2 * 4 * 8
    by = {(r.kind, r.memory, r.policy): r for r in rows}
    row = by["code", "resident", "T = 2"]
    # Both texts: windows of 2, 2 and of 2; places 0, 2 and 0.
    assert (row.tokens, row.windows, row.mean_rows, row.acceptance) == (6, 3, 2.0, 1.0)
    assert row.ms == pytest.approx(3 * (12.0 + DRAFT))
    assert row.speed == pytest.approx(6 * 10.0 / row.ms)
    assert (row.misses, row.bytes_read) == (0, 0)
    few = by["code", "load 4", "T = 2"]
    assert few.bytes_read == few.misses * 100 > 0
    assert few.ms == pytest.approx(row.ms + few.misses * 4 * LAYER)
    assert {by[k, m, "T = 1"].speed for k, m, _ in by} == {1.0}


def test_memories_and_rows_are_refused_by_name() -> None:
    for change, said in (
        ({"slots": 0}, "`slots` is 0"),
        ({"load": math.inf}, "`load` is inf"),
        ({"coverage": 2.0}, "`coverage` is 2.0"),
    ):
        with pytest.raises(ValueError, match=said):
            replace(RESIDENT, **change)
    with pytest.raises(ValueError, match="'zero' wants 0 rows, wanted 1 to 4"):
        Player(PRICES).play(course([3, 0, 1, 0]), Zero())
    assert [m.name for m in memories(128)] == [
        *("resident", "load 0.25", "load 1", "load 4")
    ]
    assert Memory(slots=1, load=1.0, coverage=0.5).name == "load 1, 0.5 ahead"
