"""A draft head that says the same whatever the text is told of, and no other."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import heads
from heads import write_with_head
from helpers import after, prompt
from strata_nb import Model, Session, load
from strata_nb.draft import Hybrid, MtpDrafter, SuffixLookup
from strata_nb.draft.sameness import ENOUGH, Sameness
from strata_nb.prompts import prompts
from tiny import Config, Tensors, small_config, tiny_config

ODD = "100 drafts of the draft head have only "


@pytest.fixture
def misread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A head whose maps were lost on the way: no error, and one token for ever."""
    whole: Callable[[Config, int], Tensors] = heads.head_tensors

    def lost(config: Config, seed: int) -> Tensors:
        found = whole(config, seed)
        return {n: a * ("fc_" not in n) for n, a in found.items()}

    monkeypatch.setattr(heads, "head_tensors", lost)
    return load(write_with_head(tmp_path / "lost", tiny_config(), 1))


def test_s19_a_constant_head_is_told_of(misread: Model) -> None:
    """S19: a converted head gives no error, and the same token at each of 100 windows.

    https://github.com/Niko1221/Strata ·
    https://github.com/ohdearquant/lattice/issues/1373
    """
    session = Session(misread, drafter=MtpDrafter(depth=1))
    ids = prompt(misread, 12, seed=3)
    with pytest.warns(UserWarning, match=f"{ODD}1 token, and [0-9]% .*; convert it"):
        reply = session.reply(ids, max_new=104, stop_ids=())
    drafted = {t for record in session.trace for t in record.inputs[1:]}
    assert len(drafted - {*ids}) <= 1
    # Slower, and not otherwise.
    assert reply.tokens == Session(misread).reply(ids, max_new=104, stop_ids=()).tokens


def test_s19_a_sound_head_says_different_things(trained: Model) -> None:
    """S19: at 100 windows 5 different tokens or more, and nothing is told."""
    drafter = MtpDrafter(depth=1)
    session = Session(trained, drafter=drafter)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids in prompts(trained, "prose")[:3]:
            session.reply(ids, max_new=72)
    drafts = [r.inputs[1:] for r in session.trace if r.offered]
    assert len(drafts) >= ENOUGH
    assert len({token for draft in drafts for token in draft}) >= 5


def test_s19_converted_twice_a_head_is_the_same(tmp_path: Path) -> None:
    """S19: once with its experts in one tensor, once with a tensor each."""
    found = []
    for per_expert in (False, True):
        folder = tmp_path / str(per_expert)
        model = load(
            write_with_head(folder, small_config(), 2, per_expert=per_expert),
            dtype="float32",
        )
        engine = after(model, prompt(model, 30, seed=1), mtp=True)
        digests = engine.digests()
        assert "mtp_kv" in digests
        found.append((digests, engine.draft(4, root=3)))
    (digests, drafted), (others, other) = found
    assert digests == others
    assert drafted == other
    assert drafted.logits is not None
    assert other.logits is not None
    np.testing.assert_array_equal(drafted.logits, other.logits)


def noted(drafts: list[int], came: list[int]) -> list[str]:
    watch = Sameness()
    told = (watch.note((a,), (b,)) for a, b in zip(drafts, came, strict=True))
    return [what for what in told if what is not None]


def test_what_is_counted() -> None:
    some = [7 + at % 4 for at in range(ENOUGH)]
    assert noted(some, [0] * ENOUGH) == noted([*some[:-1], 7], [0] * ENOUGH)
    (told,) = noted(some, [0] * ENOUGH)
    assert told.startswith(f"{ODD}4 different tokens, and 0% of them began rightly")
    assert noted(some[:-1], [0] * (ENOUGH - 1)) == []
    # Five are enough, and so is a text that is as dull as its drafts.
    assert noted([*some[:-1], 99], [0] * ENOUGH) == []
    assert noted([7] * ENOUGH, [7] * 51 + [0] * 49) == []
    assert len(noted([7] * ENOUGH, [7] * 50 + [0] * 50)) == 1
    # Each hundred is looked at, and no draft counts twice.
    assert len(noted([7] * 350, [0] * 350)) == 3
    watch = Sameness()
    assert watch.note((), (1,)) is watch.note((1,), ()) is None
    assert watch._drafts == 0


def test_a_hybrid_tells_too_and_another_text_does_not_begin_anew(
    misread: Model,
) -> None:
    """Counts are of the head and not of a text."""
    head = MtpDrafter(depth=2)
    both = Hybrid(SuffixLookup(), head, retry=1.0)
    engine = after(misread, prompt(misread, 12, seed=3), mtp=True)
    head.follow(engine)

    def hundred() -> None:
        for at in range(ENOUGH):
            both.assign([200, 1 + at % 50])
            both.propose(2)
            both.append([150])
            both.propose(2)
            # What was proposed for another text is not judged by this one.
            both.assign([100, 1 + at % 50])
            both.append([150])

    with pytest.warns(UserWarning, match=ODD) as told:
        hundred()
    assert len(told) == 1
