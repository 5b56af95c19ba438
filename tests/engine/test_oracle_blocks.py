"""The oracle's formulas against numbers worked out by hand or taken from the page."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tiny
from strata_nb.oracle import blocks, maths
from strata_nb.oracle.hashing import NgramHash, splitmix64
from strata_nb.packs import Checkpoint, ModelConfig, open_checkpoint


@pytest.fixture(scope="module")
def two_tables(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Random config 2 has two PLE modules."""
    folder = tmp_path_factory.mktemp("two_tables")
    return open_checkpoint(tiny.write_checkpoint(folder, tiny.random_config(2), 3))


@pytest.fixture(scope="module")
def golden(two_tables: Checkpoint) -> ModelConfig:
    """The configuration of the golden hash values."""
    return replace(
        two_tables.config,
        vocab_size=512,
        seed=1234,
        ngram_vocab_size_base=1000,
        ngram_size=3,
        heads_per_ngram=4,
        eos_token_id=7,
    )


# ---------------------------------------------------------------- hashing


def test_splitmix64_golden() -> None:
    assert splitmix64(0) == 16294208416658607535


@pytest.mark.parametrize(
    ("module", "multipliers", "sizes", "rows"),
    [
        (
            0,
            [4295158889763781, 17440218147737327, 1270917961434445],
            [1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049],
            8320,
        ),
        (
            1,
            [17237745666423273, 2619768721783435, 15090836525362811],
            [1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097],
            8704,
        ),
    ],
)
def test_hash_constants(
    golden: ModelConfig,
    module: int,
    multipliers: list[int],
    sizes: list[int],
    rows: int,
) -> None:
    hashed = NgramHash(golden, module)
    assert hashed.multipliers == multipliers
    assert hashed.sizes == sizes
    assert hashed.offsets == [sum(sizes[:a]) for a in range(8)]
    assert math.ceil(sum(hashed.sizes) / 128) * 128 == rows


def test_hash_constants_at_full_size(golden: ModelConfig) -> None:
    full = replace(
        golden, vocab_size=248320, ngram_vocab_size_base=20_000_000, heads_per_ngram=8
    )
    hashed = NgramHash(full, 0)
    assert hashed.multipliers == [23703573157769, 20109073645365, 8052911324071]
    assert hashed.sizes[:3] == [20000003, 20000023, 20000033]
    assert hashed.sizes[-1] == 20000171
    assert math.ceil(sum(hashed.sizes) / 128) * 128 == 320001536


@pytest.mark.parametrize(
    ("module", "ids", "rows"),
    [
        (0, [7, 7, 5], [131, 1966, 2142, 3774, 4773, 5169, 7128, 7187]),
        (0, [5, 9, 11], [377, 1059, 2499, 3876, 4739, 5579, 6855, 8052]),
        (1, [5, 9, 11], [250, 1876, 2712, 3457, 4283, 5962, 7035, 7536]),
    ],
    ids=["first token", "module 0", "module 1"],
)
def test_hash_rows(
    golden: ModelConfig, module: int, ids: list[int], rows: list[int]
) -> None:
    assert NgramHash(golden, module).rows(ids) == rows


def test_an_eos_hides_what_is_before_it_but_not_its_own_past(
    golden: ModelConfig,
) -> None:
    rows = NgramHash(golden, 0).rows
    assert rows([5, 7, 11]) == rows([7, 7, 11])
    assert rows([7, 5, 11]) != rows([7, 7, 11])
    assert rows([5, 9, 7]) != rows([7, 7, 7])


def test_own_hash_constants_are_those_of_the_checkpoint(two_tables: Checkpoint) -> None:
    assert len(two_tables.config.ple_layers) == 2
    for module in range(2):
        hashed, table = NgramHash(two_tables.config, module), two_tables.ple(module)
        assert hashed.multipliers == table.multipliers.tolist()
        assert hashed.sizes == table.sizes.tolist()
        assert hashed.offsets == table.offsets.tolist()


# ---------------------------------------------------------------- selections


