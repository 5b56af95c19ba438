"""Where a text ends: limits, stop ids, the context, a cancel, and a warning."""

import threading
import warnings
from collections.abc import Sequence

import pytest

from helpers import prompt
from sessions import OPEN, cold, reference
from strata_nb import Model, Session
from strata_nb.draft import Draft, Perfect
from strata_nb.errors import ContextLimitError, EngineBusyError
from strata_nb.session.spell import LONG, Spell


@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("limit", range(13))
def test_the_limit_is_the_number_of_tokens(
    small: Model, limit: int, width: int
) -> None:
    ids = prompt(small, 12)
    text = reference(small, ids, 13)
    session = Session(small, drafter=Perfect([*ids, *text]), context=12 + limit)

    class Width:
        name = "width"

        def rows(self, position: int, *, most: int, ratio: int) -> int:
            return min(most, width)

    session._length = Width()
    before = session.engine().digests()
    reply = session.reply(ids, max_new=limit, **OPEN)
    assert reply.tokens == text[:limit]
    assert reply.stop == "limit"
    if limit == 0:
        assert session.engine().digests() == before
        assert session.tokens == ()
    else:
        assert session.position == 11 + limit
        # No row is run that could not be emitted.
        assert all(limit >= r.T for r in session.trace if not r.headless)


def test_the_end_of_the_context_ends_the_text(small: Model) -> None:
    ids = prompt(small, 12)
    text = reference(small, ids, 8)
    session = Session(small, drafter=Perfect([*ids, *text, 1, 1, 1]), context=16)
    reply = session.reply(ids, max_new=50, **OPEN)
    assert (reply.tokens, reply.stop) == (text[:5], "limit")
    assert session.position == 16
    with pytest.raises(ContextLimitError, match="pass the end of the context"):
        session.reply(prompt(small, 17), max_new=1)
    assert session.tokens == (*ids, *text[:5])
    assert session.reply(prompt(small, 16), max_new=5, **OPEN).tokens


def test_a_stop_id_ends_the_text_inside_a_draft_too(small: Model) -> None:
    ids = prompt(small, 12)
    text = reference(small, ids, 12)
    for at, stop in enumerate(text):
        first = text.index(stop)
        session = Session(small, drafter=Perfect([*ids, *text]))
        reply = session.reply(ids, max_new=12, stop_ids=[stop, 999])
        assert (reply.tokens, reply.stop) == (text[: first + 1], "stop"), at
        # The stop id is emitted, and not run.
        assert session.position == 12 + first
        cold(small, session)


def test_another_thread_can_cancel_between_windows(small: Model) -> None:
    ids = prompt(small, 12)
    session = Session(small)
    cancelled, begun = threading.Event(), threading.Event()
    replies = []

    class Slow:
        name = "slow"

        def assign(self, tokens: Sequence[int]) -> None:
            self.asked = 0

        def append(self, tokens: Sequence[int]) -> None:
            self.asked += 1
            if self.asked == 3:
                begun.set()
                cancelled.wait(30)

        def propose(self, most: int) -> Draft:
            return Draft()

    session = Session(small, drafter=Slow())

    def work() -> None:
        reply = session.reply(ids, max_new=50, cancel=cancelled.is_set, **OPEN)
        replies.append(reply)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    with pytest.raises(EngineBusyError):
        session.reply(ids, max_new=1)
    cancelled.set()
    thread.join(30)
    (reply,) = replies
    assert (len(reply.tokens), reply.stop) == (3, "cancelled")
    assert reply.tokens == reference(small, ids, 3)
    cold(small, session)
    # Cancelled before its first window: as if it had not been asked.
    before = session.tokens, session.engine().digests()
    early = session.reply([4, 5, 6], max_new=9, cancel=lambda: True)
    assert (early.tokens, early.stop) == ((), "cancelled")
    assert (session.tokens, session.engine().digests()) == before


def test_a_spell_without_acceptance_is_said_once() -> None:
    spell = Spell()
    assert all(spell.note(2, 2) is None for _ in range(10))
    said = [spell.note(3, 0) for _ in range(LONG + 5)]
    assert said[LONG - 1] == 1.0
    assert said.count(None) == len(said) - 1
    assert spell.note(0, 0) is None
    # After a spell it was not above a half any more.
    spell.note(1, 1)
    assert all(spell.note(3, 0) is None for _ in range(LONG + 5))


def test_a_session_warns_of_a_spell(small: Model) -> None:
    ids = prompt(small, 12)
    text = reference(small, ids, 100)

    class Turns(Perfect):
        """Right at first, then wrong."""

        def propose(self, most: int) -> Draft:
            draft = super().propose(1)
            at = self._at or 0
            wrong = tuple((token + 1) % 17 for token in draft.tokens)
            return draft if at < len(ids) + 30 else Draft(wrong)

    session = Session(small, drafter=Turns([*ids, *text]))
    with pytest.warns(UserWarning, match="no draft was accepted in 50 windows"):
        reply = session.reply(ids, max_new=100, **OPEN)
    assert reply.tokens == text
    cold(small, session)
    calm = Session(small, drafter=Perfect([*ids, *text]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calm.reply(ids, max_new=100, **OPEN)
