"""The rounding floor: measured, repeatable, and none where no oracle can stand by."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import strata_nb
from helpers import advance
from strata_nb.errors import CheckpointError
from strata_nb.gates.judge import floor as floors
from strata_nb.gates.judge.floor import Floor, fits, measure
from strata_nb.gates.records import PARTS
from strata_nb.oracle import OracleBackend
from strata_nb.oracle import blocks as oracle_blocks
from strata_nb.oracle.maths import Array, Indices
from strata_nb.packs import open_checkpoint
from strata_nb.trace import Leaf
from tiny import shapes, tiny_config, write_checkpoint, write_safetensors

ROWS = Leaf("gdn_conv", 0, "rows")


@pytest.fixture(scope="module")
def measured(tiny: strata_nb.Model) -> Floor:
    found = measure(tiny)
    assert found is not None
    return found


def test_every_kind_of_number_is_measured(measured: Floor) -> None:
    numbers = (measured.logits, measured.experts, measured.blocks)
    assert all(0 < number < 1e-4 for number in numbers)
    assert {*measured.parts} == {*PARTS}
    # Tokens are whole; the other parts are floats and the engine's are rounded.
    assert measured.parts["ple_tokens"] == 0.0
    assert all(0 < measured.parts[p] < 1e-4 for p in PARTS if p != "ple_tokens")
    # Three starts, two windows of eight rows from each, and no choice was turned over.
    assert measured.rows == 48


def test_the_same_numbers_come_out_again(
    tiny: strata_nb.Model, measured: Floor
) -> None:
    assert measure(tiny) == measured


def test_it_covers_what_other_tokens_show(
    tiny: strata_nb.Model, measured: Floor
) -> None:
    for seed in (1, 2):
        other = measure(tiny, seed=seed)
        assert other is not None
        assert other != measured
        # A floor is twice an error.
        assert other.logits / 2 < measured.logits
        assert other.experts / 2 < measured.experts
        assert other.blocks / 2 < measured.blocks
        for part, size in other.parts.items():
            assert size / 2 <= measured.parts[part]


def test_it_is_twice_the_largest_error(
    small: strata_nb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = measure(small, rows=2, starts=[3])
    monkeypatch.setattr(floors, "ENGINES", 1)
    once = measure(small, rows=2, starts=[3])
    assert once is not None
    assert twice is not None
    assert twice.logits == pytest.approx(2 * once.logits, rel=1e-2)
    assert twice.rows == once.rows == 4


def test_a_part_is_measured_by_its_root_mean_square(small: strata_nb.Model) -> None:
    ids = np.random.default_rng(5).integers(0, small.config.vocab_size, 7).tolist()
    engine, oracle = small.engine(), OracleBackend(small.checkpoint)
    engine.prefill(ids[:3])
    errors = []
    for at in (3, 5):
        state = oracle.from_leaves(engine.leaves(), position=at)
        advance(engine, ids[at : at + 2])
        pending = oracle.run(state, ids[at : at + 2], head=False).pending
        wanted = oracle.leaves(oracle.commit(state, pending, 2))[ROWS]
        error = np.abs(engine.leaves()[ROWS] - wanted).max()
        errors.append(error / np.sqrt(np.mean(wanted**2)))
    found = measure(small, seed=5, rows=2, starts=[3])
    assert found is not None
    assert found.parts["gdn_conv"] == pytest.approx(2 * max(errors), rel=1e-2)


def test_bfloat16_has_a_far_larger_one(tiny_folder: Path) -> None:
    found = measure(strata_nb.load(tiny_folder, dtype="bfloat16"), starts=[4])
    assert found is not None
    assert found.experts > 1e-3


def test_dense_attention_scores_no_blocks(tiny: strata_nb.Model) -> None:
    found = measure(tiny, starts=[0], rows=4)
    assert found is not None
    assert found.blocks == 0.0
    assert found.parts["kv"] > 0


def test_starts_may_lie_within_each_others_windows(small: strata_nb.Model) -> None:
    close = measure(small, rows=3, starts=[4, 2, 3])
    assert close is not None
    assert close.rows == 18
    assert close == measure(small, rows=3, starts=[2, 3, 4, 4])


def test_a_short_context_moves_the_starts(tmp_path: Path) -> None:
    config = tiny_config(max_position_embeddings=20)
    model = strata_nb.load(write_checkpoint(tmp_path, config, seed=1))
    found = measure(model)
    assert found is not None
    assert found.rows > 0


def test_rows_behind_a_choice_made_differently_are_left_out(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """The oracle's model has almost equal router rows in the other order."""
    whole = measure(strata_nb.load(tiny_folder), starts=[8], rows=8)
    for name, apart in (("engine", 2.0**-20), ("oracle", -(2.0**-20))):
        folder = write_checkpoint(tmp_path / name, tiny_config(), 1)
        stored = load_file(folder / "model.safetensors")
        gate = stored["model.layers.4.mlp.gate.weight"]
        gate[:3] = gate[0] * (1 + apart * np.arange(3, dtype=np.float32))[:, None]
        write_safetensors(folder / "model.safetensors", stored)
    model = strata_nb.load(tmp_path / "engine")
    model.checkpoint = open_checkpoint(tmp_path / "oracle")
    found = measure(model, starts=[8], rows=8)
    assert whole is not None
    assert found is not None
    assert 0 < found.rows < whole.rows == 16
    # A row behind a flipped expert would be off by a tenth and more.
    assert found.logits < 1e-4
    assert found.experts < 1e-4
    assert max(found.parts.values()) < 1e-4


