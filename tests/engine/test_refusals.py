"""Wrong order, wrong arguments, wrong options: refused in words, nothing changed."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import strata_nb
from helpers import advance, after, greedy, prompt
from strata_nb import Model
from strata_nb.engine import Engine
from strata_nb.errors import (
    AlreadyFinishedError,
    ContextLimitError,
    ForeignWindowError,
    KeepError,
    NotFinishedError,
    WindowClosedError,
    WindowOpenError,
)


@pytest.fixture
def engine(small: Model) -> Engine:
    return after(small, prompt(small, 9))


def wrong_order(engine: Engine, other: Engine) -> list[tuple[Any, type, str]]:
    """Each wrong call, the error it wants, and a piece of its message."""
    window = engine.run([1, 2])
    finish, abort = engine.finish, engine.abort
    commit: Any = engine.commit
    foreign = other.run([1])
    return [
        (lambda: engine.run([1]), WindowOpenError, "run while the window of cells"),
        (lambda: engine.prefill([1]), WindowOpenError, "is open; `commit` or `abort`"),
        (lambda: engine.fork(), WindowOpenError, "fork while"),
        (lambda: engine.save("x"), WindowOpenError, "save while"),
        (lambda: engine.restore("x"), WindowOpenError, "restore while"),
        (lambda: commit(window), NotFinishedError, "call `engine.finish"),
        (lambda: finish(foreign), ForeignWindowError, "belongs to another engine"),
        (lambda: commit(foreign), ForeignWindowError, "commit it there"),
        (lambda: abort(foreign), ForeignWindowError, "abort it there"),
        (lambda: finish(window, tokens_left=0), ValueError, "`tokens_left` is 0"),
        (lambda: commit("window"), TypeError, "wants a Window, got str"),
    ]


def test_wrong_order_says_so_and_changes_nothing(small: Model) -> None:
    engine, other = (after(small, prompt(small, 9)) for _ in range(2))
    before = engine.digests()
    for call, error, message in wrong_order(engine, other):
        with pytest.raises(error, match=message):
            call()
        assert engine.digests() == before
        assert engine.window is not None
        assert engine.window.phase == "run"


def test_twice_is_an_error(engine: Engine) -> None:
    window = engine.run([1, 2])
    engine.finish(window)
    with pytest.raises(AlreadyFinishedError, match="finished already"):
        engine.finish(window)
    engine.commit(window, keep=1)
    for again in (engine.commit, engine.finish, engine.abort):
        with pytest.raises(WindowClosedError, match="committed already"):
            again(window)


@pytest.mark.parametrize(
    ("keep", "force", "message"),
    [
        (0, False, "keep=0 is outside 1 to 1; .* abort the window to keep none"),
        (-1, True, "keep=-1 is outside 1 to 3"),
        (2, False, "pass force=True"),
        (4, True, "keep=4 is outside 1 to 3"),
    ],
)
def test_keep_outside_its_range(
    small: Model, keep: int, force: bool, message: str
) -> None:
    engine = after(small, prompt(small, 9))
    first = greedy(engine.fork(), 1, 1)[0]
    window = engine.run([1, (first + 1) % 17, 5])
    engine.finish(window, stop_ids=())
    before = engine.digests()
    with pytest.raises(KeepError, match=message):
        engine.commit(window, keep=keep, force=force)
    assert engine.digests() == before
    engine.commit(window, keep=1)


def test_a_headless_window_keeps_all_its_rows(engine: Engine) -> None:
    window = engine.run(list(range(12)), head=False)
    assert engine.finish(window).keep == 12
    with pytest.raises(KeepError, match="keeps all its 12 rows"):
        engine.commit(window, keep=11)
    report = engine.commit(window)
    assert report.root is None
    with pytest.raises(ValueError, match="no logits"):
        _ = window.logits


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([], ValueError, "needs at least its root"),
        (list(range(9)), ValueError, "8 rows at most, got 9; cut the drafts to 7"),
        ([1, 10**6], ValueError, "token 1000000 is outside the vocabulary"),
        ([-1], ValueError, "token -1 is outside"),
        ("text", TypeError, "use `model.encode"),
        ([1.5], TypeError, "integer"),
    ],
)
def test_rows_that_cannot_be_run(
    engine: Engine, ids: Any, error: type[Exception], message: str
) -> None:
    before = engine.digests()
    with pytest.raises(error, match=message):
        engine.run(ids)
    assert engine.window is None
    assert engine.digests() == before


def test_numpy_integers_are_tokens(engine: Engine) -> None:
    assert engine.run(np.array([1, 2])).inputs == (1, 2)


def test_the_context_is_checked_before_any_work(small: Model) -> None:
    engine = after(small, prompt(small, 9), context=12)
    with pytest.raises(ContextLimitError, match=r"4 rows from cell 9 on .* run 3"):
        engine.run([1, 2, 3, 4])
    with pytest.raises(ContextLimitError, match="pass the end"):
        engine.prefill(range(4))
    advance(engine, [1, 2, 3])
    with pytest.raises(ContextLimitError, match="run 0 at most"):
        engine.run([1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.run([1], head="no"), "`head` wants True or False"),
        (lambda e: e.run(b"ab"), "got text"),
        (lambda e: e.run({1: 2}), "in order, got a dict"),
        (lambda e: e.prefill(""), "got text"),
        (lambda e: e.run([1], drafter=5), "drafter"),
        (lambda e: e.run([1], match_length=2.5), "match_length"),
        (lambda e: e.run([1], draft_ms=float("nan")), "draft_ms"),
        (lambda e: e.run([1], draft_ms=-1), "draft_ms"),
        (lambda e: e.finish(e.run([1]), stop_ids="</s>"), "`stop_ids` wants token ids"),
        (lambda e: e.finish(e.run([1]), stop_ids=[1.5]), "integer"),
        (lambda e: e.finish(e.run([1]), tokens_left=float("nan")), "integer"),
        (lambda e: copy.copy(e), "use `engine.fork"),
        (lambda e: pickle.dumps(e), "not copied or pickled"),
        (lambda e: strata_nb.diff(e, e.trace), "two engines, got Trace"),
    ],
)
def test_what_only_looks_right_is_refused_in_words(
    engine: Engine, call: Any, message: str
) -> None:
    before = engine.digests()
    with pytest.raises((TypeError, ValueError), match=message):
        call(engine)
    assert engine.digests() == before


def test_stop_ids_are_read_once(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    right = greedy(engine.fork(), 3, 4)
    ids: Any = iter([right[2]])
    result = engine.finish(engine.run([3, *right]), stop_ids=ids)
    first = right.index(right[2])
    assert (result.accepted, result.stop) == (first, "stop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partial": "no"}, "`partial` wants True or False"),
        ({"kv": ""}, "`kv` is ''"),
        ({"fold": "slow"}, "`fold` is 'slow'"),
        ({"context": 0}, "`context` is 0, wanted 1 to"),
        ({"context": 10**9}, "the model was made for no more"),
        ({"context": 1.5}, "integer"),
    ],
)
def test_options_that_are_not_offered(
    small: Model, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        small.engine(**options)


def test_the_options_of_a_fork_are_its_own(small: Model) -> None:
    fork: Any = small.engine().fork()
    with pytest.raises(TypeError, match="does not support item assignment"):
        fork.options["kv"] = "int8"
