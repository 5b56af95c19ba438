"""The tail moment by moment, and an engine's own tail against the labels."""

import random

import numpy as np
import pytest

from helpers import advance, prompt
from strata_nb import Engine, Model
from strata_nb.faults import FAULTS
from strata_nb.gates.tail import engine as tail_engine
from strata_nb.gates.tail.labels import FAULT_OF, Mend, Tail
from strata_nb.gates.tail.live import History, held, indexed_layers, mend_of
from strata_nb.gates.tail.model import TailCase, cases, count, fails
from strata_nb.gates.tail.moments import (
    BEHAVIOURS,
    SOUND,
    Moment,
    moments,
    slots_of,
    wrong_pools,
)
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.policies.routing import FewerExperts
from strata_nb.trace import window_record

WORKED = TailCase(start=5, T=4, keep=1)
# Of the parts' own tests (K and V shrunk), and of a window counted by hand below.
LATER: dict[Mend, int] = {
    "K and V shrunk": 1344,
    "all blocks appended": 1184,
    "first block keys": 1184,
}


def test_every_fault_of_the_tail_is_a_behaviour() -> None:
    of_windows = [
        name
        for name, fault in FAULTS.items()
        if fault.part in ("qsa_tail", "qsa_blocks") and "reject" in fault.families
    ]
    assert sorted(BEHAVIOURS) == sorted([*of_windows, SOUND])
    assert set(FAULT_OF.values()) == {*of_windows, None}


def test_the_worked_counterexample_comes_out() -> None:
    found = moments(WORKED, "ring")
    assert [m.name for m in found] == [
        "before",
        *(f"row {row}" for row in range(4)),
        "commit",
        "right row",
        "right row",
    ]
    assert [m.cell for m in found] == [None, 5, 6, 7, 8, None, 6, 7]
    assert [m.position for m in found] == [5, 5, 5, 5, 5, 6, 7, 8]
    assert wrong_pools(found) == (
        "block 1 pools [raw8 rejected, raw5, raw6, raw7], "
        "wanted [raw4, raw5, raw6, raw7]"
    )
    lies = [[slot.lies for slot in m.slots] for m in found]
    over, mine, row, left = "over", "committed", "pending", "rejected"
    assert lies == [
        [mine, over, over, over],
        [mine, row, over, over],
        [mine, row, row, over],
        [mine, row, row, row],
        [row, row, row, row],
        [left, mine, left, left],
        [left, mine, mine, left],
        [left, mine, mine, mine],
    ]
    assert [m.pooled for m in found] == [None, None, None, 1, None, None, None, 1]
    assert [(b.block, b.wrong, b.pending) for b in found[3].blocks] == [
        (0, False, False),
        (1, False, True),
    ]
    assert [b.block for b in found[5].blocks] == [0]
    assert [(b.block, b.wrong) for b in found[-1].blocks] == [(0, False), (1, True)]


def test_replay_puts_the_slots_right() -> None:
    found = moments(WORKED, BEHAVIOURS[SOUND])
    assert wrong_pools(found) == "every pooled key is right"
    commit = next(m for m in found if m.name == "commit")
    assert [slot.key for slot in commit.slots] == ["raw4", "raw5", "raw2", "raw3"]
    assert [(slot.counts, slot.right) for slot in commit.slots] == [
        (True, True),
        (True, True),
        (False, False),
        (False, False),
    ]


def test_what_lies_in_a_slot_of_another_cell_is_misplaced() -> None:
    found = moments(WORKED, "old tail")
    assert [slot.lies for slot in found[5].slots][:2] == ["committed", "misplaced"]
    assert [(s.key, s.lies) for s in moments(WORKED, "K and V shrunk")[6].slots][1] == (
        "raw6",
        "misplaced",
    )
    # And so it is pooled.
    pooled = moments(WORKED, "old tail")[-1].blocks[-1]
    assert list(zip(pooled.cells, pooled.lies, strict=True)) == [
        (4, "committed"),
        (1, "misplaced"),
        (6, "committed"),
        (7, "committed"),
    ]


