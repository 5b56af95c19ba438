"""The oracle as a backend: any windows, any keep, and the state is that of one pass."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

import tiny
from strata_nb.errors import KeepError, SavedStateError, TransactionError
from strata_nb.oracle import OracleBackend
from strata_nb.oracle.backend import best_tokens
from strata_nb.oracle.blocks import visible
from strata_nb.oracle.states import State
from strata_nb.packs import open_checkpoint
from strata_nb.trace import Leaf

TOKENS = 60
BUNDLED = Path(__file__).parents[2] / "strata_nb/data/strata-tiny"
Leaves = dict[Leaf, npt.NDArray[Any]]


def random_oracle(folder: Path, config: tiny.Config) -> OracleBackend:
    return OracleBackend(open_checkpoint(tiny.write_checkpoint(folder, config, 5)))


def random_ids(oracle: OracleBackend, count: int, *, seed: int = 1) -> list[int]:
    """Ids with an eos now and then, so that the barrier of the hash is met."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, oracle.config.vocab_size, count)
    assert oracle.config.eos_token_id is not None
    ids[rng.random(count) < 0.08] = oracle.config.eos_token_id
    return [int(token) for token in ids]


def windows(ids: Sequence[int], *, seed: int) -> Iterator[list[int]]:
    """`ids` cut into windows of 1 to 8."""
    rng, start = np.random.default_rng(seed), 0
    while start < len(ids):
        size = int(rng.integers(1, 9))
        yield list(ids[start : start + size])
        start += size


def serial(oracle: OracleBackend, ids: Sequence[int]) -> tuple[State, npt.NDArray[Any]]:
    """One row a window: the state and the logits of plain decoding."""
    state, logits = oracle.initial(), []
    for token in ids:
        forward = oracle.run(state, [token], head=True)
        assert forward.logits is not None
        logits.append(forward.logits[0])
        state = oracle.commit(state, forward.pending, 1)
    return state, np.stack(logits)


def assert_same(got: Leaves, want: Leaves) -> None:
    assert got.keys() == want.keys()
    for leaf, array in want.items():
        np.testing.assert_array_equal(got[leaf], array, err_msg=str(leaf), strict=True)


@pytest.fixture(scope="module", params=[2, 3, 4, 5, 13])
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> OracleBackend:
    """Random shapes: with and without PLE, tied, biased, silu, not renormalised."""
    folder = tmp_path_factory.mktemp("random")
    return random_oracle(folder, tiny.random_config(request.param))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> OracleBackend:
    """The model called TINY: budget 16, blocks of 4, 8 layers."""
    return random_oracle(tmp_path_factory.mktemp("tiny"), tiny.tiny_config())


# ---------------------------------------------------------------- windows


def test_any_split_equals_one_pass(oracle: OracleBackend) -> None:
    ids = random_ids(oracle, TOKENS)
    start = oracle.initial()
    whole = oracle.run(start, ids, head=True)
    assert whole.logits is not None
    want = oracle.leaves(oracle.commit(start, whole.pending, TOKENS))
    for seed in range(3):
        state, logits = oracle.initial(), []
        for window in windows(ids, seed=seed):
            forward = oracle.run(state, window, head=True)
            logits.append(forward.logits)
            state = oracle.commit(state, forward.pending, len(window))
        np.testing.assert_allclose(
            np.concatenate([*logits]), whole.logits, rtol=0, atol=1e-12
        )
        assert_same(oracle.leaves(state), want)


def test_rejected_drafts_leave_nothing_behind(oracle: OracleBackend) -> None:
    rng, ids = np.random.default_rng(7), random_ids(oracle, TOKENS)
    state, rejected = oracle.initial(), 0
    while (position := oracle.position(state)) < TOKENS:
        rows = int(rng.integers(1, 9))
        keep = min(int(rng.integers(1, rows + 1)), TOKENS - position)
        wrong = random_ids(oracle, rows - keep, seed=position) if rows > keep else []
        window = [*ids[position : position + keep], *wrong]
        rejected += len(wrong)
        forward = oracle.run(state, window, head=True)
        state = oracle.commit(state, forward.pending, keep)
    assert rejected > 10
    assert_same(oracle.leaves(state), oracle.leaves(serial(oracle, ids)[0]))


