"""The transaction: what the verbs do, in which order, and what they report."""

import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

import strata_nb
from helpers import advance, after, greedy, prompt
from strata_nb import Model
from strata_nb.engine import Engine
from strata_nb.errors import (
    KeepError,
    TransactionError,
)
from strata_nb.models.qwen4_exp.evaluation import best_tokens


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


def test_prefill_reports_progress(small: Model) -> None:
    seen: list[tuple[int, int]] = []
    engine = small.engine()
    engine.prefill(prompt(small, 20), chunk=8, progress=lambda *a: seen.append(a))
    assert seen == [(8, 20), (16, 20), (20, 20)]
    assert engine.prefill([]) == 20
    with pytest.raises(ValueError, match="`chunk` is 0"):
        engine.prefill([1], chunk=0)


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