def test_rows_behind_blocks_chosen_differently_are_left_out(
    tiny: strata_nb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def choose(query: Array, keys: Array, count: int) -> tuple[Indices, Array]:
        chosen, scores = sound(query, keys, count)
        calls.append(len(keys))
        # Two layers choose: the ninth call is the first one's, for row 4.
        return (chosen[:-1] if len(calls) == 9 else chosen), scores

    sound = oracle_blocks.choose
    monkeypatch.setattr(oracle_blocks, "choose", choose)
    found = measure(tiny, starts=[24])
    assert found is not None
    assert found.rows == 4 + 8
    assert found.logits < 1e-4
    assert found.experts < 1e-4
    assert max(found.parts.values()) < 1e-4


def test_the_oracle_has_no_floor(small: strata_nb.Model) -> None:
    model = strata_nb.load(small.checkpoint.path, backend="oracle")
    assert measure(model) is None


def test_a_model_that_float64_cannot_hold_has_none(
    small: strata_nb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 64, "SC_PHYS_PAGES": 8}.get)
    assert measure(small) is None


def test_half_of_the_memory_may_be_taken(tiny: strata_nb.Model) -> None:
    config = tiny_config()
    held = sum(math.prod(s) for n, s in shapes(config) if "ngram_embedding" not in n)
    # The constants of the hash: multipliers, then sizes and offsets of eight heads.
    held += 3 + 8 + 8
    assert fits(tiny.checkpoint, memory=16 * held)
    assert not fits(tiny.checkpoint, memory=16 * held - 1)


def test_the_draft_head_does_not_count(trained: strata_nb.Model) -> None:
    checkpoint = trained.checkpoint
    sizes = {name: math.prod(checkpoint.shape(name)) for name in checkpoint.names}
    head = sum(size for name, size in sizes.items() if name.startswith("mtp."))
    tables = sum(size for name, size in sizes.items() if "ngram_embedding." in name)
    held = sum(sizes.values()) - head - tables
    assert head > 0
    assert fits(checkpoint, memory=16 * held)
    assert not fits(checkpoint, memory=16 * held - 1)


def test_a_shape_is_read_off_the_header(tiny: strata_nb.Model) -> None:
    assert tiny.checkpoint.shape("layers.0.mlp.gate.weight") == (16, 32)
    with pytest.raises(CheckpointError, match="has no tensor"):
        tiny.checkpoint.shape("layers.99.mlp.gate.weight")


def test_windows_that_do_not_fit_are_refused(small: strata_nb.Model) -> None:
    with pytest.raises(ValueError, match="`rows` is 9, wanted 1 to 8"):
        measure(small, rows=9)
    with pytest.raises(ValueError, match="wanted cells from 0 to 4080: 2 windows of 8"):
        measure(small, starts=[4081])
    with pytest.raises(ValueError, match="`starts` are \\[-1, 3\\]"):
        measure(small, starts=[3, -1])
