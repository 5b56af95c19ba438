"""Public bug reports as small tests: the right values, on the real engine."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import EXACT, advance, after, assert_same, greedy, prompt, serial
from strata_kernels.route import route
from strata_nb import Model
from strata_nb.engine import Engine
from strata_nb.parts import PleTokens
from strata_nb.session import generate


def rule(
    model: Model, ids: Sequence[int], rows: Sequence[int], keep: int, **kw: Any
) -> Engine:
    """After a window, state and the next 20 greedy tokens are those of plain rows."""
    engine = after(model, ids, **kw)
    advance(engine, rows, keep=keep)
    want = serial(after(model, ids, **kw), rows[:keep])
    assert_same(engine, want, why=f"{len(ids)} cells, T={len(rows)}, keep={keep}")
    assert greedy(engine.fork(), 3, 20) == greedy(want, 3, 20)
    return engine


def wrong_drafts(engine: Engine, root: int, width: int) -> list[int]:
    """The root and drafts that are the true next tokens + 1."""
    vocab = engine.backend.config.vocab_size
    right = greedy(engine.fork(), root, width - 1) if width > 1 else []
    return [root, *((t + 1) % vocab for t in right)]


def test_hand_01_rejected_drafts_leave_the_recurrence(tiny: Model) -> None:
    ids = prompt(tiny, 24, seed=1)
    want = greedy(after(tiny, ids), 5, 20)
    for width in range(2, 9):
        engine, plain = after(tiny, ids), after(tiny, ids)
        root, found, accepted = 5, [], 0
        for _ in range(20):
            window = engine.run(wrong_drafts(engine, root, width))
            accepted += engine.finish(window, stop_ids=()).accepted
            report = engine.commit(window)
            advance(plain, [root])
            assert_same(engine, plain, why=f"T={width}")
            assert report.root is not None
            root = report.root
            found.append(root)
        assert (found, accepted) == (want, 0)


@pytest.mark.parametrize("length", range(20, 28))
def test_hand_02_the_indexer_follows_the_text(tiny: Model, length: int) -> None:
    ids = prompt(tiny, length, seed=2)
    engine, plain = after(tiny, ids), after(tiny, ids)
    # Large index keys: of many tokens, those whose raw keys are longest.
    drafts = loudest(tiny, 5)
    advance(engine, [9, *drafts], keep=1)
    advance(plain, [9])
    root = 9
    for _ in range(8):
        n = engine.position
        leaves = engine.leaves()
        for leaf, array in leaves.items():
            if leaf.part == "qsa_blocks":
                assert len(array) == n // 4
            if leaf.part == "qsa_tail":
                assert len(array) == n % 4
        mine, other = engine.run([root]), plain.run([root])
        for got, want in zip(mine.layers, other.layers, strict=True):
            assert (got.blocks is None) == (want.blocks is None)
            if got.blocks is not None and want.blocks is not None:
                np.testing.assert_array_equal(got.blocks, want.blocks)
                assert got.blocks.max() < (n + 1) // 4
        for one, window in ((engine, mine), (plain, other)):
            one.finish(window, stop_ids=())
            report = one.commit(window)
        root = report.root or 0


def loudest(model: Model, count: int) -> list[int]:
    """Tokens whose raw index keys at the first attention layer are largest."""
    sizes = []
    for token in range(0, model.config.vocab_size, 3):
        leaves = serial(model.engine(), [token]).leaves()
        tail = next(a for leaf, a in leaves.items() if leaf.part == "qsa_tail")
        sizes.append((float(np.linalg.norm(tail)), token))
    return [token for _, token in sorted(sizes)[-count:]]


@pytest.mark.parametrize("n", range(19, 28))
def test_hand_03_resume_takes_every_part(tiny: Model, tmp_path: Path, n: int) -> None:
    text = prompt(tiny, 30, seed=3)
    after(tiny, text[:n]).save(tmp_path / "saved")
    engine = tiny.engine()
    engine.restore(tmp_path / "saved")
    engine.prefill(text[n:])
    cold = after(tiny, text)
    assert_same(engine, cold, why=f"saved after {n}")
    assert greedy(engine, 7, 20) == greedy(cold, 7, 20)


@pytest.mark.parametrize("width", range(1, 9))
def test_hand_05_exactly_as_many_tokens_as_asked_for(tiny: Model, width: int) -> None:
    ids = prompt(tiny, 21, seed=4)
    want = greedy(after(tiny, ids), 8, 12)

    def perfect(text: Sequence[int]) -> list[int]:
        return want[len(text) - 1 :][: width - 1]

    start = after(tiny, ids)
    for limit in range(13):
        engine = start.fork()
        got = generate(engine, 8, max_new=limit, drafts=perfect, stop_ids=())
        assert list(got.tokens) == want[:limit]
        assert engine.position == 21 + limit
        assert got.stop == "limit"
        # Counters count what was emitted: one bonus a window, the rest accepted.
        assert len(got.tokens) == got.windows + got.accepted
        assert got.offered >= got.accepted
    assert generate(start, 8, max_new=0).windows == 0
    assert start.position == 21
    with pytest.raises(ValueError, match="`max_new` is -1"):
        generate(start, 8, max_new=-1)


EDIT = """<|im_start|>user
Rename `total` to `count`:
def add(items):
    total = 0
    for item in items:
        total += item
    return total