@pytest.mark.parametrize(
    ("logits", "renormalise", "experts", "weights"),
    [
        ([2, 1, 0, -1], True, [0, 1], [0.7311, 0.2689]),
        ([2, 1, 0, -1], False, [0, 1], [0.6439, 0.2369]),
        ([1, 1, 1, 0], True, [0, 1], [0.5, 0.5]),
        ([0, 3, 1, 3], True, [1, 3], [0.5, 0.5]),
    ],
)
def test_route(
    logits: list[float], renormalise: bool, experts: list[int], weights: list[float]
) -> None:
    chosen, given = blocks.route(np.array(logits, float), 2, renormalise=renormalise)
    assert chosen.tolist() == experts
    np.testing.assert_allclose(given, weights, atol=5e-5)


def test_blocks_that_tie_are_taken_from_the_lowest_index() -> None:
    query = np.array([[1.0, 0.0], [0.0, 1.0]])
    keys = np.array([[-1, -1], [-2, 0], [2, 0], [-1, 0], [0, 1.0]])
    chosen, scores = blocks.choose(query, keys, 3)
    np.testing.assert_allclose(scores, np.array([0, 0, 2, 0, 1]) / math.sqrt(2))
    assert chosen.tolist() == [0, 2, 4]


def test_scores_take_the_relu_of_each_head_before_the_sum() -> None:
    query = np.array([[1.0, 0.0], [-1.0, 0.0]])
    _, scores = blocks.choose(query, np.array([[3.0, 0.0], [-1.0, 0.0]]), 2)
    np.testing.assert_allclose(scores, np.array([3, 1]) / math.sqrt(2))


def test_visible_cells_without_an_open_block() -> None:
    # Position 11 completes block 2: not chosen, the row does not even see itself.
    assert blocks.visible(np.array([0, 1]), 11, 4).tolist() == [*range(8)]
    assert blocks.visible(np.array([1]), 13, 4).tolist() == [4, 5, 6, 7, 12, 13]


# ---------------------------------------------------------------- maths


def test_three_norms() -> None:
    x = np.array([3.0, 4.0])
    np.testing.assert_allclose(maths.rms1(x, np.zeros(2), 0.0), x / math.sqrt(12.5))
    np.testing.assert_allclose(
        maths.rms1(x, np.array([1.0, 0.0]), 1.5), x * [2, 1] / math.sqrt(14)
    )
    np.testing.assert_allclose(maths.l2(np.array([1e-3, 0.0])), [math.sqrt(0.5), 0])
    # Grouped: each stream by its own mean, the weight stream-major.
    streams = np.array([[3.0, 4.0], [0.0, 10.0]])
    normed = maths.rms1(streams, np.array([0.0, 1.0, 2.0, 3.0]), 0.0)
    want = streams * [[1, 2], [3, 4]] / np.sqrt([[12.5], [50.0]])
    np.testing.assert_allclose(normed, want)


def test_conv_weighs_the_newest_row_with_the_last_tap() -> None:
    weight = np.array([[[1.0, 10.0, 100.0]]])
    assert maths.conv(weight, np.array([[1.0], [2.0], [3.0]])) == [321.0]
    rows = np.arange(5.0)[:, None]
    assert maths.conv(weight, rows, dilation=2) == [0 + 20 + 400.0]


def test_rope_turns_half_split_pairs_and_passes_the_rest() -> None:
    turned = maths.rope(np.array([1.0, 0, 0, 1, 5, 6]), 1, 10_000.0, 4)
    # Frequencies 1 and 1/100: pairs (0, 2) and (1, 3).
    want = [math.cos(1), -math.sin(0.01), math.sin(1), math.cos(0.01), 5, 6]
    np.testing.assert_allclose(turned, want, atol=1e-9)


def test_rope_rounds_its_angles_to_float32() -> None:
    position, dims = 250_000, 64
    heads = np.concatenate([np.ones(dims // 2), np.zeros(dims // 2)])
    cos, sin = np.split(maths.rope(heads, position, 1e7, dims), 2)
    exact = position * 1e7 ** -(np.arange(0, dims, 2) / dims)
    off = np.angle((cos + 1j * sin) * np.exp(-1j * exact))
    assert 5e-3 < np.abs(off).max() < 2e-2


@pytest.mark.parametrize("x", [-800.0, -30.0, 0.0, 30.0, 800.0])
def test_sigmoid_neither_overflows_nor_loses_small_values(x: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        got = maths.sigmoid(np.array([x]))[0]
    np.testing.assert_allclose(got, 1 / (1 + math.exp(-x)) if x > -700 else 0.0)
