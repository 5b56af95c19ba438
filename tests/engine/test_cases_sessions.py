"""Public bug reports as small tests: requests, their ends, their counters."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from helpers import EXACT, after, assert_same, greedy, prompt, tiny_disk
from scripted_model import TEXT, After, Rows, ScriptedModel, chain
from strata_nb import Model, Reply, SavedStateError, Session, generate
from strata_nb.draft import Perfect, SuffixLookup
from strata_nb.sampling import Penalties
from strata_nb.state import Leaves
from strata_nb.trace import Leaf

WIDTHS = range(1, 9)

# The tokens of HAND-04: START is the prompt, X follows whatever should not be there.
A, B, C, D, E, F, END, OTHER_END, G, H, X, START = range(12)
ANSWER = (A, B, C, D, E, F)


def alphabet(like: Model, end: int = END) -> ScriptedModel:
    """Its greedy text after START is a b c d e f and `end`; it has two stop ids."""
    follows = dict(zip((START, *ANSWER), (*ANSWER, end), strict=True))
    target = chain(follows, vocabulary=12, other=X)
    return ScriptedModel(like, target, vocabulary=12, stop_ids=(END, OTHER_END))


def counts(reply: Reply) -> tuple[int, int, int]:
    return reply.windows, reply.offered, reply.accepted


def assert_leaves(got: Leaves, want: Leaves) -> None:
    """Every part is the same: whole numbers equal, floats as far as rows allow."""
    assert got.keys() == want.keys()
    for leaf, array in want.items():
        atol = 1e-4 if array.dtype.kind == "f" and not EXACT else 0.0
        np.testing.assert_allclose(
            got[leaf], array, rtol=0, atol=atol, err_msg=f"{leaf}"
        )


HAND_04 = {
    "end_rejected": (END, {A: [END]}, (7, 1, 0)),
    "end_rejected_behind_an_accepted_draft": (END, {A: [B, END, X]}, (6, 3, 1)),
    "nothing_behind_the_end": (END, {C: [D, E, F, END, G, H]}, (4, 3, 3)),
    "second_stop_id": (OTHER_END, {C: [D, E, F, OTHER_END, G, H]}, (4, 3, 3)),
    "second_stop_id_alone": (OTHER_END, {A: [OTHER_END]}, (7, 1, 0)),
}


@pytest.mark.parametrize("step", HAND_04)
def test_hand_04_only_the_targets_own_stop_token_ends(tiny: Model, step: str) -> None:
    """HAND-04: a drafted stop id, and one in the middle of a draft, in a session.

    https://github.com/ohdearquant/lattice/issues/237
    https://github.com/LostRuins/koboldcpp/issues/1276
    """
    end, proposals, counted = HAND_04[step]
    model, sessions = alphabet(tiny, end), []
    for offers in (proposals, {}):
        session = Session(model, drafter=After(offers), adjustments=[Penalties()])
        reply = session.reply([START], max_new=20)
        assert (reply.tokens, reply.stop) == ((*ANSWER, end), "stop")
        assert counts(reply) == (counted if offers else (7, 0, 0))
        sessions.append(session)
    drafted, ref = sessions
    assert drafted.tokens == ref.tokens == (START, *ANSWER, end)
    assert_leaves(drafted.leaves(), ref.leaves())
    # The stop token itself is emitted, and no cell has it.
    assert drafted.leaves()[TEXT].tolist() == [START, *ANSWER]
    history = drafted.leaves()[Leaf("drafter", None, "history")]
    assert history.tolist() == [START, *ANSWER, end]
    told = drafted.leaves()[Leaf("penalties", None, "0 emitted")]
    assert told.tolist() == [[token, 1] for token in (*ANSWER, end)]


@pytest.mark.parametrize("step", HAND_04)
def test_hand_04_without_a_session(tiny: Model, step: str) -> None:
    """HAND-04, by `generate`.

    https://github.com/ohdearquant/lattice/issues/287
    """
    end, proposals, counted = HAND_04[step]
    engine = alphabet(tiny, end).engine()
    found = generate(
        engine, START, max_new=20, drafts=lambda text: proposals.get(text[-1], [])
    )
    assert (found.tokens, found.stop) == ((*ANSWER, end), "stop")
    assert (found.windows, found.offered, found.accepted) == counted
    assert engine.leaves()[TEXT].tolist() == [START, *ANSWER]


@pytest.fixture(scope="module")
def asked(tiny: Model) -> tuple[int, ...]:
    return tuple(prompt(tiny, 24, seed=5))


@pytest.fixture(scope="module")
def ref(tiny: Model, asked: Sequence[int]) -> tuple[int, ...]:
    """REF: 13 greedy tokens after `asked`, one row a window."""
    found = tuple(greedy(after(tiny, asked[:-1]), asked[-1], 13))
    assert not set(found) & set(tiny.stop_ids)
    return found


def perfect(asked: Sequence[int], ref: Sequence[int]) -> Perfect:
    return Perfect([*asked, *ref])


@pytest.mark.parametrize("width", WIDTHS)
def test_hand_05_a_session_gives_what_was_asked_for(
    tiny: Model, asked: tuple[int, ...], ref: tuple[int, ...], width: int
) -> None:
    """HAND-05: limits of 0 to 12 tokens, all drafts right; S9: its counters.

    https://github.com/ohdearquant/lattice/issues/242
    https://github.com/sgl-project/sglang/issues/37450
    """
    for limit in range(13):
        session = Session(tiny, drafter=perfect(asked, ref), length=Rows(width))
        reply = session.reply(asked, max_new=limit)
        assert (reply.tokens, reply.stop) == (ref[:limit], "limit")
        assert reply.windows == -(-limit // width)
        assert reply.offered == reply.accepted == limit - reply.windows
        # The prompt and what was emitted, less the last token, which nobody has run.
        assert session.position == (len(asked) + limit - 1 if limit else 0)
        assert session.tokens == ((*asked, *ref[:limit]) if limit else ())


@pytest.mark.parametrize("width", WIDTHS)
def test_hand_05_so_does_generate(
    tiny: Model, asked: tuple[int, ...], ref: tuple[int, ...], width: int
) -> None:
    """HAND-05, by `generate`.

    https://github.com/antonellof/ferrox/issues/311
    https://github.com/mlx-node/mlx-node/issues/65
    """
    start = after(tiny, asked[:-1])

    def drafts(text: Sequence[int]) -> Sequence[int]:
        return ref[len(text) - 1 :][: width - 1]

    for limit in range(13):
        engine = start.fork()
        found = generate(engine, asked[-1], max_new=limit, drafts=drafts)
        assert (found.tokens, found.stop) == (ref[:limit], "limit")
        assert found.windows == -(-limit // width)
        assert found.offered == found.accepted == limit - found.windows
        assert engine.position == len(asked) - 1 + limit
        if limit == 0:
            assert_same(engine, start, exact=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_hand_05_the_stop_token_may_come_first(
    tiny: Model, asked: tuple[int, ...], ref: tuple[int, ...], width: int
) -> None:
    """HAND-05: fewer tokens than the limit, if the stop token came.

    https://github.com/skyzh/tiny-llm/issues/299
    """
    last = ref[6]
    assert last not in ref[:6]
    for limit in range(4, 10):
        session = Session(tiny, drafter=perfect(asked, ref), length=Rows(width))
        reply = session.reply(asked, max_new=limit, stop_ids=[last])
        assert reply.tokens == ref[: min(limit, 7)]
        assert reply.stop == ("stop" if limit >= 7 else "limit")
        assert session.position == len(asked) + len(reply.tokens) - 1
        assert len(reply.tokens) == reply.windows + reply.accepted


@pytest.mark.parametrize("limit", [0, -1])
def test_hand_05_no_tokens_are_no_change(
    tiny: Model, asked: tuple[int, ...], ref: tuple[int, ...], limit: int
) -> None:
    """HAND-05: a limit of 0 gives none and changes no state; below 0 is an error.

    https://github.com/ohdearquant/lattice/issues/242
    """
    session = Session(tiny, drafter=SuffixLookup(), adjustments=[Penalties()])
    engine = after(tiny, asked[:-1])
    session.reply(asked, max_new=5)
    before = session.leaves(), session.tokens, session.checkpoints, len(session.trace)
    digests, records = engine.digests(), len(engine.trace)

    asks: list[Callable[[int], tuple[int, ...]]] = [
        lambda n: session.reply([1, 2, 3], max_new=n).tokens,
        lambda n: session.go_on(max_new=n).tokens,
        lambda n: generate(engine, asked[-1], max_new=n).tokens,
    ]
    for ask in asks:
        if limit < 0:
            with pytest.raises(ValueError, match="`max_new` is -1, wanted 0 or more"):
                ask(limit)
        else:
            assert ask(limit) == ()
    assert_leaves(session.leaves(), before[0])
    assert (session.tokens, session.checkpoints, len(session.trace)) == before[1:]
    assert (engine.digests(), len(engine.trace)) == (digests, records)


@pytest.mark.parametrize("length", range(20, 25))
def test_s7_a_prefix_hit_has_nothing_of_the_former_turn(
    tiny: Model, length: int
) -> None:
    """S7: turn 2 shares only the prompt with turn 1, which went 10 tokens further.

    https://github.com/hyprstream/hyprstream/issues/1522
    """

    def session() -> Session:
        return Session(
            tiny,
            drafter=SuffixLookup(minimum=1, most=7),
            adjustments=[Penalties(repetition=1.1, frequency=0.1)],
        )

    first = prompt(tiny, length, seed=length)
    warm, cold = session(), session()
    answer = warm.reply(first, max_new=10, stop_ids=()).tokens
    assert len(answer) == 10
    second = [*first, (answer[0] + 1) % tiny.config.vocab_size, 5, 6, 5, 6, 5]
    hit = warm.reply(second, max_new=20, stop_ids=())
    miss = cold.reply(second, max_new=20, stop_ids=())
    # All of the prompt but its root was there.
    assert (hit.reused, miss.reused) == (length - 1, 0)
    assert (hit.tokens, counts(hit)) == (miss.tokens, counts(miss))
    assert hit.offered
    assert_leaves(warm.leaves(), cold.leaves())
    again = warm.go_on(max_new=20, stop_ids=()).tokens
    assert again == cold.go_on(max_new=20, stop_ids=()).tokens


def _missing(folder: Path) -> Path:
    return folder / "absent" / "session.strata"


def _in_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "session.strata"


def _a_folder(folder: Path) -> Path:
    (folder / "folder").mkdir()
    return folder / "folder"


@pytest.mark.parametrize("place", [_missing, _in_a_file, _a_folder, None])
def test_s8_a_failed_save_is_an_error_and_no_later_hit(
    tiny: Model, tmp_path: Path, place: Callable[[Path], Path] | None
) -> None:
    """S8: a place that cannot be written, and a full disk.

    https://github.com/Avarok-Cybersecurity/atlas/issues/743
    """
    session = Session(tiny, drafter=SuffixLookup(minimum=1))
    session.reply(prompt(tiny, 22, seed=8), max_new=8, stop_ids=())
    before = session.leaves()
    path = place(tmp_path) if place else tmp_path / "session.strata"
    there = sorted(tmp_path.rglob("*"))
    if place:
        with pytest.raises(OSError, match=r"."):
            session.save(path)
    else:
        with tiny_disk(), pytest.raises(OSError, match=r"."):
            session.save(path)
    assert sorted(tmp_path.rglob("*")) == there
    fresh = Session(tiny)
    with pytest.raises(SavedStateError):
        fresh.restore(path)
    assert (fresh.position, fresh.tokens, fresh.checkpoints) == (0, (), ())
    assert_leaves(session.leaves(), before)
    # The session goes on; and a later save is whole.
    sound = tmp_path / "sound.strata"
    session.save(sound)
    fresh.restore(sound)
    more = session.go_on(max_new=10, stop_ids=()).tokens
    assert fresh.go_on(max_new=10, stop_ids=()).tokens == more


def test_s8_a_full_disk_leaves_the_older_file(tiny: Model, tmp_path: Path) -> None:
    """S8: what was saved before is still what a restore finds.

    https://github.com/Avarok-Cybersecurity/atlas/issues/743
    """
    session, path = Session(tiny), tmp_path / "session.strata"
    session.reply(prompt(tiny, 22, seed=8), max_new=8, stop_ids=())
    session.save(path)
    older, tokens = session.leaves(), session.tokens
    session.go_on(max_new=8, stop_ids=())
    with tiny_disk(), pytest.raises(OSError, match=r"."):
        session.save(path)
    session.restore(path)
    assert session.tokens == tokens
    assert_leaves(session.leaves(), older)


def test_s9_counters_are_the_visible_tokens(tiny: Model) -> None:
    """S9: the counters of HAND-04, by reply and by record.

    https://github.com/sgl-project/sglang/issues/39826
    """
    session = Session(alphabet(tiny), drafter=After({C: [D, E, F, END, G, H]}))
    reply = session.reply([START], max_new=20)
    seen = [record for record in session.trace if not record.headless]
    assert len(reply.tokens) == 7 == sum(len(record.emitted) for record in seen)
    assert sum(record.accepted for record in seen) == reply.accepted == 3
    # The stop token was drafted as well, but came as the target's own.
    assert sum(record.offered for record in seen) == reply.offered == 3
    assert len(reply.tokens) == reply.windows + reply.accepted
    assert not {G, H} & {token for record in seen for token in record.emitted}


@pytest.mark.parametrize("width", WIDTHS)
def test_s9_a_stop_string_cuts_the_counters_too(trained: Model, width: int) -> None:
    """S9: the text ends inside a window whose drafts were all right.

    https://github.com/sgl-project/sglang/issues/37450
    """
    ids = trained.encode("def area(w, h):\n    return w * h\n\n\ndef area(w")
    plain = Session(trained).reply(ids, max_new=12)
    text = [*ids, *plain.tokens]
    session = Session(trained, drafter=Perfect(text), length=Rows(width))
    reply = session.reply(ids, max_new=12, stop=["return"])
    assert reply.stop == "text"
    assert reply.tokens == plain.tokens[: len(reply.tokens)] != plain.tokens
    assert "return" in trained.decode(reply.tokens)
    assert "return" not in trained.decode(reply.tokens[:-1])
    assert len(reply.tokens) == reply.windows + reply.accepted
    assert reply.offered >= reply.accepted
    assert session.position == len(ids) + len(reply.tokens) - 1
    assert_same(session.engine(), after(trained, session.tokens[:-1]))