<|im_end|>
<|im_start|>assistant
"""


@pytest.mark.parametrize("width", [1, 3, 8])
def test_the_models_own_stop_id_is_emitted_and_not_committed(
    trained: Model, width: int
) -> None:
    ids = trained.encode(EDIT)
    plain = generate(after(trained, ids[:-1]), ids[-1], max_new=60)
    assert plain.stop == "stop"
    assert trained.decode(plain.tokens[-1:]) == "<|im_end|>"
    engine = after(trained, ids[:-1])

    def beyond(text: Sequence[int]) -> list[int]:
        # The true text, its stop id and something after it.
        return [*plain.tokens, 9, 9, 9][len(text) - 1 :][: width - 1]

    got = generate(engine, ids[-1], max_new=60, drafts=beyond)
    assert got.tokens == plain.tokens
    assert engine.position == len(ids) + len(plain.tokens) - 1
    assert len(got.tokens) == got.windows + got.accepted
    assert_same(engine, serial(after(trained, ids), plain.tokens[:-1]))


def test_an_exception_while_generating_changes_nothing(tiny: Model) -> None:
    engine = after(tiny, prompt(tiny, 21))
    before, windows = engine.digests(), len(engine.trace)
    calls = []

    def stops(text: Sequence[int]) -> list[int]:
        calls.append(len(text))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return []

    with pytest.raises(KeyboardInterrupt):
        generate(engine, 8, max_new=9, drafts=stops, stop_ids=())
    with pytest.raises(ValueError, match="outside the vocabulary"):
        generate(engine, 8, max_new=9, drafts=lambda _: [10**9])
    assert engine.window is None
    assert engine.digests() == before
    assert len(engine.trace) == windows


def test_drafts_may_come_from_an_endless_iterator(tiny: Model) -> None:
    engine = after(tiny, prompt(tiny, 21))
    got = generate(engine, 8, max_new=5, drafts=lambda _: itertools.repeat(3))
    assert len(got.tokens) == 5


def test_hand_05_the_end_of_the_context_is_a_limit_too(tiny: Model) -> None:
    engine = after(tiny, prompt(tiny, 21), context=25)
    got = generate(engine, 8, max_new=50, stop_ids=())
    assert (len(got.tokens), got.stop, engine.position) == (4, "limit", 25)


def test_hand_09_renormalised_or_not() -> None:
    logits = mx.array([[2.0, 1.0, 0.0, -1.0]])
    for flag, want in ((True, [0.7311, 0.2689]), (False, [0.6439, 0.2369])):
        chosen, weights = route(logits, top_k=2, renormalise=flag)
        assert np.array(chosen).tolist() == [[0, 1]]
        np.testing.assert_allclose(np.array(weights)[0], want, atol=5e-5)
    chosen, weights = route(mx.array([[1.0, 1, 1, 0]]), top_k=2, renormalise=True)
    assert np.array(chosen).tolist() == [[0, 1]]
    assert np.array(weights).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("length", range(60, 69, 2))
def test_hand_10_eight_bit_cells_rewind_inside_a_group(
    wide: Model, length: int
) -> None:
    ids = prompt(wide, length, seed=5)
    for keep in range(1, 7):
        rule(wide, ids, prompt(wide, 6, seed=keep), keep, kv="int8")


def test_hand_10_a_rejected_row_changes_no_kept_scale(wide: Model) -> None:
    engine, twin = (after(wide, prompt(wide, 62), kv="int8") for _ in range(2))
    advance(engine, [3, 4, 5, 6], keep=2)
    advance(twin, [3, 4, 200, 201], keep=2)
    scales = [
        {k: v for k, v in e.leaves().items() if k.field.endswith(("_scale", "_bias"))}
        for e in (engine, twin)
    ]
    assert len(scales[0]) == 8
    for leaf, array in scales[0].items():
        np.testing.assert_array_equal(array, scales[1][leaf])


def test_hand_10_heads_that_8_bits_cannot_hold_are_refused(tiny: Model) -> None:
    with pytest.raises(ValueError, match="multiple of 32, and this model has 16"):
        tiny.engine(kv="int8")


def test_hand_11_a_rejected_token_leaves_the_ngram_history() -> None:
    tokens = PleTokens(2, eos=50, vocabulary=60)
    state = tokens.initial()
    for ids, keep in (([5], 1), ([4, 9], 1)):
        _, pending = tokens.run(state, ids)
        state = tokens.commit(state, pending, keep=keep)
    assert state == (5, 4)  # not (4, 9), and not (50, 50)


@pytest.mark.parametrize("fold", ["lazy", "eager"])
def test_s1_a_cancelled_window(tiny: Model, fold: str) -> None:
    engine = after(tiny, prompt(tiny, 22), fold=fold)
    advance(engine, [1, 2, 3, 4], keep=2)
    before = engine.digests()
    engine.abort(engine.run([5, 6, 7, 8]))
    assert engine.digests() == before
    assert_same(engine, serial(after(tiny, prompt(tiny, 22)), [1, 2]))


@pytest.mark.parametrize("plain_rows", [1, 2, 3, 7, 10])
def test_s2_plain_rows_between_two_windows(tiny: Model, plain_rows: int) -> None:
    ids = prompt(tiny, 22, seed=6)
    between = prompt(tiny, plain_rows, seed=plain_rows)
    engine = after(tiny, ids)
    advance(engine, [1, 2, 3, 4], keep=2)
    serial(engine, between)
    advance(engine, [5, 6, 7], keep=1)
    assert_same(engine, serial(after(tiny, ids), [1, 2, *between, 5]))


def test_s3_convolutions_forget_the_last_draft(tiny: Model) -> None:
    one, other = (after(tiny, prompt(tiny, 22)) for _ in range(2))
    advance(one, [1, 2, 3, 4], keep=1)
    advance(other, [1, 2, 3, 99], keep=1)
    found = one.leaves(), other.leaves()
    for part in ("gdn_conv", "ple_conv"):
        leaves = [leaf for leaf in found[0] if leaf.part == part]
        assert leaves
        for leaf in leaves:
            np.testing.assert_array_equal(found[0][leaf], found[1][leaf])


def test_s4_layers_behind_an_attention_layer_are_right_too(tiny: Model) -> None:
    ids = prompt(tiny, 200, seed=7)
    engine = rule(tiny, ids, prompt(tiny, 6, seed=8), 3)
    layers = {leaf.layer for leaf in engine.leaves() if leaf.part == "gdn_state"}
    assert max(x for x in layers if x is not None) > 3  # layer 3 is an attention layer


def test_s5_a_fork_has_its_own_index_keys(tiny: Model) -> None:
    ids = prompt(tiny, 23, seed=9)
    left = after(tiny, ids)
    right = left.fork()
    roots, texts = [3, 4], ([], [])  # type: tuple[list[int], tuple[list[int], list[int]]]
    for _ in range(20):
        for side, engine in enumerate((left, right)):
            roots[side] = advance(engine, [roots[side]]).root or 0
            texts[side].append(roots[side])
    for side, first in enumerate((3, 4)):
        cold = after(tiny, ids)
        assert greedy(cold, first, 20) == texts[side]
        assert_same((left, right)[side], cold)


def test_s6_three_sequences_with_different_keeps(tiny: Model) -> None:
    starts = [prompt(tiny, n, seed=n) for n in (19, 22, 41)]
    engines = [after(tiny, ids) for ids in starts]
    rows = prompt(tiny, 6, seed=10)
    windows = [engine.run(rows) for engine in engines]
    for engine, window, keep in zip(engines, windows, (1, 3, 5), strict=True):
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=keep, force=True)
    for engine, ids, keep in zip(engines, starts, (1, 3, 5), strict=True):
        assert_same(engine, serial(after(tiny, ids), rows[:keep]))


def test_s18_each_row_has_its_own_logits(tiny: Model) -> None:
    for length in (7, 30):
        ids = prompt(tiny, length, seed=11)
        rows = [11, 22, 33, 44]
        together = after(tiny, ids).run(rows).logits
        alone = after(tiny, ids)
        for row, token in enumerate(rows):
            window = alone.run([token])
            if EXACT:
                np.testing.assert_array_equal(together[row], window.logits[0])
            else:
                np.testing.assert_allclose(together[row], window.logits[0], atol=1e-4)
            alone.finish(window, stop_ids=())
            alone.commit(window, keep=1)


def test_s20_two_sequences_of_one_model_do_not_mix(tiny: Model) -> None:
    one, two = prompt(tiny, 25, seed=12), prompt(tiny, 25, seed=13)
    first, second = tiny.engine(), tiny.engine()
    for a, b in zip(one, two, strict=True):
        advance(first, [a, 1, 2], keep=1)
        advance(second, [b, 3], keep=1)
    assert_same(first, serial(tiny.engine(), one))
    assert_same(second, serial(tiny.engine(), two))


class PassThrough:
    """Hides nothing: every attribute is the inner backend's."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_s22_a_wrapped_model_takes_the_same_path(tiny: Model) -> None:
    plain, wrapped = (after(tiny, prompt(tiny, 22)) for _ in range(2))
    wrapped.backend = PassThrough(wrapped.backend)
    for engine in (plain, wrapped):
        advance(engine, [1, 2, 3, 4, 5], keep=2)
    assert_same(plain, wrapped)
    assert plain.trace[-1].layers == wrapped.trace[-1].layers
