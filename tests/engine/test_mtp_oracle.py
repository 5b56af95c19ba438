"""The oracle's draft head: what is checked by hand, and whether drafts come true."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

import tiny
from heads import after, drafted, head_tensors, random_ids, write_with_head
from strata_nb.engine import Engine
from strata_nb.errors import SavedStateError
from strata_nb.oracle import HeadOracle, OracleBackend, maths
from strata_nb.packs import open_checkpoint
from strata_nb.packs.bundled import checkpoint_folder
from strata_nb.prompts import texts
from strata_nb.trace import Leaf

ROWS = 40  # past the 20 cells from which a row must choose blocks
Floats = npt.NDArray[np.float64]
Leaves = dict[Leaf, npt.NDArray[Any]]
TINY = tiny.tiny_config()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_head(tmp_path_factory.mktemp("head"), TINY, 1)


@pytest.fixture(scope="module")
def oracle(folder: Path) -> HeadOracle:
    return HeadOracle(open_checkpoint(folder))


@pytest.fixture(scope="module", params=[2, 3, 4, 5, 13])
def random(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> HeadOracle:
    """Other ratios, stream counts, heads; one has biases, one is tied."""
    config = tiny.random_config(request.param)
    folder = write_with_head(tmp_path_factory.mktemp("random"), config, 5)
    return HeadOracle(open_checkpoint(folder))


def assert_same(got: Leaves, want: Leaves) -> None:
    assert got.keys() == want.keys()
    for leaf, array in want.items():
        np.testing.assert_array_equal(got[leaf], array, err_msg=str(leaf), strict=True)


def of_head(leaves: Leaves) -> Leaves:
    return {leaf: a for leaf, a in leaves.items() if leaf.part.startswith("mtp_")}


# ---------------------------------------------------------------- by hand


def test_leaves_of_n_cells(oracle: HeadOracle) -> None:
    ids = random_ids(oracle, 9)
    for n in range(10):
        shapes = {
            (leaf.part, leaf.layer, leaf.field): array.shape
            for leaf, array in of_head(oracle.leaves(after(oracle, ids[:n]))).items()
        }
        pairs = max(0, n - 1)  # token 0 ends no pair
        assert shapes == {
            ("mtp_kv", None, "k"): (pairs, 2, 16),
            ("mtp_kv", None, "v"): (pairs, 2, 16),
            ("mtp_qsa_blocks", None, "keys"): (pairs // 4, 16),
            ("mtp_qsa_tail", None, "rows"): (pairs % 4, 16),
            ("mtp_row", None, "h"): (min(n, 1), 4, 32),
        }


def test_shifted_positions_complete_their_first_block_one_pair_earlier(
    folder: Path,
) -> None:
    shifted = HeadOracle(open_checkpoint(folder), position="t+1")
    ids = random_ids(shifted, 10)
    lengths = []
    for n in range(1, 10):
        leaves = shifted.leaves(after(shifted, ids[:n]))
        parts = (("qsa_blocks", "keys"), ("qsa_tail", "rows"))
        found = [len(leaves[Leaf(f"mtp_{p}", None, f)]) for p, f in parts]
        lengths.append(tuple(found))
    # Of position 0 there is no pair: positions 1, 2, 3 are the first block.
    assert lengths[:5] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert lengths[5:] == [(1, 2), (1, 3), (2, 0), (2, 1)]


def test_the_wide_row_is_that_before_the_final_mixer(oracle: HeadOracle) -> None:
    state, target = after(oracle, [5, 6, 7]), tiny.tensors(TINY, 1)
    forward = oracle.run(state, [8, 9], head=True)
    assert forward.logits is not None
    for keep in (1, 2):
        leaves = oracle.leaves(oracle.commit(state, forward.pending, keep))
        h = leaves[Leaf("mtp_row", None, "h")][0]
        x = mixed(target, "hyper_connection_mixer", h)
        logits = target["lm_head.weight"].astype(float) @ x
        np.testing.assert_allclose(logits, forward.logits[keep - 1], atol=1e-12)


def mixed(tensors: tiny.Tensors, stem: str, h: Floats) -> Floats:
    """The mixer written stream by stream, apart from the oracle's."""
    names = ("hc_norm", "input_mix_weight_down", "input_mix_weight_up")
    norm, down, up = (tensors[f"{stem}.{n}.weight"].astype(float) for n in names)
    streams, width = h.shape
    n = np.concatenate([row / np.sqrt(np.mean(row**2) + 1e-6) for row in h])
    n *= 1 + norm
    low = down @ n / streams
    m = 1 / (1 + np.exp(-(up @ (low / (1 + np.exp(-low))))))
    total = np.zeros(width)
    for c in range(streams):
        total += m[c * width : (c + 1) * width] * n[c * width : (c + 1) * width]
    mean: Floats = total / streams
    return mean


