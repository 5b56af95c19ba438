"""Penalties of a text: whatever was rejected or left behind, as from a fresh scan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strata_nb
from slop_law import (
    EOS,
    SCANNER,
    check_branches,
    check_every_keep,
    check_rejection,
    check_states,
    check_window,
    fresh_slop,
    penalised,
)
from strata_nb.errors import SavedStateError
from strata_nb.sampling import GREEDY, Adjustment, Sampler
from strata_nb.slop import START, Scanner, Slop, SlopRules, pieces_of

TOKEN = st.integers(0, SCANNER.vocab_size - 1)


@pytest.mark.parametrize("seed", range(12))
def test_every_keep_of_every_width(seed: int) -> None:
    check_every_keep(Slop, seed=seed)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TOKEN, min_size=1, max_size=12),
    st.lists(TOKEN, max_size=7),
    st.integers(1, 8),
    st.lists(TOKEN, min_size=1, max_size=8),
)
def test_any_rejection_and_any_continuation(
    history: list[int], drafts: list[int], keep: int, then: list[int]
) -> None:
    check_rejection(Slop, history, drafts, min(keep, len(drafts) + 1), then)


@pytest.mark.parametrize("seed", range(20))
def test_a_branch_and_back(seed: int) -> None:
    check_branches(Slop, seed=seed)


def test_the_texts_of_the_law_are_often_penalised() -> None:
    """Else all of the above would hold of penalties that do nothing."""
    rng = np.random.default_rng(0)
    slop = fresh_slop(SCANNER, [2])
    rows = penalised(slop, [2, *rng.integers(2, SCANNER.vocab_size, 500).tolist()])
    static = rows[0]
    changed = [row for row in rows if row != static]
    assert len(changed) > 250
    assert len({tuple(row) for row in rows}) > 12


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(TOKEN, min_size=1, max_size=6), min_size=2, max_size=6))
def test_assigned_texts_are_as_fresh(texts: list[list[int]]) -> None:
    slop = Slop(SCANNER, strength=1.0)
    for text in texts:
        slop.assign(text[:2], text[2:])
        check_states(slop, text)


def test_a_dropped_window_leaves_nothing() -> None:
    slop = fresh_slop(SCANNER, [2, 4, 5])
    before = slop.digest()
    for drafts in ([4, 4, 2], [EOS], [5, 2, 4, 5]):
        penalised(slop, [5, *drafts])
        assert slop.digest() == before
        check_states(slop, [2, 4, 5])


def test_a_fork_goes_its_own_way() -> None:
    slop = fresh_slop(SCANNER, [2, 4, 5])
    copy = slop.fork()
    slop.append([4, 2])
    copy.append([3])
    copy.back(1)
    copy.append([8])
    check_states(slop, [2, 4, 5, 4, 2])
    check_states(copy, [2, 8])


def test_back_refuses_what_is_not_there() -> None:
    slop = fresh_slop(SCANNER, [2, 4, 5])
    for position in (-1, 4):
        with pytest.raises(ValueError, match="there is no state at position"):
            slop.back(position)
        with pytest.raises(ValueError, match="wanted 0 to 3"):
            slop.at(position)
    slop.back(0)
    check_states(slop, [])


def test_prompt_and_emitted_count_alike() -> None:
    slop = Slop(SCANNER, strength=1.0)
    slop.assign([2, 5, 4], [3])
    check_states(slop, [2, 5, 4, 3])
    # A line of the prompt is a line that the text has had.
    line_again = fresh_slop(SCANNER, [4, 3, 5, 4])
    assert 3 in penalised(line_again, [4])[0]


def test_strength_and_bans() -> None:
    logits = np.full((1, SCANNER.vocab_size), 2.5, np.float32)
    logits[0, 3] = -np.inf
    for strength in (0.5, np.inf):
        slop = Slop(SCANNER, strength=strength)
        slop.assign([4, 4])
        lower = slop.adjust([4], logits)
        hit = set(SCANNER.penalised(slop.at(2)))
        assert hit >= {2, 3}
        assert lower.dtype == np.float32
        for token in range(SCANNER.vocab_size):
            was = logits[0, token]
            assert lower[0, token] == (was - strength if token in hit else was)


def test_a_token_under_two_rules_is_penalised_once() -> None:
    scanner = Scanner(
        [b"one", b" two", b"\n"], SlopRules(phrases=("one two",), lines=1)
    )
    tokens = [0, 1, 2, 0]
    assert list(scanner.penalised(scanner.rescan(tokens))) == [1]
    slop = Slop(scanner, strength=3.0)
    slop.assign(tokens)
    lower = slop.adjust([0], np.zeros((1, 3)))
    assert lower.tolist() == [[0.0, -3.0, 0.0]]


@pytest.mark.parametrize("strength", [0.0, -1.0, float("nan")])
def test_a_strength_that_is_none(strength: float) -> None:
    with pytest.raises(ValueError, match="wanted a number above 0"):
        Slop(SCANNER, strength=strength)


def test_adjust_refuses_other_shapes_and_another_root() -> None:
    slop = fresh_slop(SCANNER, [2, 4])
    wide = np.zeros((2, SCANNER.vocab_size))
    for logits in (wide, wide[0], wide[:1, :-1]):
        with pytest.raises(ValueError, match="`logits` has shape"):
            slop.adjust([4], logits)
    with pytest.raises(ValueError, match="row 0 is token 2, wanted 4"):
        slop.adjust([2, 3], wide)
    with pytest.raises(ValueError, match="token 99 has no piece"):
        slop.adjust([4, 99], wide)


def test_a_refused_token_changes_nothing() -> None:
    slop = fresh_slop(SCANNER, [2, 4])
    with pytest.raises(ValueError, match="token -1 has no piece"):
        slop.append([3, -1])
    with pytest.raises(ValueError, match="token 11 has no piece"):
        slop.assign([2, 3], [11])
    check_states(slop, [2, 4])


@pytest.mark.parametrize("seed", range(10))
def test_saved_and_restored(seed: int) -> None:
    """The text goes on from the leaves alone, also into another branch's penalties."""
    rng = np.random.default_rng(seed)
    history, then = (rng.integers(1, SCANNER.vocab_size, 8).tolist() for _ in range(2))
    saved = fresh_slop(SCANNER, history)
    slop = fresh_slop(SCANNER, rng.integers(1, SCANNER.vocab_size, 12).tolist())
    slop.restore(saved.leaves(), position=8)
    assert slop.position == 8
    assert slop.digest() == saved.digest()
    check_window(slop, history, [history[-1], *then])
    slop.append(then)
    whole = [*history, *then]
    for position in range(8, 17):
        assert slop.at(position) == SCANNER.rescan(whole[:position])
    with pytest.raises(ValueError, match="wanted 8 to 16; assign the tokens"):
        slop.back(7)
    other = slop.fork()
    other.assign(then)  # the tokens it knows, but from the start
    check_states(other, then)
    slop.back(8)
    assert slop.digest() == saved.digest()
    # Its tokens give all states back.
    slop.assign(whole)
    check_states(slop, whole)