def test_a_tail_of_another_mend_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'ring' and .* 'old tail'; give `tail.mend"):
        moments(WORKED, "ring", tail=Tail(4, "old tail"))


def test_a_window_from_nothing_begins_with_empty_slots() -> None:
    first = moments(TailCase(0, 2, 1), "ring")[0]
    assert [slot.lies for slot in first.slots] == ["empty"] * 4
    assert (first.what, first.position, first.blocks) == ("nothing is committed", 0, ())


@pytest.mark.parametrize("mend", BEHAVIOURS.values())
def test_the_last_moment_is_wrong_where_the_case_fails(mend: Mend) -> None:
    for case in cases(starts=4):
        last: Moment = moments(case, mend)[-1]
        assert any(b.wrong for b in last.blocks) == fails(case, mend), case
        assert last.position == (case.position // 4 + 1) * 4


@pytest.mark.parametrize(("mend", "failures"), LATER.items())
def test_the_other_faults_fail_as_often_as_the_parts_do(
    mend: Mend, failures: int
) -> None:
    assert 16 * count(mend, of=cases(first=5, starts=4)).failures == failures


def test_keys_of_rejected_rows_are_wrong_where_they_complete_the_open_block() -> None:
    for case in cases(starts=4):
        block = case.position // 4
        completed = case.start + case.T >= 4 * (block + 1) > case.position
        for mend in ("all blocks appended", "first block keys"):
            assert fails(case, BEHAVIOURS[FAULT_OF[mend] or ""]) == completed, case


@pytest.mark.parametrize(
    "mend", ["K and V shrunk", "all blocks appended", "first block keys"]
)
def test_the_engine_fails_where_the_new_labels_say(small: Model, mend: Mend) -> None:
    some = [c for c in cases(first=8, starts=4) if c.T in (4, 8)]
    found = tail_engine.compare(small, mend, of=some)
    assert found.disagreements == ()
    assert found.engine == found.model > 0


def played(model: Model, fault: str | None, *, seed: int) -> tuple[Engine, History]:
    """An engine after a prompt and windows from a seed, and the labels of it."""
    rng = random.Random(seed)
    engine = model.engine(fault=fault)
    ids = prompt(model, 80, seed=seed)
    engine.prefill(ids[:10])
    for _ in range(9):
        T = rng.randint(1, 8)
        first = engine.position
        keep = rng.randint(1, T)
        other = [(t + 1) % model.config.vocab_size for t in ids[first + keep :]]
        advance(engine, [*ids[first : first + keep], *other][:T], keep=keep)
    history = History(model.config.indexer_compress_ratio, mend_of(engine))
    for record in engine.trace:
        history.take(record)
    return engine, history


@pytest.mark.parametrize("fault", [None, *(n for n in BEHAVIOURS if n != SOUND)])
def test_an_engine_is_as_its_history_says(small: Model, fault: str | None) -> None:
    wrong = 0
    for seed in range(3):
        engine, history = played(small, fault, seed=seed)
        found = held(engine, history)
        assert [(h.what, h.layer) for h in found[:2]] == [
            ("raw tail", indexed_layers(engine)[0]),
            ("pooled keys", indexed_layers(engine)[0]),
        ]
        assert all(h.equal for h in found if h.judged), (seed, found)
        wrong += sum(len(h.claimed) for h in found)
    assert (wrong > 0) == (fault is not None)


def test_labels_of_another_mend_do_not_agree(small: Model) -> None:
    engine, _ = played(small, "qsa_ring", seed=1)
    history = History(4, BEHAVIOURS[SOUND])
    for record in engine.trace:
        history.take(record)
    assert not all(h.equal for h in held(engine, history) if h.judged)


def test_a_rejected_row_that_comes_again_is_not_judged(small: Model) -> None:
    """By the labels its key is wrong; in truth it is the one that the text has."""
    ids = prompt(small, 16, seed=1)
    engine = small.engine(fault="qsa_block_keys_kept")
    engine.prefill(ids[:10])
    history = History(4, mend_of(engine))
    for rows, keep in ((ids[10:13], 1), (ids[11:13], 2)):
        advance(engine, rows, keep=keep)
    for record in engine.trace:
        history.take(record)
    assert history.repeated
    keys = held(engine, history)[1]
    assert (keys.claimed, keys.found, keys.judged) == ((2,), (), False)


def test_a_second_wide_prompt_keeps_its_own_keys(small: Model) -> None:
    """The faulty tail takes what is wider than any window with drafts for a prompt."""
    ids = prompt(small, 23, seed=1)
    engine = small.engine(fault="qsa_old_tail")
    engine.prefill(ids[:10])
    engine.prefill(ids[10:])
    history = History(4, mend_of(engine))
    for record in engine.trace:
        history.take(record)
    assert [s.right for s in slots_of(history.tail, 23)] == [True, True, True, False]
    assert [(h.claimed, h.found) for h in held(engine, history)[:1]] == [((), ())]


def test_layers_behind_a_wrong_one_are_not_judged(tiny: Model) -> None:
    """They may have been given other rows, and then anything can differ."""
    for fault in (None, "qsa_ring"):
        engine, history = played(tiny, fault, seed=1)
        found = held(engine, history)
        first, second = indexed_layers(engine)
        assert {h.layer for h in found if h.judged} == (
            {first} if fault else {first, second}
        )


def test_an_engine_that_cannot_be_compared(small: Model) -> None:
    engine, history = played(small, None, seed=1)
    with pytest.raises(ValueError, match=r"does not tell all tokens of its \d+ cells"):
        held(engine.fork(), history.__class__(4, "ring"))
    odd = small.engine(fault="gdn_parity")
    with pytest.raises(ValueError, match="'gdn_parity', of which the labels know noth"):
        held(odd, History(4, "ring"))
    for odd in (
        small.engine(routing=FewerExperts(1)),
        small.engine(imposed=Imposed({(0, 0): np.array([0, 1])})),
    ):
        with pytest.raises(ValueError, match="its experts are chosen in another way"):
            held(odd, History(4, "ring"))
    odd = Engine(engine.backend, context=9, options=engine.options)
    with pytest.raises(ValueError, match="it has no model; make it by"):
        held(odd, History(4, "ring"))


def test_a_history_forgets_the_pools_of_long_ago() -> None:
    history = History(4, "ring")
    position = 0
    for _ in range(2000):
        history.take(
            window_record(
                position=position, inputs=[1] * 5, keep=2, predictions=[1] * 5
            )
        )
        position += 2
    assert sum(1 for pool in history.tail.pools if pool) <= 9
    assert history.wrong == list(range(position // 4))
    before = history.before
    assert before is not None
    assert history.window == TailCase(position - 2, 5, 2)
    found = moments(history.window, "ring", tail=before)
    assert found[0].position == position - 2
    assert [b.block for b in found[-1].blocks] == list(
        range(position // 4 - 7, position // 4 + 1)
    )


def test_a_jump_of_the_trace_is_told_and_taken_for_right() -> None:
    history = History(4, "ring")
    history.take(window_record(position=6, inputs=[1], keep=1, predictions=[1]))
    assert not history.whole
    assert [s.key for s in slots_of(history.tail, 7)] == ["raw4", "raw5", "raw6", None]


def test_a_copy_of_a_tail_is_apart() -> None:
    tail = Tail(4, "ring")
    other = tail.copy()
    other.write(0, "raw0")
    assert tail.slots == [None] * 4
