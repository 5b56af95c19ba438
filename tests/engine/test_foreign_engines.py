"""The gate for other engines on mlx-lm, and on our own engine seen from outside."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import qwen3
from mlx_lm.models.cache import trim_prompt_cache

import strata_nb
from helpers import advance, after, serial
from strata_nb.gates.adapters import mlx_lm, transformers
from strata_nb.gates.adapters.mlx_lm import MlxLm, random_qwen3_next
from strata_nb.gates.adapters.ours import Ours
from strata_nb.gates.adapters.transformers import Transformers
from strata_nb.gates.foreign import CanSave, CanTrim, RefusedError, examine
from tiny import small_config, write_checkpoint


def words(length: int, *, vocabulary: int = 97) -> list[int]:
    rng = np.random.default_rng(7)
    return [int(i) for i in rng.integers(0, vocabulary, length)]


@pytest.fixture(scope="module")
def hybrid() -> Any:
    return random_qwen3_next()


def test_mlx_lm_refuses_to_trim_a_hybrid_and_restores_it(hybrid: Any) -> None:
    engine = MlxLm(hybrid)
    assert isinstance(engine, CanTrim)
    assert isinstance(engine, CanSave)
    report = examine(engine, prompt=words(12))
    assert report.having("fault") == ()
    assert report.verdict == "refused"
    refused = report.refusals
    assert {dict(o.case.params)["way"] for o in refused} == {"trim"}
    assert {o.words for o in refused} == {
        "`trim` says: mlx-lm cannot trim this prompt cache, because of ArraysCache; "
        "nothing had changed by then"
    }
    assert "rejection by trim" in str(report)
    assert "10 refused" in str(report)
    restored = report.having("same", family="rejection")
    assert {dict(o.case.params)["way"] for o in restored} == {"restore"}


class Silent(MlxLm):
    """Does not look at what `trim_prompt_cache` answers."""

    def trim(self, count: int) -> None:  # type: ignore[override]
        trim_prompt_cache(self.cache, count)


class Answers(MlxLm):
    """Passes on what `trim_prompt_cache` answers."""

    def trim(self, count: int) -> int:
        answer: Any = trim_prompt_cache(self.cache, count)
        return int(answer)


class Shallow(MlxLm):
    """Keeps the state that the cache shows, which is no copy."""

    def save(self) -> list[Any]:
        return [entry.state for entry in self.cache]

    def restore(self, saved: list[Any]) -> None:
        for entry, state in zip(self.cache, saved, strict=True):
            entry.state = state


def test_a_trim_whose_answer_nobody_reads_is_a_fault(hybrid: Any) -> None:
    report = examine(Silent(hybrid), prompt=words(12), families=["rounds"])
    trims = [o for o in report.outcomes if o.case["way"] == "trim"]
    assert {o.verdict for o in trims} == {"fault"}


def test_a_trim_that_answers_0_is_a_refusal(hybrid: Any) -> None:
    report = examine(Answers(hybrid), prompt=words(12), families=["rounds"])
    assert {o.words for o in report.refusals} == {
        f"`trim` dropped 0 of {count} rows; nothing had changed by then"
        for count in (1, 4, 7)
    }


def test_a_shallow_copy_of_the_cache_is_a_fault(hybrid: Any) -> None:
    report = examine(Shallow(hybrid), prompt=words(12), families=["resume"])
    assert {o.verdict for o in report.outcomes} == {"fault"}


def test_mlx_lm_trims_a_cache_of_keys_and_values() -> None:
    mx.random.seed(0)
    model = qwen3.Model(
        qwen3.ModelArgs(
            model_type="qwen3",
            vocab_size=97,
            hidden_size=32,
            num_hidden_layers=2,
            intermediate_size=48,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            rms_norm_eps=1e-6,
            max_position_embeddings=512,
            rope_theta=10_000.0,
            tie_word_embeddings=False,
        )
    )
    # Columns past the vocabulary are padding; no token may come from there.
    engine = MlxLm(model, vocabulary=90)
    prompt = words(12, vocabulary=90)
    report = examine(engine, prompt=prompt, families=["widths", "rounds"])
    assert report.verdict == "same"
    assert engine.logits().shape[1] == 90


def test_the_same_seed_makes_the_same_model(hybrid: Any) -> None:
    engines = [MlxLm(m) for m in (hybrid, random_qwen3_next(seed=0))]
    other = MlxLm(random_qwen3_next(seed=1))
    for engine in (*engines, other):
        engine.feed([1, 2, 3])
    assert np.array_equal(engines[0].logits(), engines[1].logits())
    assert not np.allclose(engines[0].logits(), other.logits(), atol=0.1)


@pytest.mark.parametrize(
    ("module", "make", "names"),
    [
        (mlx_lm, random_qwen3_next, r"needs mlx-lm; .*'strata-nb\[bench\]'"),
        (transformers, lambda: Transformers(None), r"needs PyTorch and transformers"),
    ],
)
def test_a_missing_library_is_named(
    module: Any, make: Any, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("mlx_lm.models.qwen3_next", "torch"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=names):
        make()


def outside(model: strata_nb.Model, length: int, **options: Any) -> Any:
    """What the gate sees of our engine going back by a commit of fewer rows."""
    prompt = words(length, vocabulary=model.config.vocab_size)
    return examine(Ours(model, **options), prompt=prompt, families=["rejection"])


def trims(report: Any, verdict: str) -> int:
    found = report.having(verdict)
    return sum(o.case["way"] == "trim" for o in found)


def test_our_engine_passes_from_outside(small: strata_nb.Model) -> None:
    prompt = words(12, vocabulary=small.config.vocab_size)
    families = ["reset", "widths", "matters", "rounds", "resume"]
    report = examine(Ours(small), prompt=prompt, families=families)
    assert report.verdict == "same"
    assert "float32" in report.engine


def test_our_oracle_says_how_large_rounding_is(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, small_config(), seed=2)
    engine = Ours(strata_nb.load(folder, dtype="float32"))
    oracle = Ours(strata_nb.load(folder, backend="oracle"))
    prompt = words(24, vocabulary=17)
    report = examine(engine, prompt=prompt, reference=oracle, families=["widths"])
    assert report.having("fault") == ()
    assert report.bounds.floor is not None
    assert 0 < report.bounds.floor < 1e-4
    assert examine(oracle, prompt=prompt, families=["resume"]).verdict == "same"


def test_a_state_that_is_not_put_back_shows(small: strata_nb.Model) -> None:
    report = outside(small, 12, fault="gdn_no_rewind")
    assert "with the fault gdn_no_rewind" in str(report)
    assert trims(report, "fault") == 10
    # A fork taken before the window has nothing to put back.
    assert len(report.having("fault")) == 10


def test_a_wrong_tail_is_not_seen_until_attention_chooses(
    small: strata_nb.Model,
) -> None:
    # Up to here every cell is attended to, so which blocks there are cannot matter.
    threshold = small.config.indexer_budget + small.config.indexer_compress_ratio - 1
    short = outside(small, 12, fault="qsa_ring")
    assert threshold >= 12 - 8 + 5 + 8
    assert short.verdict == "same"
    # And yet the state is wrong after the first of those cases, which passed. This is
    # why our own gates compare the parts.
    text = words(12, vocabulary=small.config.vocab_size)
    engines = [after(small, text[:1], fault=fault) for fault in ("qsa_ring", None)]
    for engine in engines:
        advance(engine, [1, 2, 3, 4, 5, 6, 7, 8], keep=1)
        serial(engine, [2, 3])
    assert {d.part for d in strata_nb.diff(*engines)} >= {"qsa_blocks"}
    # Past the threshold the same damage reaches the logits, in some windows.
    long = outside(small, 40, fault="qsa_ring")
    assert 0 < trims(long, "fault") < 10
    assert len(long.having("fault")) == trims(long, "fault")


def test_rows_that_are_committed_do_not_go(small: strata_nb.Model) -> None:
    engine = Ours(small)
    engine.feed([1, 2, 3])
    engine.trim(2)
    assert engine.engine.position == 1
    with pytest.raises(
        RefusedError, match=r"1 rows .* except the last 0 are committed"
    ):
        engine.trim(1)
    engine.feed([4, 5])
    with pytest.raises(
        RefusedError, match=r"3 rows .* except the last 2 are committed"
    ):
        engine.trim(3)
    engine.trim(2)
    assert engine.engine.position == 1


def test_a_text_longer_than_a_window_has_all_its_logits(
    small: strata_nb.Model,
) -> None:
    engine, single = Ours(small), Ours(small)
    text: Sequence[int] = words(19, vocabulary=small.config.vocab_size)
    engine.feed(text)
    rows = []
    for token in text:
        single.feed([token])
        rows.append(single.logits()[0])
    np.testing.assert_allclose(engine.logits(), rows, atol=1e-4)