def test_a_refused_restore_changes_nothing() -> None:
    slop = fresh_slop(SCANNER, [2, 4])
    leaves = slop.leaves()
    with pytest.raises(ValueError, match="`position` is -1"):
        slop.restore(leaves, position=-1)
    with pytest.raises(SavedStateError, match="'line' is missing"):
        slop.restore({"tail": leaves["tail"]}, position=2)
    with pytest.raises(SavedStateError, match="position 0 has none"):
        slop.restore(leaves, position=0)
    check_states(slop, [2, 4])


def test_the_digest_is_that_of_the_end_alone() -> None:
    """Different ways to the same state are the same state."""
    assert fresh_slop(SCANNER, [2]).digest() == fresh_slop(SCANNER, [4, 3]).digest()
    assert fresh_slop(SCANNER, [2]).digest() != fresh_slop(SCANNER, [4]).digest()
    after_eos = fresh_slop(SCANNER, [2, 5, 4, EOS])
    assert after_eos.digest() == fresh_slop(SCANNER, []).digest()
    assert after_eos.at(4) == START


def test_on_the_bundled_vocabulary(trained: strata_nb.Model) -> None:
    """A model's own tokens: what was said once is not said in the same words again."""
    assert trained.tokenizer is not None
    size = trained.config.vocab_size
    rules = SlopRules(phrases=("a rich tapestry of",), lines=8)
    scanner = Scanner(
        pieces_of(trained.tokenizer, vocab_size=size), rules, eos_ids=trained.stop_ids
    )
    line = "return first + second"
    text = f"    {line}\nif it is a rich tapestry of\n  {line}"
    tokens = trained.encode(text)
    slop = Slop(scanner, strength=1.0)
    slop.assign(tokens[:1])
    rows = penalised(slop, tokens)
    hit = [token for row, token in zip(rows, tokens[1:], strict=False) if token in row]
    assert trained.decode(hit) == " of second"
    ends = {token for token in rows[-1] if scanner.pieces[token].startswith(b"\n")}
    assert ends == set(rows[-1])
    assert trained.encode("\n")[0] in ends


def decoded(
    model: strata_nb.Model,
    slop: Slop,
    prompt: list[int],
    guess: list[int],
    rows: int,
) -> list[int]:
    """24 tokens in windows of `rows`, drafts from `guess` with every third spoiled."""
    sampler = Sampler(GREEDY, (slop,))
    sampler.assign(prompt)
    engine, found = model.engine(), list[int]()
    engine.prefill(prompt[:-1])
    while len(found) < 24:
        drafts = guess[len(found) : len(found) + rows - 1]
        drafts = [d + (i % 3 == 2) for i, d in enumerate(drafts, start=len(found))]
        window = engine.run([(prompt + found)[-1], *drafts])
        result = engine.finish(window, stop_ids=(), choose=sampler.choice())
        engine.commit(window, keep=result.keep)
        emitted = list(result.predictions[: result.keep])
        sampler.append(emitted)
        found += emitted
    return found[:24]


def test_a_text_does_not_depend_on_the_width(trained: strata_nb.Model) -> None:
    assert trained.tokenizer is not None
    pieces = pieces_of(trained.tokenizer, vocab_size=trained.config.vocab_size)
    rules = SlopRules(phrases=("self",), lines=16, shortest=3)
    scanner = Scanner(pieces, rules, eos_ids=trained.stop_ids)
    adjustment: Adjustment = Slop(scanner, strength=np.inf)
    assert isinstance(adjustment, Slop)
    prompt = trained.encode(
        "class Point:\n    def __init__(self, x):\n        self.x = x\n"
    )
    wanted = decoded(trained, adjustment, prompt, [], 1)
    for rows in (3, 8):
        fresh = Slop(scanner, strength=np.inf)
        assert decoded(trained, fresh, prompt, wanted, rows) == wanted
    # It has changed the text, and no text breaks the rules.
    plain = decoded(trained, Slop(scanner, strength=1e-9), prompt, [], 1)
    assert wanted != plain
    assert "self" in trained.decode(plain)
    assert "self" not in trained.decode(wanted)
    for end, token in enumerate(wanted):
        state = scanner.rescan(prompt + wanted[:end])
        assert token not in scanner.penalised(state)
