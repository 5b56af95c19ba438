"""The transaction: order of the verbs, their errors, and that nothing changes."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import strata_nb
from helpers import advance, after, assert_same, greedy, prompt
from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.errors import (
    AlreadyFinishedError,
    ContextLimitError,
    EngineBusyError,
    ForeignWindowError,
    KeepError,
    NotFinishedError,
    NotFiniteError,
    TransactionError,
    WindowClosedError,
    WindowOpenError,
)
from strata_nb.models.qwen4_exp.backend import best_tokens
from strata_nb.window import Committed
from tiny import small_config, write_checkpoint


@pytest.fixture
def engine(small: Model) -> Engine:
    return after(small, prompt(small, 9))


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_abort_leaves_every_digest(engine: Engine, rows: int) -> None:
    before = engine.digests()
    window = engine.run(list(range(rows)))
    engine.finish(window)
    engine.abort(window)
    assert engine.digests() == before
    assert engine.window is None
    assert window.phase == "aborted"


def test_an_aborted_prompt_window_leaves_every_digest(engine: Engine) -> None:
    before = engine.digests()
    engine.abort(engine.run([1, 2, 3, 4, 5] * 10, head=False))
    assert engine.digests() == before


def test_run_commits_nothing_even_with_a_fold_pending(small: Model) -> None:
    engine = after(small, prompt(small, 9), fold="lazy")
    advance(engine, [1, 2, 3, 4], keep=2)
    before = engine.digests()
    window = engine.run([5, 6, 7])
    assert engine.digests() == before
    engine.abort(window)
    assert engine.digests() == before


def test_commit_returns_the_prediction_of_the_last_kept_row(engine: Engine) -> None:
    window = engine.run([3, 4, 5])
    result = engine.finish(window, stop_ids=())
    report = engine.commit(window, keep=2, force=True)
    assert report.root == engine.root == result.predictions[1]
    assert report.emitted == (4, result.predictions[1])
    assert (report.position, report.keep) == (engine.position, 2)
    assert report.digests() == engine.digests()
    assert window.phase == "committed"


def test_a_forced_window_emits_what_it_kept(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    right = greedy(engine.fork(), 3, 1)[0]
    rows = [3, (right + 1) % 17, 5, 6]
    window = engine.run(rows)
    result = engine.finish(window, stop_ids=())
    assert result.keep == 1
    report = engine.commit(window, keep=3, force=True)
    assert report.emitted == (rows[1], rows[2], result.predictions[2])
    assert report.record.emitted == report.emitted
    assert (report.record.offered, report.record.accepted) == (3, 0)
    assert report.record.forced


def test_drafts_that_a_smaller_keep_gives_up_are_in_no_counter(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    right = greedy(engine.fork(), 3, 5)
    window = engine.run([3, *right])
    assert engine.finish(window, stop_ids=()).accepted == 5
    record = engine.commit(window, keep=3).record
    assert (record.offered, record.accepted, record.keep) == (2, 2, 3)
    assert record.emitted == tuple(right[:3])


def test_a_report_gives_the_digests_of_its_own_commit(engine: Engine) -> None:
    first = advance(engine, [3])
    then = engine.digests()
    advance(engine, [4])
    assert first.digests() == then != engine.digests()


def test_the_natural_keep_is_the_right_drafts_and_the_root(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    right = greedy(engine.fork(), 3, 6)
    for count in range(6):
        wrong = (right[count] + 1) % small.config.vocab_size
        window = engine.run([3, *right[:count], wrong])
        result = engine.finish(window, stop_ids=())
        assert (result.accepted, result.keep) == (count, count + 1)
        assert list(result.emitted) == right[: count + 1]
        assert result.offered == count + 1
        engine.abort(window)


def wrong_order(engine: Engine, other: Engine) -> list[tuple[Any, type, str]]:
    """Each wrong call, the error it wants, and a piece of its message."""
    window = engine.run([1, 2])
    finish, abort = engine.finish, engine.abort
    commit: Any = engine.commit
    foreign = other.run([1])
    return [
        (lambda: engine.run([1]), WindowOpenError, "run while the window of cells .* is open"),
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


class Interrupting:
    """A backend that raises in the middle of a verb."""

    def __init__(self, backend: Any, verb: str, error: BaseException) -> None:
        self._backend, self._verb, self._error = backend, verb, error
        self.armed = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name != self._verb or not self.armed:
            return value

        def fail(*args: Any, **options: Any) -> Any:
            value(*args, **options)
            raise self._error

        return fail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full")])
@pytest.mark.parametrize("verb", ["run", "commit"])
def test_an_exception_inside_a_verb_changes_nothing(
    engine: Engine, verb: str, error: BaseException
) -> None:
    before = engine.digests()
    backend = engine.backend = Interrupting(engine.backend, verb, error)
    with pytest.raises(type(error)):
        advance(engine, [1, 2, 3], keep=2)
    assert engine.digests() == before
    backend.armed = False
    if engine.window is not None:
        engine.abort(engine.window)
    advance(engine, [1, 2, 3], keep=2)


def test_a_cancelled_prefill_leaves_the_engine_as_before(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    before, windows = engine.digests(), len(engine.trace)

    def cancel(done: int, total: int) -> None:
        assert total == 40
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.prefill(prompt(small, 40), chunk=8, progress=cancel)
    assert engine.digests() == before
    assert len(engine.trace) == windows


def test_prefill_reports_progress(small: Model) -> None:
    seen: list[tuple[int, int]] = []
    engine = small.engine()
    engine.prefill(prompt(small, 20), chunk=8, progress=lambda *a: seen.append(a))
    assert seen == [(8, 20), (16, 20), (20, 20)]
    assert engine.prefill([]) == 20
    with pytest.raises(ValueError, match="`chunk` is 0"):
        engine.prefill([1], chunk=0)


def test_a_second_thread_is_refused(engine: Engine) -> None:
    inside, go_on = threading.Event(), threading.Event()
    backend = engine.backend

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def run(self, *args: Any, **options: Any) -> Any:
            inside.set()
            assert go_on.wait(30)
            return backend.run(*args, **options)

    engine.backend = Slow()
    worker = threading.Thread(target=engine.run, args=([1, 2],))
    worker.start()
    assert inside.wait(30)
    with pytest.raises(EngineBusyError, match="another thread"):
        engine.run([3])
    go_on.set()
    worker.join(30)
    assert engine.window is not None
    assert engine.window.inputs == (1, 2)


def test_verbs_may_be_called_from_different_threads(small: Model) -> None:
    """Nothing lazy crosses threads: each verb returns with its state evaluated."""
    here, there = (after(small, prompt(small, 9), fold="lazy") for _ in range(2))

    def in_a_thread(call: Any) -> Any:
        box: list[Any] = []
        worker = threading.Thread(target=lambda: box.append(call()))
        worker.start()
        worker.join(60)
        return box[0]

    for rows, keep in [([1, 2, 3, 4], 2), ([5, 6], 1), ([7], 1)]:
        advance(here, rows, keep=keep)
        window = in_a_thread(lambda rows=rows: there.run(rows))
        in_a_thread(lambda window=window: there.finish(window, stop_ids=()))
        in_a_thread(
            lambda window=window, keep=keep: there.commit(window, keep=keep, force=True)
        )
    assert_same(here, there)


def test_not_a_number_is_an_error(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    before = engine.digests()
    backend = engine.backend

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def run(self, *args: Any, **options: Any) -> Any:
            forward: Any = backend.run(*args, **options)
            broken = best_tokens(mx.array([[1.0, float("nan")]] * 2))
            return replace(forward, best=broken)

    engine.backend = Broken()
    window = engine.run([1, 2])
    with pytest.raises(NotFiniteError, match="NaN or infinite; `abort` it"):
        engine.finish(window)
    engine.abort(window)
    assert engine.digests() == before


def test_ties_go_to_the_lowest_token() -> None:
    logits = mx.array([[0.0, 2.0, 2.0, 1.0], [5.0, 5.0, 5.0, 5.0]])
    tokens, finite = best_tokens(logits)
    assert (tokens.tolist(), finite.item()) == ([1, 0], True)


def test_errors_share_their_parents() -> None:
    assert issubclass(KeepError, TransactionError)
    assert issubclass(KeepError, ValueError)
    assert issubclass(TransactionError, strata_nb.StrataError)


def test_the_record_of_a_window(engine: Engine) -> None:
    window = engine.run([1, 2, 3], drafter="hand", match_length=4, draft_ms=0.5)
    result = engine.finish(window, stop_ids=())
    record = engine.commit(window, keep=1).record
    assert engine.trace[-1] == record
    assert record.inputs == (1, 2, 3)
    assert record.predictions == result.predictions
    assert (record.position, record.keep, record.accepted) == (9, 1, 0)
    assert (record.drafter, record.match_length, record.draft_ms) == ("hand", 4, 0.5)
    assert (record.fold, record.partial, record.rule) == ("lazy", False, "greedy")
    config = engine.backend.config
    assert len(record.layers) == config.num_hidden_layers
    for layer, decided in zip(record.layers, window.layers, strict=True):
        ids = decided.expert_ids
        assert ids.shape == (3, config.num_experts_per_tok)
        assert layer.union_size == len(np.unique(ids))
        assert layer.cold_beyond_kept == len(set(ids.ravel()) - set(ids[0]))


def test_a_router_that_is_no_number_shows_at_finish(tmp_path: Path) -> None:
    """Even in an expert that nobody chose: a sort would hide it."""
    (file,) = write_checkpoint(tmp_path, small_config(), 2).glob("*.safetensors")
    arrays = {name: array.copy() for name, array in load_file(file).items()}
    next(a for n, a in arrays.items() if n.endswith("mlp.gate.weight"))[-1] = np.nan
    save_file(arrays, file)
    engine = load(tmp_path).engine()
    with pytest.raises(NotFiniteError):
        engine.finish(engine.run([1, 2]))


@pytest.mark.parametrize("part", ["gdn_state", "gdn_conv", "kv", "qsa_blocks"])
def test_a_damaged_state_shows_at_finish(tiny: Model, part: str) -> None:
    # At 23 cells a block is left out: a NaN score must not hide as the last in a sort.
    engine = after(tiny, prompt(tiny, 23))
    leaves = engine.leaves()
    for leaf, array in leaves.items():
        if leaf.part == part:
            array[-1] = np.nan
    state = engine.backend.from_leaves(leaves, position=23)
    broken = Engine(
        engine.backend,
        context=100,
        options=engine.options,
        start=Committed(state, root=None, window=None),
    )
    with pytest.raises(NotFiniteError):
        broken.finish(broken.run([1]))


def test_loading_turns_tf32_off() -> None:
    """Float32 products on CUDA are off by 1e-3 otherwise."""
    code = (
        "import os, strata_nb; strata_nb.load('strata-tiny'); "
        "print(os.environ['MLX_ENABLE_TF32'])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "MLX_ENABLE_TF32"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "0", done.stderr
