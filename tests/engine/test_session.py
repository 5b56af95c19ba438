"""Requests: what they share is reused, and nothing else of them is left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_same, prompt
from sessions import OPEN, cold, reference
from strata_nb import Model, Sampling, Session
from strata_nb.draft import Adversary, Constant, Draft, Perfect, SuffixLookup
from strata_nb.errors import CheckpointError
from strata_nb.policies.length import CONTAINED
from strata_nb.sampling import Bans, Penalties


@pytest.mark.parametrize(
    "drafter",
    ["none", "suffix", "perfect", "adversary", "constant"],
)
def test_a_reply_is_plain_decoding(small: Model, drafter: str) -> None:
    ids = prompt(small, 21)
    wanted = reference(small, ids, 30)
    text = [*ids, *wanted]
    kinds: dict[str, Any] = {
        "none": None,
        "suffix": SuffixLookup(minimum=2, most=7),
        "perfect": Perfect(text),
        "adversary": Adversary(text, 17),
        "constant": Constant([3, 4]),
    }
    session = Session(small, drafter=kinds[drafter])
    reply = session.reply(ids, max_new=30, **OPEN)
    assert (reply.tokens, reply.stop, reply.prompt) == (wanted, "limit", 21)
    assert session.tokens == (*ids, *wanted)
    cold(small, session)
    if drafter == "perfect":
        assert (reply.windows, reply.acceptance) == (4, 1.0)
    if drafter == "adversary":
        assert (reply.windows, reply.accepted) == (30, 0)
    counted = [r for r in session.trace if not r.headless]
    assert sum(len(r.emitted) for r in counted) == len(reply.tokens)
    assert len(counted) == reply.windows
    assert reply.windows + reply.accepted == len(reply.tokens)
    assert reply.offered >= reply.accepted


def test_a_request_goes_on_from_what_it_shares(small: Model) -> None:
    ids = prompt(small, 21)
    session = Session(small, drafter=SuffixLookup(minimum=2), checkpoints=9)
    first = session.reply(ids, max_new=10, **OPEN)
    # The same text and more of it: all but the new tokens are there.
    longer = [*ids, *first.tokens, 3, 4]
    second = session.reply(longer, max_new=10, **OPEN)
    assert second.reused == len(ids) + 9
    assert second.tokens == reference(small, longer, 10)
    cold(small, session)
    # Only the prompt is shared: from its checkpoint.
    other = [*ids, 9, 8, 7]
    third = session.reply(other, max_new=10, **OPEN)
    assert third.reused == len(ids) - 1
    assert third.tokens == reference(small, other, 10)
    cold(small, session)
    # Nothing is shared.
    fourth = session.reply([5, 5, 6], max_new=10, **OPEN)
    assert (fourth.reused, fourth.tokens) == (0, reference(small, [5, 5, 6], 10))
    cold(small, session)
    # Back on the first branch: its end is a checkpoint still.
    fifth = session.reply(longer, max_new=10, **OPEN)
    assert (fifth.tokens, fifth.reused) == (second.tokens, len(longer) - 1)
    cold(small, session)


requests = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=14), st.integers(1, 5)),
    min_size=2,
    max_size=5,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(asked=requests, checkpoints=st.integers(0, 5), every=st.none() | st.just(3))
def test_every_request_is_as_if_it_were_the_first(
    small: Model,
    asked: list[tuple[list[int], int]],
    checkpoints: int,
    every: int | None,
) -> None:
    how: dict[str, Any] = {"checkpoints": checkpoints, "checkpoint_every": every}
    drafter = SuffixLookup(minimum=1)
    session = Session(small, drafter=drafter, **how)
    for ids, count in asked:
        fresh = Session(small, drafter=SuffixLookup(minimum=1))
        got = session.reply(ids, max_new=count, **OPEN)
        wanted = fresh.reply(ids, max_new=count, **OPEN)
        assert (got.tokens, got.offered, got.accepted) == (
            wanted.tokens,
            wanted.offered,
            wanted.accepted,
        )
        assert session.tokens == (*ids, *got.tokens)
        assert len(drafter) == len(session.tokens)
        assert_same(session.engine(), fresh.engine())
        assert len(set(session.checkpoints)) <= checkpoints


def test_the_longest_place_that_fits_is_taken(small: Model) -> None:
    ids = prompt(small, 21)
    session = Session(small, checkpoints=6)
    session.reply(ids, max_new=4, **OPEN)
    session.reply(ids[:9], max_new=1, **OPEN)
    # What it holds now would do, and a checkpoint has more.
    assert session.position == 9
    assert session.reply(ids, max_new=1, **OPEN).reused == 20


def test_the_same_request_again_takes_no_second_place(small: Model) -> None:
    session = Session(small, checkpoints=4)
    ids = prompt(small, 12)
    for _ in range(3):
        session.reply(ids, max_new=3, **OPEN)
    assert session.checkpoints == (11, 14)


def test_the_ring_holds_so_many_and_drops_the_oldest(small: Model) -> None:
    ids = prompt(small, 21)
    session = Session(small, checkpoints=3, checkpoint_every=8)
    session.reply(ids, max_new=5, **OPEN)
    # 8, 16, 20 (the prompt but its last), 25 (the answer).
    assert session.checkpoints == (16, 20, 25)
    reply = session.reply([*ids[:18], 1, 2], max_new=5, **OPEN)
    assert reply.reused == 16
    assert Session(small, checkpoints=0).checkpoints == ()
    none = Session(small, checkpoints=0)
    none.reply(ids, max_new=5, **OPEN)
    assert none.checkpoints == ()
    assert none.reply([*ids[:18], 1], max_new=5, **OPEN).reused == 0
    assert none.reply(list(none.tokens), max_new=5, **OPEN).reused > 0


def test_going_on_is_one_longer_request(small: Model) -> None:
    ids = prompt(small, 12)
    penalties: dict[str, Any] = {"frequency": 0.5, "repetition": 1.2}
    sampling = Sampling(temperature=0.9, seed=3)
    whole = Session(small, sampling=sampling, adjustments=[Penalties(**penalties)])
    parts = Session(small, sampling=sampling, adjustments=[Penalties(**penalties)])
    wanted = whole.reply(ids, max_new=20, **OPEN).tokens
    got = parts.reply(ids, max_new=7, **OPEN).tokens
    got += parts.go_on(max_new=1, **OPEN).tokens
    got += parts.go_on(max_new=12, **OPEN).tokens
    assert got == wanted
    assert_same(parts.engine(), whole.engine())
    with pytest.raises(ValueError, match="got none at all"):
        Session(small).go_on(max_new=1)


def test_pads_are_cells_and_in_no_history(small: Model) -> None:
    pad = 16
    ids = [1, 2, 3, 4, pad, 1, 2, 3, pad, pad, 4, 1, 2]
    drafter = SuffixLookup(minimum=3, most=3)
    session = Session(small, drafter=drafter, pad_id=pad)
    reply = session.reply(ids, max_new=1, **OPEN)
    assert reply.prompt == len(ids)
    assert session.position == len(ids)
    assert reply.tokens == reference(small, ids, 1)
    # Without the pads the history is 1 2 3 4 1 2 3 4 1 2, then the answer.
    assert len(drafter) == len(ids) - 3 + 1
    drafter.assign([1, 2, 3, 4, 1, 2, 3, 4, 1, 2])
    assert drafter.propose(3).tokens == (3, 4, 1)
    with pytest.raises(ValueError, match="got a pad at its end"):
        session.reply([1, pad], max_new=1)


def test_stop_strings_of_an_iterator_are_read_once(trained: Model) -> None:
    text = "def f(a):\n    return a\n\ndef f(a):\n    "
    kept: Any = iter(["return"])
    reply = Session(trained).reply(text, max_new=4, stop=kept)
    assert (reply.stop, reply.stop_string) == ("text", "return")


def test_a_preset_contains_its_windows(trained: Model) -> None:
    session = Session(trained, preset="seed_stage1")
    session.reply("def f(a):\n    return a\n\ndef f(a):\n    return", max_new=40)
    windows = [r for r in session.trace if not r.headless]
    assert max(r.T for r in windows) > 1
    assert all(4 - r.position % 4 >= r.T for r in windows)
    assert all((r.match_length or 4) >= 4 for r in windows)
    assert {r.drafter for r in windows} == {"suffix_lookup"}
    assert session._length is CONTAINED
    with pytest.raises(ValueError, match="'seed_stage1' is for greedy decoding, got"):
        Session(trained, preset="seed_stage1", sampling=Sampling(temperature=1))
    with pytest.raises(ValueError, match="no preset is named 'x'; wanted seed_stage1"):
        Session(trained, preset="x")
    # Its history is empty, so that it counts as false.
    mine = SuffixLookup(minimum=1)
    session = Session(trained, preset="seed_stage1", drafter=mine)
    assert session.histories.drafter is mine
    assert session._length is CONTAINED


def test_what_raises_leaves_the_session_as_it_was(small: Model) -> None:
    ids = prompt(small, 12)

    class Breaks:
        name = "breaks"
        left = 3

        def assign(self, tokens: Sequence[int]) -> None:
            self.text = list(tokens)

        def append(self, tokens: Sequence[int]) -> None:
            self.text += tokens

        def propose(self, most: int) -> Draft:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return Draft((1,))

    drafter = Breaks()
    session = Session(small, drafter=drafter)
    session.reply([1, 2], max_new=2, **OPEN)
    before = session.tokens, session.checkpoints, len(session.trace)
    digests = session.engine().digests()
    drafter.left = 3
    with pytest.raises(KeyboardInterrupt):
        session.reply(ids, max_new=20, **OPEN)
    assert (session.tokens, session.checkpoints, len(session.trace)) == before
    assert session.engine().digests() == digests
    assert tuple(drafter.text) == session.tokens
    for bad in ([], [17], [-1]):
        with pytest.raises(ValueError, match=r"got none at all|outside the vocabulary"):
            session.reply(bad, max_new=2)
    with pytest.raises(CheckpointError, match="has no tokenizer"):
        session.reply("x", max_new=2)
    for how in ({"max_new": -1}, {"max_new": 1, "stop": [""]}):
        with pytest.raises(ValueError, match="wanted"):
            session.reply(ids, **how)
    for odd in ("end", None, [b"end"]):
        stop: Any = odd
        with pytest.raises(TypeError, match="`stop` wants a list of strings, got "):
            session.reply(ids, max_new=1, stop=stop)
    with pytest.raises(TypeError, match="unexpected keyword"):
        session.go_on(max_new=1, nothing=1)
    assert session.engine().digests() == digests


@pytest.mark.parametrize(
    ("proposal", "message"),
    [
        (None, "drafter 'odd' proposed None, wanted a `strata_nb.draft.Draft`"),
        ([1, 2], r"proposed \[1, 2\], wanted a `strata_nb.draft.Draft`, such as"),
        (Draft("ab"), "proposed tokens 'ab', wanted a tuple of integers"),  # type: ignore[arg-type]
        (Draft((1.5,)), r"proposed tokens \(1.5,\), wanted a tuple of"),  # type: ignore[arg-type]
        (Draft(None), "proposed tokens None, wanted a tuple of integers"),  # type: ignore[arg-type]
    ],
)
def test_what_a_drafter_may_not_propose_is_said(
    proposal: Draft, message: str, small: Model
) -> None:
    class Odd(Constant):
        name = "odd"

        def propose(self, most: int) -> Draft:
            return proposal

    session = Session(small, drafter=Odd([1]))
    before = session.engine().digests()
    with pytest.raises(TypeError, match=message):
        session.reply([1, 2, 3], max_new=4)
    assert session.engine().digests() == before


def test_two_sessions_of_one_model_do_not_meet(small: Model) -> None:
    texts = [prompt(small, 12, seed=seed) for seed in (1, 2)]
    sessions = [Session(small, drafter=SuffixLookup(minimum=2)) for _ in texts]
    got: list[list[int]] = [[], []]
    for turn in range(12):
        for i, session in enumerate(sessions):
            ids = [*texts[i], *got[i]]
            got[i] += session.reply(ids, max_new=1 + turn % 3, **OPEN).tokens
    for ids, tokens in zip(texts, got, strict=True):
        assert tuple(tokens) == reference(small, ids, len(tokens))


def test_bans_hold_under_greedy(small: Model) -> None:
    ids = prompt(small, 12)
    free = Session(small).reply(ids, max_new=10, **OPEN).tokens
    bans = Bans([free[0]])
    held = Session(small, adjustments=[bans], drafter=Constant([free[0]] * 3))
    reply = held.reply(ids, max_new=10, **OPEN)
    assert free[0] not in reply.tokens
    assert reply.accepted == 0
    assert {r.rule for r in held.trace if not r.headless} == {"greedy"}


def test_progress_is_told_in_rows_of_the_new_part(small: Model) -> None:
    seen: list[tuple[int, int]] = []
    session = Session(small, checkpoint_every=8)
    session.reply(
        prompt(small, 21), max_new=1, progress=lambda *x: seen.append(x), **OPEN
    )
    assert seen == [(8, 20), (16, 20), (20, 20)]


def test_a_conversation_and_a_text_are_encoded(trained: Model) -> None:
    message = {"role": "user", "content": "Rename `a` to `b`:\ndef f(a):\n    return a"}
    session = Session(trained, preset="seed_stage1")
    reply = session.chat([message], max_new=40)
    assert reply.tokens[-1] in trained.stop_ids
    assert reply.stop == "stop"
    assert reply.text.startswith("def f(")
    assert "<|im_end|>" not in reply.text
    whole = trained.chat([message])
    assert session.reply(whole, max_new=40).tokens == reply.tokens


def test_settings_are_refused(small: Model) -> None:
    with pytest.raises(ValueError, match="`checkpoints` is -1, wanted 0 or more"):
        Session(small, checkpoints=-1)
    with pytest.raises(ValueError, match="`checkpoint_every` is 0, wanted 1 or more"):
        Session(small, checkpoint_every=0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Session(small, temperature=1)


def test_numpy_tokens_are_welcome(small: Model, tmp_path: Path) -> None:
    ids = np.array(prompt(small, 12))
    reply = Session(small).reply(ids, max_new=3, **OPEN)  # type: ignore[arg-type]
    assert reply.tokens == reference(small, [int(i) for i in ids], 3)


@pytest.mark.parametrize("pad", ["x", 1.5, -1, 10**9])
def test_a_pad_is_a_token(small: Model, pad: object) -> None:
    with pytest.raises(ValueError, match=r"`pad_id` is .* wanted a token"):
        Session(small, pad_id=pad)  # type: ignore[arg-type]
