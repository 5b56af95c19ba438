"""Drafts taken from a drafter: what it is told, and who is named in the record."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from strata_nb import StrataError
from strata_nb.draft import NO_DRAFT, Constant, Draft, Perfect, SuffixTrees, Typed
from strata_nb.errors import WindowOpenError
from strata_widgets import Stepper
from widgets.fake_model import SCRIPT, FakeModel
from widgets.test_stepper import PROMPT, click

HAND, TAKEN = "hand", "told"


class Told:
    """Proposes what it is made with, and notes what it hears."""

    name = TAKEN

    def __init__(self, *proposals: Any) -> None:
        self.proposals = list(proposals)
        self.heard: list[tuple[str, tuple[int, ...]]] = []
        self.text: list[int] = []

    def assign(self, tokens: Sequence[int]) -> None:
        self.heard.append(("assign", tuple(tokens)))
        self.text = list(tokens)

    def append(self, tokens: Sequence[int]) -> None:
        self.heard.append(("append", tuple(tokens)))
        self.text += tokens

    def propose(self, most: int) -> Any:
        made = self.proposals.pop(0)
        if isinstance(made, Exception):
            raise made
        return made


def made(drafter: Any) -> Stepper:
    return Stepper(FakeModel().engine(), prompt=PROMPT, drafter=drafter)


def committed(stepper: Stepper, **commit: Any) -> Any:
    stepper.finish()
    return stepper.commit(**commit).record


def test_a_draft_is_taken_into_the_field_and_run() -> None:
    stepper = made(Perfect(SCRIPT))
    assert stepper._view["drafter"] == "perfect"
    assert stepper.take() == "):\n    return x + 1\ndef"
    shown = stepper._preview
    assert (shown["fill"], shown["count"]) == (True, "7 drafts")
    assert stepper._view["message"]["text"].startswith("perfect proposes 7 drafts.")
    # What is in the field is what runs.
    assert stepper.run().inputs == SCRIPT[2:10]
    record = committed(stepper)
    assert (record.drafter, record.accepted) == ("perfect", 7)
    assert stepper._preview["draft"] == ""


def test_by_clicks() -> None:
    stepper = made(Told(Draft((6, 1), match_length=5)))
    shown = click(stepper, "take")
    assert shown["message"] == {
        "kind": "note",
        "text": "told proposes 2 drafts. Edit them, or Run.",
    }
    click(stepper, "run", draft=stepper._preview["draft"])
    click(stepper, "finish")
    click(stepper, "commit", keep=1, force=False)
    record = stepper.engine.trace[-1]
    assert (record.drafter, record.match_length) == (TAKEN, 5)
    assert record.draft_ms is not None


def test_what_is_edited_or_typed_is_by_hand() -> None:
    stepper = made(Told(*[Draft((6, 1), match_length=5)] * 4))
    stepper.run(draft="):\n")
    # Never taken, so typed, whatever it would have proposed.
    assert committed(stepper, keep=1).drafter == HAND
    stepper.back()
    stepper.take()
    stepper.run(draft="):\n x")
    record = committed(stepper)
    assert (record.drafter, record.match_length, record.draft_ms) == (HAND, None, None)
    stepper.back()
    stepper.take()
    click(stepper, "suggest", wrong=False)
    stepper.run(draft="):\n")
    assert committed(stepper).drafter == HAND
    stepper.back()
    stepper.take()
    # The same tokens as ids are the same draft.
    stepper.run(draft="#6 #1")
    assert committed(stepper).drafter == TAKEN


def test_a_proposal_is_for_one_text() -> None:
    stepper = made(Told(Draft((6,))))
    stepper.take()
    stepper.run(draft="")
    assert committed(stepper).drafter == HAND
    stepper.run(draft="):")
    assert committed(stepper).drafter == HAND
    stepper.back(position=2)
    # Back in that text, it is what was proposed for it.
    stepper.run(draft="):")
    assert committed(stepper).drafter == TAKEN


def test_the_drafter_hears_of_the_text_and_of_nothing_else() -> None:
    drafter = Told()
    stepper = made(drafter)
    prompt = SCRIPT[:3]
    assert drafter.heard == [("assign", prompt)]
    stepper.run(draft="): x x")
    stepper.finish()
    stepper.abort()
    assert drafter.heard == [("assign", prompt)]

    stepper.run(draft="): x x")
    report = committed(stepper)
    assert report.emitted == (6, 1)
    assert drafter.heard.pop() == ("append", (6, 1))
    # Forced to keep less, then more, than the model would.
    stepper.run(draft="    return")
    assert committed(stepper, keep=1).emitted == (7,)
    assert drafter.text == [*prompt, 6, 1, 7]
    stepper.run(draft=" + 1 x")
    forced = committed(stepper, keep=2, force=True)
    assert forced.emitted[0] == 9
    assert drafter.text == [*prompt, 6, 1, 7, *forced.emitted]
    assert [kind for kind, _ in drafter.heard] == ["assign", "append", "append"]

    stepper.back()
    assert drafter.heard.pop() == ("assign", (*prompt, 6, 1, 7))
    stepper.back(position=2)
    assert drafter.text == list(prompt)


def test_a_drafter_that_serves_another_is_told_anew() -> None:
    drafter = SuffixTrees()
    stepper = made(drafter)
    drafter.assign([9, 9, 9])
    stepper.take()
    assert drafter.history == SCRIPT[:3]


def test_what_was_typed_for_a_drafter_is_used_once() -> None:
    drafter = Typed()
    stepper = made(drafter)
    drafter.type([6])
    assert stepper.take() == "):"
    stepper.run()
    committed(stepper)
    assert stepper.take() == ""
    assert "typed proposes nothing here" in stepper._view["message"]["text"]


def test_no_more_is_asked_than_there_is_room() -> None:
    asked = []

    class Asked(Constant):
        def propose(self, most: int) -> Draft:
            asked.append(most)
            return super().propose(most)

    Stepper(FakeModel().engine(), prompt=PROMPT, drafter=Asked([1] * 9)).take()
    Stepper(FakeModel().engine(context=5), prompt=PROMPT, drafter=Asked([1])).take()
    Stepper(FakeModel().engine(context=2), prompt=PROMPT, drafter=Asked([1])).take()
    assert asked == [7, 2, 0]


@pytest.mark.parametrize(
    ("proposed", "words"),
    [
        (KeyError("x"), "a draft of told is wanted, but it raised KeyError: 'x'; type"),
        (MemoryError(), "it raised MemoryError; type a draft, or mend the drafter"),
        (Draft((6, 16)), "told proposed token 16, wanted 0 to 15; type a draft, or"),
        (Draft((-1,)), "told proposed token -1, wanted 0 to 15"),
        (Draft((1,) * 8), "told proposed 8 drafts, wanted 7 at most; type a draft"),
        ((6, 1), "told proposed (6, 1), wanted a `strata_nb.draft.Draft` of integers"),
        (Draft("ab"), "wanted a `strata_nb.draft.Draft` of integers, such as"),  # type: ignore[arg-type]
        (Draft((1.5,)), "wanted a `strata_nb.draft.Draft` of integers"),  # type: ignore[arg-type]
        (Draft((1,), match_length=-1), "wanted a `strata_nb.draft.Draft` of integers"),
        (None, "told proposed None, wanted"),
    ],
)
def test_a_bad_drafter_is_said_in_words(proposed: Any, words: str) -> None:
    stepper = made(Told(proposed, proposed, NO_DRAFT))
    before = stepper.engine.digests(), stepper._preview
    with pytest.raises((ValueError, StrataError), match=re.escape(words)):
        stepper.take()
    shown = click(stepper, "take")
    assert shown["message"]["kind"] == "error"
    assert words in shown["message"]["text"]
    assert (stepper.engine.digests(), stepper._preview) == before
    assert shown["can"]["run"]
    stepper.take()
    stepper.run(draft="):")
    assert committed(stepper).drafter == HAND


def test_a_drafter_that_cannot_hear_breaks_no_commit() -> None:
    class Deaf(Told):
        def append(self, tokens: Sequence[int]) -> None:
            raise RuntimeError("full")

    drafter = Deaf(Draft((6,)), Draft((7,)))
    stepper = made(drafter)
    stepper.run(draft="")
    committed(stepper)
    assert stepper.engine.position == 3
    # It is told all of it when a draft is wanted.
    stepper.take()
    assert drafter.heard[-1] == ("assign", SCRIPT[:4])

    def broken(tokens: Sequence[int]) -> None:
        raise RuntimeError("full")

    drafter.assign = broken  # type: ignore[method-assign]
    stepper.back()
    with pytest.raises(StrataError, match="it raised RuntimeError: full; type a draft"):
        stepper.take()


def test_taking_at_the_wrong_time() -> None:
    none = made(None)
    assert none._view["drafter"] == ""
    with pytest.raises(ValueError, match="has no drafter to take a draft from; make"):
        none.take()
    stepper = made(Told(NO_DRAFT))
    stepper.run(draft="")
    words = "take while the window of cells 2 to 2 is open; `commit` or `abort` it"
    with pytest.raises(WindowOpenError, match=re.escape(words)):
        stepper.take()
    rootless = Stepper(FakeModel().engine(), drafter=Told(NO_DRAFT))
    with pytest.raises(ValueError, match="pass `prompt=`"):
        rootless.take()


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ("suffix", "got a str; take one"),
        (SuffixTrees, "got the class SuffixTrees; take one of `strata_nb.draft`"),
    ],
)
def test_what_is_no_drafter_is_refused(given: Any, got: str) -> None:
    with pytest.raises(TypeError, match=re.escape(got)):
        made(given)


def test_a_name_that_no_record_holds_is_refused() -> None:
    drafter = Told()
    drafter.name = 3  # type: ignore[assignment]
    with pytest.raises(TypeError, match="`drafter` must be text, got 3"):
        made(drafter)


def test_a_fork_s_drafter_hears_what_is_known() -> None:
    stepper = made(None)
    stepper.run(draft="):")
    committed(stepper)
    drafter = Told()
    Stepper(stepper.engine.fork(), drafter=drafter)
    assert drafter.text == [stepper.root]
