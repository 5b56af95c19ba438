"""Public bug reports as small tests: whatever counts tokens counts what was emitted."""

import warnings

import pytest

from helpers import after, assert_same, greedy, prompt
from scripted_model import Rows, ScriptedModel, chain
from strata_nb import Model, Session
from strata_nb.draft import Adversary, Draft, Perfect, SuffixLookup
from strata_nb.sampling import ThinkingBudget
from strata_nb.session.spell import Spell

WIDTHS = range(1, 9)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("drafts", [Perfect, Adversary])
def test_s10_a_thought_ends_after_50_emitted_tokens(
    tiny: Model, drafts: type, width: int
) -> None:
    """S10: a budget of 50, all drafts accepted and none.

    https://github.com/jundot/omlx/issues/2617
    https://github.com/vllm-project/vllm/issues/39573
    """
    # Each token is followed by the next one of 30; the end of a thought by token 0.
    end, vocabulary = 30, 31
    target = chain({t: (t + 1) % 30 for t in range(30)}, vocabulary=vocabulary, other=0)
    model = ScriptedModel(tiny, target, vocabulary=vocabulary, stop_ids=())
    thought = [t % 30 for t in range(4, 54)]
    want = [*thought, end, *range(9)]
    text = [2, 3, *want]
    drafter = Perfect(text) if drafts is Perfect else Adversary(text, vocabulary)
    session = Session(
        model,
        drafter=drafter,
        length=Rows(width),
        adjustments=[ThinkingBudget(end, 50)],
    )
    reply = session.reply([2, 3], max_new=60)
    assert list(reply.tokens) == want
    if width > 1:
        assert reply.acceptance == (1.0 if drafts is Perfect else 0.0)


@pytest.mark.parametrize("drafts", [Perfect, Adversary])
def test_s10_on_a_real_engine(tiny: Model, drafts: type) -> None:
    """S10: the first 50 tokens are those without a budget; a limit of 50 is exact too.

    https://github.com/jundot/omlx/issues/2617
    """
    asked = prompt(tiny, 24, seed=5)
    ref = greedy(after(tiny, asked[:-1]), asked[-1], 50)
    end = next(t for t in range(tiny.config.vocab_size) if t not in ref)
    text = [*asked, *ref, end]
    drafter = (
        Perfect(text) if drafts is Perfect else Adversary(text, tiny.config.vocab_size)
    )
    session = Session(tiny, drafter=drafter, adjustments=[ThinkingBudget(end, 50)])
    reply = session.reply(asked, max_new=51, stop_ids=())
    assert reply.tokens == (*ref, end)
    assert reply.acceptance == (1.0 if drafts is Perfect else 0.0)
    assert session.reply(asked, max_new=50, stop_ids=()).tokens == tuple(ref)


class Moody(SuffixLookup):
    """A lookup that is wrong on purpose in so many windows behind 1,000 tokens."""

    def __init__(self, windows: int, vocabulary: int) -> None:
        super().__init__(minimum=2, most=7)
        self._left, self._vocabulary = windows, vocabulary

    def propose(self, most: int) -> Draft:
        draft = super().propose(most)
        if len(self) < 1000 or self._left == 0:
            return draft
        self._left -= 1
        return Draft(tuple((token + 1) % self._vocabulary for token in draft.tokens))


def test_s17_a_spell_of_rejection_is_said_and_does_no_harm(small: Model) -> None:
    """S17: 2,000 tokens; in the middle 60 windows in a row that accept nothing.

    https://github.com/vllm-project/vllm/issues/55357
    https://github.com/vllm-project/vllm/issues/36872
    """
    ids = prompt(small, 24, seed=1)
    session = Session(small, drafter=Moody(60, small.config.vocab_size))
    with pytest.warns(UserWarning, match="no draft was accepted in 50 windows") as said:
        reply = session.reply(ids, max_new=2000, stop_ids=())
    assert len(said) == 1
    assert len(reply.tokens) == 2000
    row = best = 0
    for record in session.trace:
        row = row + 1 if record.offered and not record.accepted else 0
        best = max(best, row)
    assert best >= 50
    # Every token is the model's own: asked again, with other rows in a window.
    text, engine = session.tokens, after(small, ids[:-1])
    for at in range(len(ids) - 1, len(text) - 1, 8):
        window = engine.run(text[at : at + 8][: len(text) - 1 - at])
        result = engine.finish(window, stop_ids=())
        assert result.predictions == text[at + 1 :][: window.T]
        engine.commit(window, keep=window.T, force=True)
    assert_same(session.engine(), engine)
    want = tuple(greedy(engine, text[-1], 20))
    assert session.go_on(max_new=20, stop_ids=()).tokens == want


@pytest.mark.parametrize("windows", [0, 49, 50, 120])
def test_s17_only_50_windows_are_a_spell(tiny: Model, windows: int) -> None:
    """S17: 2,000 tokens of a script; a spell is said once, and 49 windows are none.

    https://github.com/vllm-project/vllm/issues/36872
    """
    target = chain({0: 1, 1: 2, 2: 0}, vocabulary=5, other=4)
    model = ScriptedModel(tiny, target, vocabulary=5, stop_ids=())
    session = Session(model, drafter=Moody(windows, 5))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        reply = session.reply([0], max_new=2000)
    assert len(said) == (windows >= 50)
    assert list(reply.tokens) == [n % 3 for n in range(1, 2001)]
    rejected = sum(1 for r in session.trace if r.offered and not r.accepted)
    assert rejected == windows


def test_s17_every_spell_is_visible(tiny: Model) -> None:
    """S17: the same spell in three sessions is said three times, as filters are.

    https://github.com/vllm-project/vllm/issues/36872
    """
    target = chain({0: 1, 1: 2, 2: 0}, vocabulary=5, other=4)
    model = ScriptedModel(tiny, target, vocabulary=5, stop_ids=())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            Session(model, drafter=Moody(50, 5)).reply([0], max_new=2000)
    assert len(said) == 3
    assert {str(warning.message) for warning in said} == {str(said[0].message)}


def test_s17_acceptance_rolls_over_2000_tokens(tiny: Model) -> None:
    """S17: what was rejected more than 2,000 tokens ago does not hide a spell.

    https://github.com/vllm-project/vllm/issues/55357
    """
    # Until now more was rejected than accepted; of the last 2,000 tokens all was.
    bad = [0] * 400
    good = [7] * 250
    spell = Spell()
    said = [spell.note(7, accepted) for accepted in (*bad, *good, *[0] * 50)]
    assert said == [None] * 699 + [1.0]
