"""The n-gram hash against published and hand-made vectors; rows over shards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny
from strata_nb.packs import PleTable, open_checkpoint
from strata_nb.packs.ple import PleConstants, derive_constants, hash_rows
from strata_nb.packs.primes import is_prime, primes_from, split_mix
from strata_nb.packs.read_config import read_config


def constants(folder: Path, **overrides: Any) -> tuple[PleConstants, ...]:
    (folder / "config.json").write_text(json.dumps(tiny.tiny_config(**overrides)))
    return derive_constants(read_config(folder))


def rows_of(module: PleConstants, ids: list[int], eos: int) -> list[list[int]]:
    rows: list[list[int]] = hash_rows(
        (),
        ids,
        multipliers=module.multipliers,
        sizes=module.sizes,
        offsets=module.offsets,
        eos=eos,
    ).tolist()
    return rows


SMALL: dict[str, Any] = {
    "vocab_size": 512,
    "eos_token_id": 7,
    "ngram_vocab_size_base": 1000,
    "ple_layer_ids": [1, 2],
}
RELEASED: dict[str, Any] = {
    "vocab_size": 248320,
    "eos_token_id": 248044,
    "ngram_vocab_size_base": 20_000_000,
    "heads_per_ngram": 8,
    "ple_embed_dim": 2560,
}


def test_split_mix_of_zero() -> None:
    assert split_mix(0) == 16294208416658607535


def test_small_constants(tmp_path: Path) -> None:
    first, second = constants(tmp_path, **SMALL)
    assert first.multipliers.tolist() == [
        4295158889763781,
        17440218147737327,
        1270917961434445,
    ]
    assert first.sizes.tolist() == [1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049]
    assert first.table_rows == 8320
    assert second.multipliers.tolist() == [
        17237745666423273,
        2619768721783435,
        15090836525362811,
    ]
    assert second.sizes.tolist() == [1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097]
    assert second.table_rows == 8704


def test_small_rows(tmp_path: Path) -> None:
    first, second = constants(tmp_path, **SMALL)
    assert rows_of(first, [5], 7) == [[131, 1966, 2142, 3774, 4773, 5169, 7128, 7187]]
    assert rows_of(first, [5, 9, 11], 7)[2] == [
        377, 1059, 2499, 3876, 4739, 5579, 6855, 8052,
    ]  # fmt: skip
    assert rows_of(second, [5, 9, 11], 7)[2] == [
        250, 1876, 2712, 3457, 4283, 5962, 7035, 7536,
    ]  # fmt: skip


def test_released_constants(tmp_path: Path) -> None:
    (module,) = constants(tmp_path, **RELEASED)
    assert module.multipliers.tolist() == [
        23703573157769,
        20109073645365,
        8052911324071,
    ]
    above = [3, 23, 33, 47, 59, 63, 69, 77, 81, 93, 107, 147, 153, 159, 161, 171]
    assert module.sizes.tolist() == [20_000_000 + n for n in above]
    assert module.offsets.tolist()[-1] == 300001275
    assert module.table_rows == 320001536


def test_a_lost_seed_gives_other_multipliers(tmp_path: Path) -> None:
    (module,) = constants(tmp_path, **RELEASED, seed=0)
    assert module.multipliers.tolist() == [
        4788054244585,
        5075510189727,
        24189832309785,
    ]


def test_released_rows(tmp_path: Path) -> None:
    (module,) = constants(tmp_path, **RELEASED)
    assert rows_of(module, [248045, 846, 198], 248044) == [
        [
            13981229, 30076798, 49239434, 61315716, 98540601, 111186732, 120378863,
            146384625, 173637879, 184336749, 217808755, 222173721, 249579227,
            277180543, 299757935, 312970430,
        ],
        [
            4908448, 36872991, 46611251, 64451521, 83649409, 110850044, 122402102,
            159207155, 170314019, 195445770, 214314282, 239389039, 254862662,
            271565595, 284073139, 308659387,
        ],
        [
            4582007, 37691206, 44255274, 65455601, 89351473, 103985474, 135938409,
            145212418, 163775156, 199680439, 200044921, 228961047, 240669798,
            272736434, 296838250, 317942745,
        ],
    ]  # fmt: skip


# Multipliers, primes and offsets of two hand-made hashes with one head an order.
HAND_A: dict[str, Any] = {
    "multipliers": np.array([7, 11, 13]),
    "sizes": np.array([97, 89]),
    "offsets": np.array([0, 97]),
    "eos": 50,
}
HAND_B: dict[str, Any] = {
    "multipliers": np.array([3, 5, 7]),
    "sizes": np.array([101, 103]),
    "offsets": np.array([0, 101]),
    "eos": 99,
}


@pytest.mark.parametrize(
    ("hand", "context", "ids", "want"),
    [
        (HAND_A, [], [5, 4, 8, 6], [[32, 151], [43, 147], [20, 182], [17, 167]]),
        (HAND_A, [50, 50], [5, 4], [[32, 151], [43, 147]]),
        (HAND_A, [5, 4], [8], [[20, 182]]),
        (HAND_A, [4, 9], [8], [[91, 119]]),
        (HAND_A, [], [8], [[57, 156]]),
        (HAND_A, [5, 50], [8, 6], [[57, 156], [17, 145]]),
        (HAND_B, [], [7, 9, 11], [[1, 124], [56, 136], [12, 162]]),
    ],
    ids=[
        "from the start",
        "start spelled out",
        "after a rejected draft",
        "the fault: the rejected draft stayed",
        "the fault: the history was lost",
        "after an end of text",
        "another hash",
    ],
)
def test_hand_made_hashes(
    hand: dict[str, Any], context: list[int], ids: list[int], want: list[list[int]]
) -> None:
    assert hash_rows(context, ids, **hand).tolist() == want


def test_any_split_into_windows_gives_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    ids = rng.choice([50, 1, 2, 3, 4], 60).tolist()
    whole = hash_rows([], ids, **HAND_A)
    for width in (1, 2, 3, 7):
        for start in range(0, len(ids), width):
            context = ids[max(0, start - 2) : start]
            window = ids[start : start + width]
            got = hash_rows(context, window, **HAND_A)
            np.testing.assert_array_equal(got, whole[start : start + width])


def test_large_multipliers_stay_inside_the_table() -> None:
    """Products that wrap turn negative: the remainder must still be positive."""
    sizes, offsets = np.array([97, 89]), np.array([0, 97])
    rows = hash_rows(
        [],
        list(range(1000)),
        multipliers=np.array([2**62 + 1, 2**63 - 1, 2**61 + 7]),
        sizes=sizes,
        offsets=offsets,
        eos=50,
    )
    assert (rows >= offsets).all()
    assert (rows < offsets + sizes).all()


def test_too_long_a_context_is_refused() -> None:
    with pytest.raises(ValueError, match="`context` has 3 ids, wanted at most 2"):
        hash_rows([1, 2, 3], [4], **HAND_A)


def test_primes_against_division() -> None:
    want = [n for n in range(2, 5000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(-3, 5000) if is_prime(n)] == want
    found = primes_from(1)
    assert [next(found) for _ in range(4)] == [2, 3, 5, 7]
    # Strong pseudoprimes to the first few bases, and a large prime.
    assert not is_prime(3215031751)
    assert not is_prime(3825123056546413051)
    assert is_prime(2**61 - 1)


def table(folder: Path, **options: Any) -> tuple[PleTable, np.ndarray[Any, Any]]:
    config = tiny.tiny_config()
    name = "layers.1.ple.ple_embedding.ngram_embedding.weight"
    opened = open_checkpoint(tiny.write_checkpoint(folder, config, 0, **options))
    return opened.ple(0), tiny.tensors(config, 0)[name]


def test_first_and_last_row_of_three_unequal_shards(tmp_path: Path) -> None:
    got, want = table(tmp_path, ple_parts=[700, 20, 1200])
    ends = np.array([0, 699, 700, 719, 720, 1919])
    np.testing.assert_array_equal(got.rows(ends), want[ends])


def test_shards_are_ordered_by_number_not_by_name(tmp_path: Path) -> None:
    got, want = table(tmp_path, ple_parts=[1] * 11 + [1909], files=2)
    np.testing.assert_array_equal(got.rows(np.arange(20)), want[:20])


def test_an_empty_shard_holds_no_row(tmp_path: Path) -> None:
    got, want = table(tmp_path, ple_parts=[5, 0, 1915, 0])
    rows = np.array([4, 5, 1919])
    np.testing.assert_array_equal(got.rows(rows), want[rows])


def test_fewer_shards_than_parts(tmp_path: Path) -> None:
    """1920 rows in 512 parts are 480 shards of 4."""
    config = tiny.tiny_config(split_ngram_parts=512)
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, config, 0))
    assert sum("shard_" in name for name in opened.names) == 480
    assert opened.ple(0).shape == (1920, 4)


def test_rows_keep_the_shape_asked_for(tmp_path: Path) -> None:
    got, want = table(tmp_path)
    rows = got.hash([], [1, 2, 3])
    assert rows.shape == (3, 8)
    np.testing.assert_array_equal(got.rows(rows), want[rows])
    assert got.rows(np.empty((0, 8), np.int64)).shape == (0, 8, 4)


def test_rows_in_any_order_with_gaps_and_repeats(tmp_path: Path) -> None:
    got, want = table(tmp_path, ple_parts=[700, 20, 1200])
    rows = np.array([[705, 703, 701, 699], [1, 4, 4, 2], [1919, 0, 719, 720]])
    np.testing.assert_array_equal(got.rows(rows), want[rows])


@pytest.mark.parametrize("row", [-1, 1920])
def test_a_row_outside_the_table_is_refused(tmp_path: Path, row: int) -> None:
    got, _ = table(tmp_path)
    with pytest.raises(ValueError, match=f"`rows` run from {min(row, 0)} to"):
        got.rows(np.array([0, row]))


def test_two_modules_have_tables_of_their_own(tmp_path: Path) -> None:
    config = tiny.tiny_config(ple_layer_ids=[2, 1])
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, config, 0))
    assert opened.config.ple_layers == (0, 1)
    assert opened.ple(0).sizes.tolist()[0] == 211
    assert opened.ple(1).sizes.tolist()[0] > opened.ple(0).sizes.tolist()[-1]
    with pytest.raises(ValueError, match="`j` wants a PLE module below 2, got 2"):
        opened.ple(2)
