"""The draft head's parts: a rejected row, or a drafted one, leaves nothing in them."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heads import write_with_head
from helpers import EXACT, advance, after, assert_same, prompt, serial
from strata_nb import Model, Session, StrataError, diff, load
from strata_nb.draft import Draft, MtpDrafter
from strata_nb.draft.head import Mtp, best
from strata_nb.engine import Engine
from strata_nb.models.qwen4_exp.draft_head import WAITING
from tiny import random_config, tiny_config

PARTS = {"mtp_row", "mtp_kv", "mtp_qsa_tail", "mtp_qsa_blocks"}
READINGS = [Mtp(), Mtp(norm="grouped"), Mtp(position="t+1")]
# The head lags a cell behind: its blocks end, and its threshold lies, a cell later.
FOLDS = ["lazy", "eager"]
STARTS = [0, 1, 2, 7, 8, 19, 20, 40]


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(write_with_head(tmp_path_factory.mktemp("head"), tiny_config(), 1))


def moved(engine: Engine, rows: list[int], keep: int) -> Engine:
    """A fork that drafts as a round does, runs `rows`, and keeps some of them."""
    fork = engine.fork()
    if fork.position:
        fork.draft(4, root=rows[0])
    advance(fork, rows, keep=keep)
    return fork


@pytest.mark.parametrize("start", STARTS)
def test_every_keep_of_every_width(headed: Model, start: int) -> None:
    ways = list(itertools.product(READINGS, FOLDS))
    ids = prompt(headed, start, seed=start)
    engines = {
        (how, fold): after(headed, ids, mtp=how, fold=fold) for how, fold in ways
    }
    # Seven, so that a width does not meet the same ones at every keep.
    turns = itertools.cycle([*ways, ways[0]])
    for width in (1, 2, 3, 5, 8) if start % 2 else (1, 4, 6, 7):
        rows = prompt(headed, width, seed=width)
        for keep in range(1, width + 1):
            how = next(turns)
            subject = moved(engines[how], rows, keep)
            other = [(t * 7 + 13) % 256 for t in rows[keep:]]
            why = f"{how[0].name} {how[1]} T={width} keep={keep}"
            twin = moved(engines[how], [*rows[:keep], *other], keep)
            assert_same(subject, twin, why=f"{why}: twin", exact=True)
            alone = serial(engines[how].fork(), rows[:keep])
            assert_same(subject, alone, why=f"{why}: serial")
            assert {leaf.part for leaf in subject.leaves()} >= PARTS


@pytest.mark.parametrize("chunk", [1, 3, 8, 31, 70])
@pytest.mark.parametrize("how", READINGS, ids=lambda how: how.name)
def test_a_prompt_equals_serial_rows(headed: Model, chunk: int, how: Mtp) -> None:
    ids = prompt(headed, 70, seed=8)
    engine = headed.engine(mtp=how)
    engine.prefill(ids, chunk=chunk)
    assert_same(engine, serial(headed.engine(mtp=how), ids), why=f"chunk={chunk}")


@pytest.mark.parametrize("how", READINGS, ids=lambda how: how.name)
def test_pairs_wait_until_a_draft_is_due_or_they_are_many(
    headed: Model, how: Mtp
) -> None:
    lazy = after(headed, prompt(headed, 3, seed=3), mtp=how)
    eager = after(headed, prompt(headed, 3, seed=3), mtp=how, fold="eager")
    backend: Any = lazy.backend
    head, shapes = backend.draft_head, []

    def waiting() -> int:
        values = lazy._now.state.values
        return len(head.unread(values).ids)

    with pytest.MonkeyPatch.context() as patch:
        sound = head.joined

        def joined(h: Any, embedding: Any) -> Any:
            shapes.append(h.shape[0])
            return sound(h, embedding)

        patch.setattr(head, "joined", joined)
        # A prompt's pairs are read with it.
        assert waiting() == 0
        held, many = 0, []
        for turn in range(2 * WAITING // 5 + 5):
            rows = prompt(headed, 8, seed=turn)
            for engine in (lazy, eager):
                advance(engine, rows, keep=5)
            held += 5
            if held > WAITING:
                many.append(held)
                held = 0
            assert waiting() == held
        assert shapes == many
        assert len(many) == 2
        shapes.clear()
        # One read for all that wait, and none for the second draft.
        assert held > 0
        first = lazy.draft(1, root=7)
        assert shapes == [held, 1]
        assert lazy.draft(1, root=7) == first == eager.draft(1, root=7)
        assert shapes == [held, 1, 1]
        assert waiting() == 0
    assert_same(lazy, eager, why="lazy and eager", exact=EXACT)


def test_pages_fill_and_are_sealed(headed: Model) -> None:
    # A page has 64 blocks of 4 cells, and the head's fills a cell later.
    ids = prompt(headed, 253, seed=4)
    engine = after(headed, ids, mtp=True)
    for width, keep in [(2, 1), (8, 5), (4, 2), (8, 8), (6, 1)]:
        rows = prompt(headed, width, seed=width)
        engine = moved(engine, rows, keep)
        ids += rows[:keep]
    assert_same(engine, after(headed, ids, mtp=True), why="at once")


def test_blocks_of_three_cells(tmp_path: Path) -> None:
    config = random_config(4)
    assert config["indexer_compress_ratio"] == 3
    odd = load(write_with_head(tmp_path, config, 3, per_expert=True))
    for start in range(11, 14):
        ids = prompt(odd, start, seed=start)
        engine = after(odd, ids, mtp=True)
        for width, keep in [(2, 1), (5, 2), (8, 3), (8, 7), (4, 4)]:
            rows = prompt(odd, width, seed=width + 40)
            alone = serial(engine.fork(), rows[:keep])
            assert_same(moved(engine, rows, keep), alone, why=f"{start} {width} {keep}")


@pytest.mark.parametrize("kv", ["float32", "bfloat16"])
def test_a_saved_state_goes_on_the_same(headed: Model, tmp_path: Path, kv: str) -> None:
    engine = after(headed, prompt(headed, 22, seed=2), mtp=True, kv=kv)
    engine = moved(engine, prompt(headed, 6, seed=6), 3)
    engine.save(tmp_path / "state")
    other = headed.engine(mtp=True, kv=kv)  # type: ignore[arg-type]
    other.restore(tmp_path / "state")
    assert_same(engine, other, exact=True)
    assert engine.draft(4).tokens == other.draft(4).tokens
    rows = prompt(headed, 5, seed=1)
    assert_same(moved(engine, rows, 2), moved(other, rows, 2), exact=True)


def test_a_head_with_8_bit_keys_and_values_goes_on_the_same(tmp_path: Path) -> None:
    """Rejected rows, saved, restored and forked: groups of 32 are never half kept."""
    config = tiny_config() | {"head_dim": 32}
    wide = load(write_with_head(tmp_path / "model", config, 5))
    ids = prompt(wide, 22, seed=2)
    engine = after(wide, ids, mtp=True, kv="int8")
    stored = {leaf.field for leaf in engine.leaves() if leaf.part == "mtp_kv"}
    assert {"k", "k_scale", "v", "v_bias"} <= stored
    rows = prompt(wide, 6, seed=6)
    twin = moved(engine, [*rows[:3], 7, 8, 9], 3)
    engine = moved(engine, rows, 3)
    assert_same(engine, twin, why="rejected rows", exact=True)
    assert_same(engine, after(wide, [*ids, *rows[:3]], mtp=True, kv="int8"))
    engine.save(tmp_path / "state")
    other = wide.engine(mtp=True, kv="int8")
    other.restore(tmp_path / "state")
    assert_same(engine, other, why="restored", exact=True)
    assert engine.draft(4) == other.draft(4) == engine.fork().draft(4)
    more = prompt(wide, 5, seed=1)
    assert_same(moved(engine, more, 2), moved(other, more, 2), exact=True)
    # It is not a float state under another name.
    with pytest.raises(StrataError, match=r"saved with kv 'int8'.*'float32'"):
        wide.engine(mtp=True, kv="float32").restore(tmp_path / "state")


def test_a_state_belongs_to_its_reading(headed: Model, tmp_path: Path) -> None:
    ids = prompt(headed, 9, seed=2)
    for name, mtp in [("on", True), ("off", False), ("grouped", READINGS[1])]:
        after(headed, ids, mtp=mtp).save(tmp_path / name)
    with pytest.raises(StrataError, match="saved with mtp 'off', this engine has 'wh"):
        headed.engine(mtp=True).restore(tmp_path / "off")
    with pytest.raises(StrataError, match=r"saved with mtp 'whole.*has 'off'"):
        headed.engine().restore(tmp_path / "on")
    with pytest.raises(StrataError, match="saved with mtp 'grouped"):
        headed.engine(mtp=True).restore(tmp_path / "grouped")
    headed.engine().restore(tmp_path / "off")


def test_drafting_changes_nothing(headed: Model) -> None:
    engine = after(headed, prompt(headed, 21, seed=2), mtp=True)
    before = engine.digests()
    fork = engine.fork()
    first = engine.draft(6, root=7)
    assert engine.draft(6, root=7) == first == fork.draft(6, root=7)
    assert engine.digests() == fork.digests() == before
    assert len(engine.trace) == len(after(headed, prompt(headed, 21), mtp=True).trace)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full")])
@pytest.mark.parametrize("row", [0, 2])
def test_an_interrupt_inside_a_draft_changes_nothing(
    headed: Model, row: int, error: BaseException
) -> None:
    """After `row` rows of a chain that has been computed."""
    engine = after(headed, prompt(headed, 21, seed=2), mtp=True)
    engine = moved(engine, prompt(headed, 5, seed=6), 3)
    before, want, root = engine.digests(), engine.draft(4), engine.root
    windows = len(engine.trace)

    def interrupted(logits: np.ndarray, number: int) -> tuple[int, float]:
        if number == row:
            raise error
        return best(logits, number)

    with pytest.raises(type(error)):
        engine.draft(4, pick=interrupted)

    def fails(*args: Any) -> Any:
        sound(*args)
        raise error

    backend: Any = engine.backend
    sound = backend.draft
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "draft", fails)
        with pytest.raises(type(error)):
            engine.draft(4)
    assert (engine.digests(), engine.root, engine.window) == (before, root, None)
    assert len(engine.trace) == windows
    # No verb is left busy, and the same is drafted as before.
    assert engine.draft(4) == want
    rows = prompt(headed, 4, seed=9)
    fresh = after(headed, prompt(headed, 21, seed=2), mtp=True)
    fresh = moved(fresh, prompt(headed, 5, seed=6), 3)
    assert_same(moved(engine, rows, 2), moved(fresh, rows, 2), exact=True)


def test_an_interrupted_draft_leaves_a_session_as_before(headed: Model) -> None:
    class Stops(MtpDrafter):
        def propose(self, most: int) -> Draft:
            draft = super().propose(most)
            if armed and len(self.history) > 16:
                raise KeyboardInterrupt
            return draft

    armed = True
    session = Session(headed, drafter=Stops(depth=2))
    before = session.leaves()
    with pytest.raises(KeyboardInterrupt):
        session.reply(prompt(headed, 12, seed=3), max_new=20, stop_ids=())
    assert (session.position, session.tokens, len(session.trace)) == (0, (), 0)
    assert before.keys() == session.leaves().keys()
    armed = False
    reply = session.reply(prompt(headed, 12, seed=3), max_new=20, stop_ids=())
    other = Session(headed, drafter=MtpDrafter(depth=2))
    want = other.reply(prompt(headed, 12, seed=3), max_new=20, stop_ids=())
    assert reply.tokens == want.tokens
    for leaf, array in other.leaves().items():
        np.testing.assert_array_equal(session.leaves()[leaf], array, err_msg=str(leaf))


def test_an_aborted_window_leaves_the_head_alone(headed: Model) -> None:
    engine = after(headed, prompt(headed, 10, seed=2), mtp=True)
    before = engine.digests()
    window = engine.run(prompt(headed, 8, seed=3))
    engine.abort(window)
    assert engine.digests() == before


def test_the_target_is_what_it_is_without_a_head(headed: Model) -> None:
    ids, rows = prompt(headed, 21, seed=2), prompt(headed, 6, seed=3)
    on, off = after(headed, ids, mtp=True), after(headed, ids)
    for engine in (on, off):
        advance(engine, rows, keep=4)
    assert {d.part for d in diff(on, off)} == PARTS
    window, other = on.run(rows), off.run(rows)
    assert (window.logits == other.logits).all() or not EXACT
    assert "mtp" not in off.options
    assert not {leaf.part for leaf in off.leaves()} & PARTS
