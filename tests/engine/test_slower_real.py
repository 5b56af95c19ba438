"""Why drafts make a text slower, on the bundled model: plants too large for noise.

No time is asserted. What was planted costs several times what plain decoding does, and
where it costs less, windows with drafts and without take turns, so that whatever else
the machine does befalls both.
"""

import time
from collections.abc import Sequence

import pytest

import strata_nb
from strata_nb.draft import Adversary, Draft, Drafter, Perfect
from strata_nb.experts import Streaming, Throttle
from strata_nb.slower import why_slower
from strata_nb.trace import Trace

TOKENS = 32
PROMPT = "def area(w, h):\n    return w * h\n\n\ndef area(w, h):\n    return"


class Slow(Perfect):
    """Always right, and asleep before it says so."""

    name = "slow"

    def propose(self, most: int) -> Draft:
        time.sleep(0.4)
        return super().propose(min(most, 3))


class Mute(Perfect):
    """Never finds a match."""

    name = "mute"

    def propose(self, most: int) -> Draft:
        return Draft()


class InTurn(Adversary):
    """Always wrong, and silent every other time."""

    name = "in turn"
    speaks = False

    def propose(self, most: int) -> Draft:
        self.speaks = not self.speaks
        return super().propose(most) if self.speaks else Draft()


class HalfRight(Perfect):
    """One draft right, all others wrong."""

    name = "half right"

    def propose(self, most: int) -> Draft:
        right = super().propose(most).tokens
        return Draft((*right[:1], *((token + 1) % 4096 for token in right[1:])))


def decoded(
    model: strata_nb.Model, drafter: Drafter | None, *, tokens: int = TOKENS
) -> Trace:
    session = strata_nb.Session(model, drafter=drafter)
    session.reply(PROMPT, max_new=tokens, stop_ids=())
    return session.trace


def text_of(trace: Trace) -> tuple[int, ...]:
    return tuple(token for record in trace for token in record.emitted)


@pytest.fixture(scope="module")
def plain(trained: strata_nb.Model) -> Trace:
    decoded(trained, None)  # what is built once belongs to nobody's trace
    return decoded(trained, None)


@pytest.fixture(scope="module")
def whole(trained: strata_nb.Model, plain: Trace) -> Sequence[int]:
    return (*trained.encode(PROMPT), *text_of(plain))


def test_a_drafter_that_sleeps(
    trained: strata_nb.Model, plain: Trace, whole: Sequence[int]
) -> None:
    trace = decoded(trained, Slow(whole))
    assert text_of(trace) == text_of(plain)
    found = why_slower(trace, without=plain)
    assert found.verdict == "slower"
    assert found.causes[0].name == "drafter", found


def test_a_drafter_that_is_always_wrong(
    trained: strata_nb.Model, whole: Sequence[int]
) -> None:
    found = why_slower(decoded(trained, InTurn(whole, trained.config.vocab_size)))
    assert found.verdict == "slower"
    assert found.observed_keep == 1
    assert set(found.acceptance) == {0}
    assert found.causes[0].name == "rejected", found


def test_a_drafter_that_finds_nothing(
    trained: strata_nb.Model, whole: Sequence[int]
) -> None:
    found = why_slower(decoded(trained, Mute(whole)))
    assert found.verdict != "faster"
    # The first window is not warm, which alone may take a while.
    names = {c.name for c in found.causes}
    assert "few_drafts" in names, found
    assert names <= {"few_drafts", "not_warm"}, found


def test_experts_on_a_slow_disk() -> None:
    how = Streaming(slots=12, throttle=Throttle(12))
    model = strata_nb.load("strata-tiny", dtype="float32", experts=how)
    plain = decoded(model, None, tokens=16)
    whole = (*model.encode(PROMPT), *text_of(plain))
    found = why_slower(decoded(model, HalfRight(whole), tokens=16), without=plain)
    assert found.verdict == "slower"
    assert found.causes[0].name == "cold_experts", found
    numbers = {n.name: n.value for n in found.causes[0].numbers}
    assert numbers["experts beyond the root's"] > 0
    assert numbers["experts missed in a window"] > 0


def test_keeps_that_the_caller_cuts_short(
    trained: strata_nb.Model, whole: Sequence[int]
) -> None:
    engine = trained.engine()
    at = len(trained.encode(PROMPT))
    engine.prefill(whole[: at - 1])
    for place in range(at - 1, at + 19):
        rows = 8 if place % 2 else 1
        window = engine.run(whole[place : place + rows])
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=1)
    found = why_slower(engine.trace)
    assert found.verdict == "slower"
    assert (found.observed_keep, found.expected_keep) == (1, 8)
    assert found.causes[0].name == "forced_keep", found


def test_a_drafter_that_is_always_right_is_not_slower(
    trained: strata_nb.Model, plain: Trace, whole: Sequence[int]
) -> None:
    found = why_slower(decoded(trained, Perfect(whole)), without=plain)
    assert found.observed_keep == pytest.approx(TOKENS / found.drafted)
    assert "rejected" not in [c.name for c in found.causes], found
    assert "too_long" not in [c.name for c in found.causes], found