@pytest.mark.parametrize("keep", [1, 4, 11, 12])
def test_a_headless_prompt_window_may_be_kept_in_part(
    small: OracleBackend, keep: int
) -> None:
    ids, state = random_ids(small, 12), small.initial()
    forward = small.run(state, ids, head=False)
    assert forward.logits is None
    kept = small.commit(state, forward.pending, keep)
    assert small.position(kept) == keep
    assert_same(small.leaves(kept), small.leaves(serial(small, ids[:keep])[0]))


def test_run_and_commit_leave_the_old_state_alone(small: OracleBackend) -> None:
    state, _ = serial(small, random_ids(small, 22))
    before = small.leaves(state)
    forward = small.run(state, random_ids(small, 8, seed=2), head=True)
    first = small.leaves(small.commit(state, forward.pending, 3))
    assert_same(small.leaves(small.commit(state, forward.pending, 3)), first)
    assert_same(small.leaves(state), before)


def test_leaves_are_copies(small: OracleBackend) -> None:
    state, _ = serial(small, [1, 2, 3, 4, 5])
    before = small.leaves(state)
    for array in small.leaves(state).values():
        array.fill(9)
    assert_same(small.leaves(state), before)


def test_what_run_and_commit_refuse(small: OracleBackend) -> None:
    state = small.initial()
    pending = small.run(state, [1, 2], head=True).pending
    for ids in ([], [257], [-1]):
        with pytest.raises(ValueError, match="wanted one or more ids below 257"):
            small.run(state, ids, head=True)
    for keep in (0, 3):
        with pytest.raises(KeepError, match=f"within 1 to 2, got {keep}"):
            small.commit(state, pending, keep)
    with pytest.raises(TransactionError, match="of another state"):
        small.commit(small.commit(state, pending, 1), pending, 1)


# ---------------------------------------------------------------- decisions


def test_blocks_and_tails_count_as_the_position_says(oracle: OracleBackend) -> None:
    ratio = oracle.config.indexer_compress_ratio
    state = oracle.initial()
    for position, token in enumerate(random_ids(oracle, 30)):
        forward = oracle.run(state, [token], head=False)
        state = oracle.commit(state, forward.pending, 1)
        n = position + 1
        lengths = {
            leaf.part: len(array) for leaf, array in oracle.leaves(state).items()
        }
        assert lengths["kv"] == n
        assert lengths["qsa_blocks"] == n // ratio
        assert lengths["qsa_tail"] == n % ratio


