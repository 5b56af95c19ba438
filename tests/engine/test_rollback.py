"""A rejected draft leaves nothing behind: twin, replay and serial, part by part."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from helpers import advance, after, assert_same, greedy, prompt, serial
from strata_nb import Model, diff, load
from strata_nb.engine import Engine
from tiny import small_config, write_checkpoint

MODES = [
    {"fold": fold, "partial": partial}
    for fold in ("lazy", "eager")
    for partial in (False, True)
]
# Below the sparse threshold of TINY (20 cells), across it and well above.
STARTS = [*range(5, 9), *range(17, 21), *range(38, 42)]


def twin_and_replay(
    engine: Engine, rows: list[int], keep: int, *, why: str, atol: float = 1e-4
) -> None:
    """Commit `keep` of `rows`; compare with other rejected rows, and with none."""
    vocab = engine.backend.config.vocab_size
    kept, rejected = rows[:keep], rows[keep:]
    subject, replay = engine.fork(), engine.fork()
    advance(subject, rows, keep=keep)
    if rejected:  # a twin needs a row to differ in
        twin = engine.fork()
        advance(twin, [*kept, *((t * 7 + 13) % vocab for t in rejected)], keep=keep)
        assert_same(subject, twin, why=f"{why}: twin", exact=True)
    advance(replay, kept)
    assert_same(subject, replay, why=f"{why}: replay", atol=atol)


@pytest.mark.parametrize("start", STARTS)
def test_every_keep_of_every_width(tiny: Model, start: int) -> None:
    ids = prompt(tiny, start, seed=start)
    root = 77
    modes = itertools.cycle(MODES)
    engines = [after(tiny, ids, **mode) for mode in MODES]
    right = greedy(engines[0].fork(), root, 8)
    wrong = [(t + 1) % tiny.config.vocab_size for t in right]
    for drafts, width in itertools.product((right, wrong), range(2, 9)):
        for keep in range(1, width + 1):
            mode = next(modes)
            engine = engines[MODES.index(mode)]
            rows = [root, *drafts[: width - 1]]
            twin_and_replay(engine, rows, keep, why=f"{mode} T={width} keep={keep}")


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_four_modes_give_the_same_bits(
    tiny: Model, mode: dict[str, object]
) -> None:
    ids = prompt(tiny, 18, seed=5)
    plain, other = after(tiny, ids), after(tiny, ids, **mode)
    for width, keep in [(4, 1), (5, 3), (1, 1), (8, 8), (3, 2), (2, 1)]:
        rows = prompt(tiny, width, seed=width)
        for engine in (plain, other):
            advance(engine, rows, keep=keep)
        assert_same(plain, other, why=f"{mode} T={width} keep={keep}")


@pytest.mark.parametrize("kv", ["float32", "bfloat16"])
def test_blocks_of_three_cells(odd: Model, kv: str) -> None:
    for start, (width, keep) in itertools.product(
        range(11, 14), [(2, 1), (5, 2), (8, 3), (8, 7), (4, 4)]
    ):
        engine = after(odd, prompt(odd, start, seed=start), kv=kv)
        rows = prompt(odd, width, seed=width + 40)
        twin_and_replay(engine, rows, keep, why=f"start={start} T={width} keep={keep}")


@pytest.mark.parametrize("kv", ["float32", "bfloat16"])
def test_in_bfloat16(tiny_folder: Path, kv: str) -> None:
    model = load(tiny_folder, dtype="bfloat16")
    for start, (width, keep) in itertools.product(
        (7, 18, 39), [(2, 1), (5, 2), (8, 3), (4, 4)]
    ):
        engine = after(model, prompt(model, start, seed=start), kv=kv)
        rows = prompt(model, width, seed=width + 40)
        why = f"start={start} T={width} keep={keep}"
        # 0.03 was seen on an H200, where products depend on the number of rows.
        twin_and_replay(engine, rows, keep, why=why, atol=0.2)


def test_bfloat16_computes_the_same_model(tiny: Model, tiny_folder: Path) -> None:
    coarse = load(tiny_folder, dtype="bfloat16")
    ids = prompt(tiny, 12, seed=1)
    want, got = (after(m, ids[:4]).run(ids[4:]).logits for m in (tiny, coarse))
    # Random weights: bfloat16 is some 0.2 away from float32 on logits near 2.
    assert np.abs(got - want).max() < 0.4
    assert np.corrcoef(got.ravel(), want.ravel())[0, 1] > 0.99


def test_a_window_equals_serial_rows(tiny: Model) -> None:
    for start in (6, 18, 39):
        ids = prompt(tiny, start, seed=start)
        for width in range(1, 9):
            rows = prompt(tiny, width, seed=width)
            together = after(tiny, ids)
            advance(together, rows)
            assert_same(together, serial(after(tiny, ids), rows), why=f"T={width}")


@pytest.mark.parametrize("chunk", [1, 3, 8, 31, 70])
def test_a_prompt_equals_serial_rows(tiny: Model, chunk: int) -> None:
    ids = prompt(tiny, 70, seed=8)
    engine = tiny.engine()
    engine.prefill(ids, chunk=chunk)
    assert_same(engine, serial(tiny.engine(), ids), why=f"chunk={chunk}")


def test_pages_fill_and_are_sealed(tiny: Model) -> None:
    # A page has 64 blocks of 4 cells: windows before, across and behind its end.
    ids = prompt(tiny, 253, seed=4)
    engine = after(tiny, ids)
    for width, keep in [(2, 1), (8, 5), (4, 2), (8, 8), (6, 1)]:
        rows = prompt(tiny, width, seed=width)
        twin_and_replay(engine, rows, keep, why=f"cell {engine.position}")
        advance(engine, rows, keep=keep)
        ids += rows[:keep]
    assert_same(engine, serial(tiny.engine(), ids), why="serial")


@pytest.mark.parametrize("start", [21, 40])
def test_the_next_20_tokens_are_those_of_serial_decoding(
    tiny: Model, start: int
) -> None:
    ids = prompt(tiny, start, seed=start)
    want = greedy(after(tiny, ids), 9, 20)
    for width, keep in [(2, 1), (4, 1), (6, 3), (8, 2)]:
        engine = after(tiny, ids)
        kept = [9, *want][:keep]
        wrong = [(t + 5) % 256 for t in want[keep - 1 : width - 1]]
        advance(engine, [*kept, *wrong], keep=keep)
        assert greedy(engine, want[keep - 1], 20 - keep) == want[keep:]


def odd_borders() -> list[dict[str, object]]:
    """Blocks of one cell, no convolution history, one block to choose, odd widths."""
    return [
        {"indexer_compress_ratio": 1, "indexer_budget": 5},
        {"linear_conv_kernel_dim": 1, "ple_conv_kernel_size": 1},
        {"indexer_compress_ratio": 4, "indexer_budget": 4},
        {"layer_types": ["indexed_attention"] * 2, "ple_layer_ids": []},
        {"layer_types": ["linear_attention"] * 2},
        {"ngram_size": 2},
        {"num_experts": 1, "num_experts_per_tok": 1},
    ]


@pytest.mark.parametrize("change", odd_borders(), ids=str)
def test_odd_borders(tmp_path: Path, change: dict[str, object]) -> None:
    model = load(write_checkpoint(tmp_path, small_config(**change), 6))
    for start in (0, 3, 17):
        engine = after(model, prompt(model, start, seed=start))
        for width, keep in [(2, 1), (5, 2), (8, 7)]:
            rows = prompt(model, width, seed=width)
            twin_and_replay(engine, rows, keep, why=f"{start} T={width} keep={keep}")
    ids = prompt(model, 25, seed=2)
    assert_same(after(model, ids), serial(model.engine(), ids))
    oracle = load(tmp_path, backend="oracle")
    assert diff(after(model, ids), after(oracle, ids), atol=2e-5) == []
