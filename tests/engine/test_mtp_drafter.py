"""The draft head as a drafter: what it is worth, where it ends, what it may draft."""

import itertools
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from heads import write_with_head
from helpers import after, prompt
from strata_nb import Model, Sampling, Session, StrataError, load
from strata_nb.draft import Cut, Draft, Given, Hybrid, Mtp, MtpDrafter, SuffixLookup
from strata_nb.draft.mtp import read_ids
from strata_nb.parts import WideRow
from strata_nb.policies.length import Free, Offer
from strata_nb.prompts import Kind, prompts
from strata_nb.sampling import law
from tiny import small_config, tiny_config


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(write_with_head(tmp_path_factory.mktemp("head"), tiny_config(), 1))


def rounds(model: Model, kind: Kind, count: int, **how: object) -> Iterator[list[bool]]:
    """Of each full window of 2 drafts whether the first, and then the second, came."""
    for ids in prompts(model, kind)[:count]:
        session = Session(model, drafter=MtpDrafter(depth=2, **how))  # type: ignore[arg-type]
        session.reply(ids, max_new=96)
        for record in session.trace:
            if record.offered == 2:
                yield [True, True][: record.accepted] + [False][: 2 - record.accepted]


@pytest.mark.parametrize(
    ("kind", "first", "second"), [("code", 0.75, 0.80), ("prose", 0.65, 0.70)]
)
def test_it_is_accepted_on_our_own_prompts(
    trained: Model, kind: Kind, first: float, second: float
) -> None:
    found = list(rounds(trained, kind, 5))
    assert len(found) > 100
    assert np.mean([r[0] for r in found]) >= first
    assert np.mean([r[1] for r in found if len(r) > 1]) >= second


def test_the_text_is_the_same_with_and_without(trained: Model) -> None:
    (ids,) = islice(prompts(trained, "code"), 1)
    want = Session(trained).reply(ids, max_new=48)
    distinct = set()
    for how in ({"depth": 4}, {"depth": 1, "stop_below": 0.6}, {"cut": range(2000)}):
        session = Session(trained, drafter=MtpDrafter(**how))
        reply = session.reply(ids, max_new=48)
        assert reply.tokens == want.tokens
        assert reply.accepted > 0
        distinct |= {t for r in session.trace for t in r.inputs[1:]}
    # A head that was read wrongly says the same token every time.
    assert len(distinct) >= 5


def test_a_session_goes_on_from_what_it_shares(trained: Model) -> None:
    session = Session(trained, drafter=MtpDrafter(depth=3))
    ids = prompts(trained, "prose")[0]
    first = session.reply(ids, max_new=24)
    again = session.reply([*ids, *first.tokens], max_new=16)
    cold = Session(trained, drafter=MtpDrafter(depth=3))
    assert again.reused >= len(ids)
    assert again.tokens == cold.reply([*ids, *first.tokens], max_new=16).tokens
    assert session.leaves().keys() == cold.leaves().keys()
    for leaf, array in cold.leaves().items():
        np.testing.assert_array_equal(session.leaves()[leaf], array, err_msg=str(leaf))


def test_it_ends_where_it_is_unsure(headed: Model) -> None:
    engine = after(headed, prompt(headed, 12, seed=1), mtp=True)
    every = engine.draft(4, root=3)
    assert len(every.tokens) == 4
    least = min(every.probabilities)
    ended = engine.draft(4, root=3, stop_below=least * 1.0001)
    assert len(ended.tokens) == every.probabilities.index(least)
    assert ended.tokens == every.tokens[: len(ended.tokens)]
    assert engine.draft(4, root=3, stop_below=1.0).tokens == ()


def test_a_cut_leaves_only_its_tokens(headed: Model, tmp_path: Path) -> None:
    engine = after(headed, prompt(headed, 12, seed=1), mtp=True)
    whole = engine.draft(1, root=3)
    file = tmp_path / "ids.txt"
    file.write_text("# those of our traffic\n9\n4 # four\n\n200\n")
    assert read_ids(file) == (9, 4, 200)
    few = engine.draft(1, root=3, cut=read_ids(file))
    assert few.logits is not None
    assert whole.logits is not None
    (row,) = few.logits
    assert {*np.flatnonzero(np.isfinite(row))} == {4, 9, 200}
    np.testing.assert_allclose(row[[4, 9, 200]], whole.logits[0][[4, 9, 200]], 1e-5)
    file.write_text("12\ntwelve\n")
    with pytest.raises(ValueError, match=r"ids.txt line 2: .*got 'twelve'; write one"):
        MtpDrafter(cut=file)
    with pytest.raises(ValueError, match="tokens of 0 to 256, got 4 to 300"):
        engine.draft(1, root=3, cut=(300, 4))