def joined(h: Floats, token: int) -> Floats:
    """What enters the layer, stream by stream."""
    head, target = head_tensors(TINY, 1001), tiny.tensors(TINY, 1)
    e, flat = target["embed_tokens.weight"][token].astype(float), h.ravel()
    e = e / np.sqrt(np.mean(e**2) + 1e-6)
    e = e * (1 + head["mtp.pre_fc_norm_embedding.weight"].astype(float))
    flat = flat / np.sqrt(np.mean(flat**2) + 1e-6)
    flat = flat * (1 + head["mtp.pre_fc_norm_hidden.weight"].astype(float))
    return np.stack(
        [
            head["mtp.fc_hidden.weight"].astype(float) @ row
            + head["mtp.fc_embedding.weight"].astype(float) @ e
            for row in np.split(flat, 4)
        ]
    )


def test_a_pair_is_a_wide_row_and_the_next_token(oracle: HeadOracle) -> None:
    ids, head = [5, 6, 7, 8], head_tensors(TINY, 1001)
    rows = [after(oracle, ids[: n + 1]).head for n in range(4)]
    values = oracle.leaves(after(oracle, ids))[Leaf("mtp_kv", None, "v")]
    keys = oracle.leaves(after(oracle, ids))[Leaf("mtp_kv", None, "k")]
    assert len(values) == 3
    stem = "mtp.layers.0.self_attn"
    for slot in range(3):
        before = rows[slot]
        assert before is not None
        x = joined(before["row.h"][0], ids[slot + 1])
        x = mixed(head, "mtp.layers.0.attn_hyper_connection", x)
        v = head[f"{stem}.v_proj.weight"].astype(float) @ x
        np.testing.assert_allclose(values[slot].ravel(), v, atol=1e-12)
        k = (head[f"{stem}.k_proj.weight"].astype(float) @ x).reshape(2, 16)
        k = k / np.sqrt(np.mean(k**2, axis=1, keepdims=True) + 1e-6)
        k = k * (1 + head[f"{stem}.k_norm.weight"].astype(float))
        # RoPE turns nothing at position 0: the pair of token 0's row is there.
        assert np.allclose(keys[slot], k, atol=1e-12) == (slot == 0)
        turned = maths.rope(k, slot, 10_000.0, 8)
        np.testing.assert_allclose(keys[slot], turned, atol=1e-12)


def test_logits_are_by_the_heads_own_mixer(oracle: HeadOracle) -> None:
    h = np.random.default_rng(3).standard_normal((4, 32))
    x = mixed(head_tensors(TINY, 1001), "mtp.hyper_connection_mixer", h)
    logits = tiny.tensors(TINY, 1)["lm_head.weight"].astype(float) @ x
    np.testing.assert_allclose(oracle.logits(h), logits, atol=1e-12)


def test_the_embedding_is_added_to_every_stream(oracle: HeadOracle) -> None:
    h = np.random.default_rng(3).standard_normal((4, 32))
    np.testing.assert_allclose(oracle.joined(h, 9), joined(h, 9), atol=1e-12)
    added = oracle.joined(h, 9) - oracle.joined(h, 10)
    assert np.abs(added[0]).max() > 0.1
    for stream in added[1:]:
        np.testing.assert_allclose(stream, added[0], atol=1e-12)