def test_decisions_of_a_window(oracle: OracleBackend) -> None:
    config = oracle.config
    ratio, most = config.indexer_compress_ratio, config.indexer_blocks
    decided = oracle.run(oracle.initial(), random_ids(oracle, TOKENS), head=False)
    for layer, kind in zip(decided.layers(), config.layer_types, strict=True):
        assert layer.router_logits is not None
        ranked = np.argsort(-layer.router_logits, axis=1, kind="stable")
        count = config.num_experts_per_tok
        np.testing.assert_array_equal(layer.expert_ids, ranked[:, :count])
        if kind == "linear_attention":
            assert layer.blocks is None
            assert layer.block_scores is None
            continue
        assert layer.blocks is not None
        assert layer.block_scores is not None
        assert layer.blocks.shape == (TOKENS, most)
        assert layer.block_scores.shape == (TOKENS, TOKENS // ratio)
        for p, (row, scores) in enumerate(
            zip(layer.blocks, layer.block_scores, strict=True)
        ):
            complete = (p + 1) // ratio
            chosen = row[row >= 0]
            assert len(chosen) == min(most, complete)
            assert (row[len(chosen) :] == -1).all()
            assert np.isneginf(scores[complete:]).all()
            best = np.argsort(-scores[:complete], kind="stable")[:most]
            assert chosen.tolist() == sorted(best)
            cells = visible(chosen, p, ratio)
            assert len(set(cells)) == len(cells) <= config.indexer_budget + ratio - 1
            assert cells.max() <= p


def test_sparse_attention_is_dense_until_the_budget_is_full(
    small: OracleBackend, tmp_path: Path
) -> None:
    dense = random_oracle(tmp_path, tiny.tiny_config(indexer_budget=64))
    ids = random_ids(small, 40)
    sparse_logits, dense_logits = serial(small, ids)[1], serial(dense, ids)[1]
    # 19 cells: 4 blocks and 3 of the tail. The row at position 19 drops a block.
    np.testing.assert_array_equal(sparse_logits[:19], dense_logits[:19])
    assert np.abs(sparse_logits[19:] - dense_logits[19:]).max(axis=1).min() > 1e-6


def test_greedy_takes_the_lowest_of_equal_logits(small: OracleBackend) -> None:
    assert best_tokens([[0, 2, 2], [1, 1, 1]]) == ([1, 0], True)
    assert best_tokens([[0, np.inf, 2]]) == ([1], False)


# ---------------------------------------------------------------- leaves


def test_leaves_make_the_state_again(oracle: OracleBackend) -> None:
    ids = random_ids(oracle, 38)
    state, _ = serial(oracle, ids[:30])
    again = oracle.from_leaves(oracle.leaves(state), position=state.position)
    assert oracle.position(again) == 30
    assert_same(oracle.leaves(again), oracle.leaves(state))
    got = oracle.run(again, ids[30:], head=True).logits
    want = oracle.run(state, ids[30:], head=True).logits
    assert got is not None
    np.testing.assert_array_equal(got, want)


def test_leaf_layout(small: OracleBackend) -> None:
    shapes = {
        leaf: array.shape
        for leaf, array in small.leaves(serial(small, [1, 2, 3, 4, 5])[0]).items()
        if leaf.layer in (None, 1, 3)
    }
    assert shapes == {
        Leaf("gdn_state", 1, "S"): (4, 8, 8),
        Leaf("gdn_conv", 1, "rows"): (3, 64),
        Leaf("ple_conv", 1, "rows"): (9, 128),
        Leaf("ple_tokens", None, "ids"): (2,),
        Leaf("kv", 3, "k"): (5, 2, 16),
        Leaf("kv", 3, "v"): (5, 2, 16),
        Leaf("qsa_blocks", 3, "keys"): (1, 16),
        Leaf("qsa_tail", 3, "rows"): (1, 16),
    }


def test_leaves_that_do_not_fit_are_refused(small: OracleBackend) -> None:
    leaves = small.leaves(serial(small, [1, 2, 3, 4, 5])[0])
    tail = Leaf("qsa_tail", 3, "rows")
    for changed in (
        {leaf: array for leaf, array in leaves.items() if leaf != tail},
        leaves | {tail: np.zeros((2, 16))},
    ):
        with pytest.raises(SavedStateError, match=r"qsa_tail.*wanted shape"):
            small.from_leaves(changed, position=5)
    with pytest.raises(SavedStateError, match="wanted shape"):
        small.from_leaves(leaves, position=6)


@pytest.mark.parametrize("part", ["gdn_state", "gdn_conv", "kv", "qsa_blocks"])
def test_a_nan_reaches_the_logits(small: OracleBackend, part: str) -> None:
    # At 23 cells a block is left out: a NaN score must not hide as the last in a sort.
    leaves = small.leaves(serial(small, random_ids(small, 23))[0])
    for leaf, array in leaves.items():
        if leaf.part == part:
            array[-1] = np.nan
    forward = small.run(small.from_leaves(leaves, position=23), [1], head=True)
    assert forward.logits is not None
    assert best_tokens(forward.logits)[1] is False


# ---------------------------------------------------------------- the bundled model

PYTHON = '''\
import json
from pathlib import Path


class Basket:
    """A shopping basket that knows its prices."""

    def __init__(self, name):
        self.name = name
        self.items = {}

    def add(self, item, price, count=1):
        if count < 1:
            raise ValueError("count must be positive")
        self.items[item] = (price, count)

    def total(self):
        result = 0
        for item, (price, count) in self.items.items():
            result += price * count
        return result


def load(path):
    data = json.loads(Path(path).read_text())
    basket = Basket(data["name"])
    for item, values in data["items"].items():
        basket.add(item, values[0], values[1])
    return basket
'''


def test_the_bundled_model_was_trained() -> None:
    checkpoint = open_checkpoint(BUNDLED)
    assert checkpoint.tokenizer_path is not None
    ids = Tokenizer.from_file(str(checkpoint.tokenizer_path)).encode(PYTHON).ids
    assert len(ids) >= 200
    oracle = OracleBackend(checkpoint)
    logits = oracle.run(oracle.initial(), ids[:-1], head=True).logits
    assert logits is not None
    highest = logits.max(axis=1)
    log_sum = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    surprise = log_sum - logits[np.arange(len(ids) - 1), ids[1:]]
    # Guessing among 4096 tokens costs 8.3 nats.
    assert 1.0 < surprise.mean() < 2.5