def test_a_drawn_draft_carries_its_law(headed: Model) -> None:
    engine = after(headed, prompt(headed, 12, seed=1), mtp=True)
    sampling = Sampling(temperature=0.8, top_k=20, rule="ratio", seed=5)
    drafter = MtpDrafter(depth=3, sampling=sampling)
    drafter.follow(engine)
    drafter.assign([1, 2, 3])
    draft = drafter.propose(3)
    assert draft == drafter.propose(3)
    assert draft.laws is not None
    logits = engine.draft(1, root=3).logits
    assert logits is not None
    np.testing.assert_allclose(draft.laws[0], law(logits[0], sampling))
    for token, q in zip(draft.tokens, draft.laws, strict=True):
        assert q[token] > 0
        assert (q > 0).sum() <= 20
    drafter.append([4])
    assert drafter.propose(3) != draft


def test_a_draft_says_how_likely_its_tokens_are(headed: Model) -> None:
    engine = after(headed, prompt(headed, 12, seed=1), mtp=True)

    def proposed(**how: object) -> Draft:
        drafter = MtpDrafter(depth=3, **how)  # type: ignore[arg-type]
        drafter.follow(engine)
        drafter.assign([1, 2, 3])
        return drafter.propose(3)

    every = engine.draft(3, root=3)
    assert every.logits is not None
    best = np.exp(every.logits - np.logaddexp.reduce(every.logits, -1)[:, None])
    for how in ({}, {"cut": range(257)}):
        draft = proposed(**how)
        assert draft.tokens == every.tokens
        assert draft.chances == pytest.approx([*best.max(axis=-1)], rel=1e-4)
    # Where few may be drafted, one of them is.
    few = proposed(cut=[draft.tokens[0]])
    assert few.chances == (1.0, 1.0, 1.0)

    seen = set()
    for seed, rule in itertools.product(range(8), ("equality", "ratio")):
        sampling = Sampling(temperature=1.5, rule=rule, seed=seed)  # type: ignore[arg-type]
        draft = proposed(sampling=sampling)
        assert draft.laws is not None
        drawn = [q[token] for q, token in zip(draft.laws, draft.tokens, strict=True)]
        most = draft.laws.max(axis=-1)
        assert draft.chances == pytest.approx(drawn)
        assert draft.planned == 3
        seen.add(drawn[0] < most[0])
        if most[0] > min(most):
            ends = {"sampling": sampling, "stop_below": min(most) * 1.0001}
    assert True in seen
    # One that ends early has as many chances as tokens.
    ended = proposed(stop_below=min(best.max(axis=-1)) * 1.0001)
    assert ended.chances is not None
    assert len(ended.chances) == len(ended.tokens) < 3
    drawn_too = proposed(**ends)
    assert drawn_too.chances is not None
    assert len(drawn_too.chances) == len(drawn_too.tokens) < 3
    assert drawn_too.planned == 3
    assert drawn_too.tokens
    nothing = proposed(stop_below=1.0)
    assert nothing.tokens == nothing.chances == ()


def test_chances_reach_the_policy_of_lengths(trained: Model) -> None:
    """Cut with the draft where a window has room for less, by whoever cuts."""

    class Sees(Free):
        def cut(self, offer: Offer) -> int:
            offers.append(offer)
            return 1 + len(offer.tokens)

    offers: list[Offer] = []
    both = Hybrid(SuffixLookup(), MtpDrafter(depth=2), prices=Given({"mtp": 0.0}))
    session = Session(trained, drafter=both, length=Sees())
    session.reply(prompts(trained, "code")[0], max_new=24)
    # The record says which of the two drafted, and so acceptance is counted by both.
    names = {record.drafter for record in session.trace if record.offered}
    assert names == {"mtp", "suffix_lookup"}
    told = [offer for offer in offers if offer.chances is not None]
    drafted = [r for r in session.trace if r.drafter == "mtp" and r.offered]
    assert len(told) == len(drafted)
    assert told
    for offer in told:
        assert offer.chances is not None
        assert len(offer.chances) == len(offer.tokens)
        assert all(0 < chance <= 1 for chance in offer.chances)