def test_whole_is_grouped_where_streams_are_of_one_size(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    whole, grouped = HeadOracle(checkpoint), HeadOracle(checkpoint, norm="grouped")
    h = np.random.default_rng(3).standard_normal((4, 32))
    h = 2.0 * h / np.sqrt(np.mean(h**2, axis=1, keepdims=True))
    np.testing.assert_allclose(whole.joined(h, 9), grouped.joined(h, 9), atol=1e-12)
    h[0] *= 2.0
    # Squares 16, 4, 4, 4 have the mean 7; the embedding is the same in both.
    e = whole.joined(0.0 * h, 9)
    ratio = (whole.joined(h, 9) - e) / (grouped.joined(h, 9) - e)
    np.testing.assert_allclose(ratio[0], np.sqrt(16 / 7), rtol=1e-6)
    np.testing.assert_allclose(ratio[1:], np.sqrt(4 / 7), rtol=1e-6)


# ---------------------------------------------------------------- state


def test_the_target_knows_nothing_of_its_head(random: HeadOracle) -> None:
    ids, plain = random_ids(random, ROWS), OracleBackend(_checkpoint_of(random))
    got = random.run(random.initial(), ids, head=True)
    want = plain.run(plain.initial(), ids, head=True)
    assert want.logits is not None
    np.testing.assert_array_equal(got.logits, want.logits)
    leaves = random.leaves(random.commit(got.pending.before, got.pending, ROWS))
    assert len(of_head(leaves)) == 5
    target = {leaf: a for leaf, a in leaves.items() if leaf not in of_head(leaves)}
    plain_state = plain.commit(want.pending.before, want.pending, ROWS)
    assert_same(target, plain.leaves(plain_state))


def _checkpoint_of(oracle: HeadOracle) -> Any:
    return oracle._w._checkpoint


def test_rejected_drafts_leave_nothing_in_the_head(random: HeadOracle) -> None:
    rng, ids = np.random.default_rng(7), random_ids(random, ROWS)
    state, rejected = random.initial(), 0
    while (position := random.position(state)) < ROWS:
        rows = int(rng.integers(1, 9))
        keep = min(int(rng.integers(1, rows + 1)), ROWS - position)
        wrong = random_ids(random, rows - keep, seed=position) if rows > keep else []
        rejected += len(wrong)
        if position:
            drafted(random, state, ids[position], depth=3)
        window = [*ids[position : position + keep], *wrong]
        forward = random.run(state, window, head=bool(position % 2))
        state = random.commit(state, forward.pending, keep)
    assert rejected > 10
    want = after(random, ids)
    assert_same(random.leaves(state), random.leaves(want))
    got, drafts = (drafted(random, s, 1, depth=4)[0] for s in (state, want))
    np.testing.assert_array_equal(got, drafts)


@pytest.mark.parametrize("keep", [1, 2, 11, 12])
def test_a_headless_prompt_feeds_the_head(oracle: HeadOracle, keep: int) -> None:
    ids, state = random_ids(oracle, 12), oracle.initial()
    forward = oracle.run(state, ids, head=False)
    kept = oracle.leaves(oracle.commit(state, forward.pending, keep))
    assert_same(kept, oracle.leaves(after(oracle, ids[:keep])))


def test_a_chain_leaves_the_state_as_it_was(oracle: HeadOracle) -> None:
    state = after(oracle, random_ids(oracle, 22))
    before, (first, _) = oracle.leaves(state), drafted(oracle, state, 5, depth=4)
    assert_same(oracle.leaves(state), before)
    np.testing.assert_array_equal(drafted(oracle, state, 5, depth=4)[0], first)
    assert np.abs(np.diff(first, axis=0)).max(axis=1).min() > 1e-2


def test_a_chain_goes_on_from_its_own_wide_row(oracle: HeadOracle) -> None:
    state = after(oracle, random_ids(oracle, 22))
    assert state.head is not None
    first, chain = oracle.draft(state, 5, None, None)
    second, longer = oracle.draft(state, 9, chain, None)
    h, parts, _ = oracle.pair(state.head, 5, 21)
    np.testing.assert_array_equal(oracle.logits(h), first)
    own = parts | {"row.h": h[None]}
    np.testing.assert_array_equal(oracle.logits(oracle.pair(own, 9, 22)[0]), second)
    # 21 pairs of the state, and those of the chain.
    assert (len(chain.head["kv.k"]), len(longer.head["kv.k"])) == (22, 23)
    # Neither the target's wide row nor the position before gives the same.
    for head, slot in ((parts, 22), (own, 21)):
        other, _, _ = oracle.pair(head, 9, slot)
        assert np.abs(oracle.logits(other) - second).max() > 1e-2


def test_a_cut_leaves_tokens_out_and_the_rest_alone(oracle: HeadOracle) -> None:
    state = after(oracle, [5, 6, 7])
    whole, _ = oracle.draft(state, 8, None, None)
    ids = np.array([3, 200, 256])
    cut, chain = oracle.draft(state, 8, None, SimpleNamespace(ids=ids))
    np.testing.assert_array_equal(cut[ids], whole[ids])
    assert np.isneginf(np.delete(cut, ids)).all()
    second, _ = oracle.draft(state, 3, chain, None)
    assert np.isfinite(second).all()


def test_what_draft_refuses(oracle: HeadOracle) -> None:
    with pytest.raises(ValueError, match="no wide row waits"):
        oracle.draft(oracle.initial(), 5, None, None)
    state = after(oracle, [5])
    assert oracle.draft(state, 5, None, None)[0].shape == (257,)
    for token in (257, -1):
        with pytest.raises(ValueError, match="wanted an id below 257"):
            oracle.draft(state, token, None, None)


def test_an_engine_saves_the_head_with_all_else(
    oracle: HeadOracle, folder: Path, tmp_path: Path
) -> None:
    engine = Engine(oracle, context=64, options={"dtype": "float64"})
    engine.prefill(random_ids(oracle, 22))
    engine.save(tmp_path / "e")
    parts = {"mtp_kv", "mtp_qsa_blocks", "mtp_qsa_tail", "mtp_row"}
    assert parts < engine.digests().keys()
    other = Engine(oracle, context=64, options={"dtype": "float64"})
    other.restore(tmp_path / "e")
    assert other.digests() == engine.digests()
    plain = OracleBackend(open_checkpoint(folder))
    without = Engine(plain, context=64, options={"dtype": "float64"})
    with pytest.raises(SavedStateError, match=r"mtp_.* wanted shape None"):
        without.restore(tmp_path / "e")
    leaves = {x: a for x, a in engine.leaves().items() if x.part != "mtp_row"}
    with pytest.raises(SavedStateError, match=r"mtp_row.*wanted shape \(1, 4, 32\)"):
        oracle.from_leaves(leaves, position=22)


# ---------------------------------------------------------------- shifts


def test_the_token_before_gives_other_logits(oracle: HeadOracle) -> None:
    ids = random_ids(oracle, 12)
    state = after(oracle, ids)
    right, late = (oracle.draft(state, x, None, None)[0] for x in (5, ids[-1]))
    assert np.abs(right - late).max() > 0.1


def test_a_shift_of_positions_shows_only_where_blocks_are_chosen(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    here, shifted = HeadOracle(checkpoint), HeadOracle(checkpoint, position="t+1")
    ids, worst = random_ids(here, ROWS), []
    for n in (2, 10, 18, 26, 33, 40):
        one, two = (
            oracle.draft(after(oracle, ids[:n]), 5, None, None)[0]
            for oracle in (here, shifted)
        )
        worst.append(float(np.abs(one - two).max()))
    # Scores know distances alone; angles are rounded to float32.
    assert max(worst[:3]) < 1e-5
    assert max(worst[3:]) > 1e-2


# ---------------------------------------------------------------- drafts come true

PROMPT, DRAFTS = 100, 24


def test_drafts_come_true_unless_pairs_are_shifted() -> None:
    checkpoint = open_checkpoint(checkpoint_folder("strata-tiny"))
    oracle = HeadOracle(checkpoint)
    ids = Tokenizer.from_file(str(checkpoint.tokenizer_path)).encode(texts("code")[0])
    text, state = list(ids.ids[:PROMPT]), oracle.initial()
    rows: list[Floats] = []
    while len(text) < PROMPT + DRAFTS + 1:
        tokens = text[len(rows) :]
        for i, token in enumerate(tokens):
            forward = oracle.run(state, [token], head=i == len(tokens) - 1)
            state = oracle.commit(state, forward.pending, 1)
            assert state.head is not None
            rows.append(state.head["row.h"])
        text += forward.greedy()[0]
    right, late = (_drafts(oracle, rows, text, shift=shift) for shift in (1, 0))
    assert _rate(right, text) > 0.5
    assert _rate(late, text) < 0.2
    assert len(set(right)) >= 5


def _drafts(
    oracle: HeadOracle, rows: Sequence[Floats], text: Sequence[int], *, shift: int
) -> list[int]:
    """What is drafted for the last `DRAFTS` tokens: pairs (row t, token t + shift)."""
    parts, found = oracle.initial().head, []
    assert parts is not None
    for slot in range(len(text) - 2):
        token = text[slot + shift]
        h, parts, _ = oracle.pair(parts | {"row.h": rows[slot]}, token, slot)
        if slot + 2 >= len(text) - DRAFTS:
            found.append(int(oracle.logits(h).argmax()))
    return found


def _rate(drafts: Sequence[int], text: Sequence[int]) -> float:
    return float(np.mean(np.array(drafts) == np.array(text[-DRAFTS:])))