def test_where_a_draft_ends_does_not_hang_on_what_was_drawn(headed: Model) -> None:
    """Else tokens that the head thinks unlikely would come too seldom."""
    engine = after(headed, prompt(headed, 12, seed=1), mtp=True)
    lengths = set()
    for seed in range(12):
        how = Sampling(temperature=1.5, rule="ratio", seed=seed)
        drafter = MtpDrafter(depth=1, sampling=how, stop_below=0.01)
        drafter.follow(engine)
        drafter.assign([3])
        lengths.add(len(drafter.propose(1).tokens))
    assert len(lengths) == 1


def test_what_is_refused(headed: Model, small: Model, tmp_path: Path) -> None:
    engine = headed.engine(mtp=True)
    with pytest.raises(StrataError, match=r"nothing is committed, .* `prefill` a"):
        engine.draft(1, root=3)
    engine.prefill([1, 2, 3])
    with pytest.raises(StrataError, match="no root is decided; name the last token"):
        engine.draft(1)
    with pytest.raises(ValueError, match="`most` is -1"):
        engine.draft(-1, root=3)
    with pytest.raises(ValueError, match="token 257 is outside the vocabulary"):
        engine.draft(1, root=257)
    window = engine.run([4])
    with pytest.raises(StrataError, match=r"draft while the window .* is open"):
        engine.draft(1, root=3)
    engine.abort(window)
    with pytest.raises(StrataError, match=r"without the draft head; .*mtp=True"):
        headed.engine().draft(1, root=3)
    with pytest.raises(StrataError, match=r"told of none; call `follow\(engine\)`"):
        MtpDrafter().propose(1)
    with pytest.raises(ValueError, match="`depth` is 5, wanted 1 to 4"):
        MtpDrafter(depth=5)
    with pytest.raises(ValueError, match="`norm` is 'each', wanted whole or grouped"):
        Mtp(norm="each")  # type: ignore[arg-type]
    with pytest.raises(StrataError, match=r"no draft head \(no tensor `mtp\.\*`\)"):
        Session(small, drafter=MtpDrafter())
    assert small.why_no_head == "the checkpoint has no draft head (no tensor `mtp.*`)"
    gone = ("mtp.fc_hidden.weight", "mtp.layers.0.self_attn.k_norm.weight")
    folder = write_with_head(tmp_path, small_config(), 2, without=gone)
    part = load(folder)
    part.engine()
    for name in gone:
        with pytest.raises(StrataError, match=f"lacks .*`{name}`"):
            part.engine(mtp=True)


def test_a_cut_of_nothing_is_refused(headed: Model) -> None:
    engine = after(headed, [1, 2], mtp=True)
    with pytest.raises(ValueError, match="got none; make it of this model's tokens"):
        engine.draft(1, root=3, cut=Cut(np.array([], np.int64)))


def accepted(model: Model, steps: int) -> tuple[float, set[int]]:
    """How often the first draft is the model's next token, and which tokens it was."""
    ids = prompts(model, "code")[0]
    engine = after(model, ids[:-1], mtp=True)
    root, right, said = ids[-1], 0, set()
    for _ in range(steps):
        (token,) = engine.draft(1, root=root).tokens
        window = engine.run([root])
        engine.finish(window, stop_ids=())
        report = engine.commit(window)
        assert report.root is not None
        root = report.root
        right += token == root
        said.add(token)
    return right / steps, said


def test_a_converted_head_says_more_than_one_thing(trained: Model) -> None:
    again = load("strata-tiny", dtype="float32")
    assert again.digest == trained.digest
    share, said = accepted(trained, 100)
    assert len(said) >= 5
    assert share > 0.75


def test_alignment_is_everything(
    trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draft from the streams of the cell before: the head is asked about the past."""
    right, _ = accepted(trained, 40)

    def one_early(self: WideRow, committed: Any, pending: Any, *, keep: int) -> Any:
        # At a window of one row this is the row that waited before it.
        return mx.contiguous(mx.concatenate([committed, pending[:keep]])[-2:-1])

    monkeypatch.setattr(WideRow, "commit", one_early)
    shifted, _ = accepted(trained, 40)
    assert right > 0.75
    assert shifted < right / 2
