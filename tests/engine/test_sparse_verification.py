"""Verification with less: experts, cells and features left out (approximate)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from helpers import after, prompt
from routed import ROWS, ids, logits_of, weights
from strata_nb import Model, diff
from strata_nb.engine import Engine
from strata_nb.oracle import OracleBackend, Sparse, SparseOracle, blocks, sparse
from strata_nb.policies import MoeSpec, SkipTail, calibrated
from strata_nb.policies.routing import NATURAL, Seen
from strata_nb.policies.skip_tail import medians, ratios, skips
from strata_nb.trace import LayerDecisions

WEIGHTS = np.array(
    [[0.5, 0.3, 0.15, 0.05], [0.4, 0.3, 0.2, 0.1], [0.7, 0.15, 0.1, 0.05]]
)
"""Three rows of four experts each, the strongest first."""
ORDER = np.array([[3, 0, 2, 1], [1, 2, 3, 0], [2, 3, 1, 0]])
"""Which experts these are."""


def shuffled() -> Any:
    """Router logits with these weights, and four experts more that weigh nothing."""
    shares = np.full((3, 8), 1e-9)
    np.put_along_axis(shares, ORDER, WEIGHTS, axis=1)
    return logits_of(shares.tolist())


# ------------------------------------------------------------------ experts


def test_the_worked_ratios_and_medians() -> None:
    found = ratios(WEIGHTS, most=3)
    wanted = [[0.05, 0.2, 0.5], [0.1, 0.3, 0.6], [0.05, 0.15, 0.3]]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(medians(WEIGHTS, most=3), [0.05, 0.2, 0.5], rtol=1e-12)
    pairs = [[0.1, 0.3, 0.6], [0.25, 0.5, 0.75], [1 / 14, 1 / 7, 3 / 14]]
    np.testing.assert_allclose(ratios(WEIGHTS, most=3, ratio="pairwise"), pairs)
    # Of two experts it is the rule w_2 < beta w_1.
    two = np.array([[0.8, 0.2]])
    assert ratios(two, most=1, ratio="pairwise").tolist() == [[0.25]]


def test_the_worked_skips() -> None:
    """Strictly below: m = 1 leaves nothing out, m = 2 and m = 3 of the third row."""
    for most, wanted in ((1, [0, 0, 0]), (2, [0, 0, 2]), (3, [0, 0, 3])):
        beta = medians(WEIGHTS, most=most)
        assert skips(WEIGHTS, beta).tolist() == wanted
    # The largest that fits, whatever a smaller one says.
    assert skips(WEIGHTS, (0.0, 0.0, 0.55)).tolist() == [3, 0, 3]
    assert skips(WEIGHTS, (0.2, 0.0)).tolist() == [1, 1, 1]


def test_what_equals_its_threshold_is_not_below_it() -> None:
    """0.3 + 0.15 + 0.05 is 0.49999... in floats, and half of all on paper."""
    same = [WEIGHTS * scale for scale in (1, 0.1, 0.3, 0.7)]
    # Router logits come in float32, which is off by more than that.
    same.append(np.exp(np.log(WEIGHTS.astype(np.float32))))
    assert min(ratios(rows, most=3)[0, 2] for rows in same) < 0.5
    for rows in same:
        assert skips(rows, (0.05, 0.2, 0.5)).tolist() == [0, 0, 3]
        assert skips(rows, (0.05, 0.2, 0.5 + 1e-5)).tolist() == [3, 0, 3]


def test_a_row_does_without_its_weakest() -> None:
    beta = medians(WEIGHTS, most=2)
    routing = SkipTail((beta,))
    natural = ids(NATURAL, shuffled(), top_k=4)
    assert natural == ORDER.tolist()
    wanted = [natural[0], natural[1], [2, 3, -1, -1]]
    assert ids(routing, shuffled(), top_k=4) == wanted
    assert ids(routing, shuffled(), top_k=4, headless=True) == natural
    assert ids(routing, shuffled()[2:], top_k=4) == wanted[2:]
    # The root keeps all of its own, and so does a window of one row.
    drafts = SkipTail((beta,), drafts_only=True)
    assert ids(drafts, shuffled(), top_k=4) == wanted
    assert ids(drafts, shuffled()[2:], top_k=4) == natural[2:]
    assert ids(drafts, shuffled()[1:], top_k=4) == wanted[1:]
    all_the_same = SkipTail(((0.0, 0.0),))
    assert ids(all_the_same, shuffled(), top_k=4) == natural


def test_what_is_left_carries_all_or_its_own() -> None:
    """0.70 and 0.15 of 1: renormalised 0.82 and 0.18; the switch says otherwise."""
    beta = (medians(WEIGHTS, most=2),)
    renormalised = [0.7 / 0.85, 0.15 / 0.85, 0, 0]
    own = [0.7, 0.15, 0, 0]
    for keep, model, wanted in (
        (None, True, renormalised),
        (None, False, own),
    ):
        routing = SkipTail(beta, keep_mass=keep)
        found = weights(routing, shuffled(), top_k=4, renormalise=model)
        np.testing.assert_allclose(found[2], wanted, atol=1e-6)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("keep", [None, True, False])
def test_a_model_weighs_what_is_left_as_the_switch_says(
    tiny: Model, renormalise: bool, keep: bool | None
) -> None:
    """Of four experts that weigh 0.5 of all, two with 0.4 are left, or three."""
    moe = tiny.engine().backend.layers[0].moe  # type: ignore[attr-defined]
    shares = np.array([[0.3, 0.1, 0.06, 0.04, *[0.5 / 12] * 12]])
    shares[0, 4:] = np.linspace(0.001, 0.03, 12)
    shares[0, 4:] *= 0.5 / shares[0, 4:].sum()
    order = np.argsort(-shares[0])[:4]
    whole = shares[0, order].sum()
    logits = logits_of(shares.tolist())
    was = moe.renormalise
    try:
        moe.renormalise = renormalise
        for routing in (
            SkipTail(((0.9, 0.9),), keep_mass=keep),
            MoeSpec(99, "truncate", keep_mass=keep),
        ):
            seen = routing.choose(logits, top_k=4, seen=Seen(0, None))
            found = np.array(moe._weights(logits, seen))[0]
            left = shares[0, order]
            if isinstance(routing, SkipTail):
                left = np.where(np.arange(4) < 2, left, 0)
            mass = renormalise if keep is None else keep
            scale = (1 if renormalise else whole) / (left.sum() if mass else whole)
            np.testing.assert_allclose(found, left * scale, rtol=1e-5, atol=1e-7)
    finally:
        moe.renormalise = was


def test_truncation_may_lose_the_mass_it_leaves_out() -> None:
    """In MoE-Spec's example row 2 keeps 0.40 of 0.70, and row 3 0.30 of 0.75."""
    rows = logits_of(ROWS)
    lost = MoeSpec(3, "truncate", keep_mass=False)
    assert ids(lost, rows, top_k=2) == ids(MoeSpec(3, "truncate"), rows, top_k=2)
    assert lost.name == "moe-spec(3, truncate, mass lost), approximate"
    assert MoeSpec(3, "truncate", keep_mass=True).name.endswith(
        "mass kept), approximate"
    )
    with pytest.raises(ValueError, match="`keep_mass` is True, but with 'substitute'"):
        MoeSpec(3, keep_mass=True)


# ------------------------------------------------------------------ calibration


def windows(model: Model, count: int = 6) -> list[Sequence[LayerDecisions]]:
    engine = after(model, prompt(model, 9))
    found: list[Sequence[LayerDecisions]] = []
    for number in range(count):
        window = engine.run(prompt(model, 8, seed=number))
        engine.finish(window, stop_ids=())
        found.append(window.layers)
        engine.commit(window, force=True, keep=8)
    return found


@pytest.mark.parametrize("ratio", ["tail", "pairwise"])
def test_half_of_the_rows_qualify(tiny: Model, ratio: Any) -> None:
    """For each layer and m: what a median is."""
    found = windows(tiny)
    beta = calibrated(found, top_k=4, ratio=ratio)
    assert [len(layer) for layer in beta] == [3] * 8
    assert len({layer for layer in beta}) == 8
    for layer in range(8):
        logits = np.concatenate([w[layer].router_logits for w in found])
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        rows = -np.sort(-shares / shares.sum(axis=1, keepdims=True))[:, :4]
        below = ratios(rows, most=3, ratio=ratio) < beta[layer]
        assert (np.abs(below.mean(axis=0) - 0.5) <= 1 / len(rows)).all()
        # Few thresholds are those of fewer m.
        assert calibrated(found, top_k=4, most=1, ratio=ratio)[layer] == beta[layer][:1]


def test_in_an_engine_it_computes_less(tiny: Model) -> None:
    beta = calibrated(windows(tiny), top_k=4)
    engine = after(tiny, prompt(tiny, 21), routing=SkipTail(beta))
    plain = after(tiny, prompt(tiny, 21))
    assert diff(engine, plain) == []
    found, other = (one.run(prompt(tiny, 8, seed=9)) for one in (engine, plain))
    used = np.array([(made.expert_ids >= 0).sum() for made in found.layers])
    assert (used < 8 * 4).all()
    assert used.sum() < 0.85 * 8 * 8 * 4
    assert (found.logits != other.logits).any()
    nothing = after(tiny, prompt(tiny, 21), routing=SkipTail(((0.0,),) * 8))
    np.testing.assert_array_equal(nothing.run(found.inputs).logits, other.logits)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SkipTail(()), "one threshold or more for each layer"),
        (lambda: SkipTail(((0.1,), ())), "2 layers and up to 1 experts"),
        (lambda: SkipTail(((1.5,),)), "from 0 to 1"),
        (lambda: SkipTail(((float("nan"),),)), "from 0 to 1"),
        (lambda: SkipTail(((0.1,),), ratio="sum"), "'tail' or 'pairwise'"),  # type: ignore[arg-type]
        (lambda: calibrated([], top_k=4), "no windows to calibrate with"),
        (lambda: calibrated([], top_k=1), "`most` is 3 of 1 experts"),
        (lambda: calibrated([], top_k=4, most=0), "`most` is 0 of 4"),
        (
            lambda: calibrated([(LayerDecisions(np.zeros((1, 4), int)),)], top_k=4),
            "layer 0 kept no router logits",
        ),
    ],
)
def test_what_is_no_calibration_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_switches_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="`drafts_only` must be True or False, got 1"):
        SkipTail(((0.1,),), drafts_only=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`keep_mass` must be True, False or None"):
        SkipTail(((0.1,),), keep_mass=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("headless", [False, True])
@pytest.mark.parametrize("top_k", [2, 1])
def test_thresholds_of_another_model_are_refused(headless: bool, top_k: int) -> None:
    with pytest.raises(ValueError, match=f"uses {top_k} experts a row; wanted some"):
        ids(SkipTail(((0.1, 0.2),)), shuffled(), top_k=top_k, headless=headless)


def test_its_name_says_what_it_is() -> None:
    assert SkipTail(((0.1, 0.2),)).name == "skip(up to 2 by tail), approximate"
    full = SkipTail(((0.1,),), ratio="pairwise", drafts_only=True, keep_mass=False)
    assert full.name == "skip(up to 1 by pairwise, drafts only, mass lost), approximate"
    assert not full.lossless


# ------------------------------------------------------------------ cells and features


def oracle(model: Model, how: Sparse | None, cells: Sequence[int]) -> Engine:
    backend = (
        OracleBackend(model.checkpoint)
        if how is None
        else SparseOracle(model.checkpoint, how)
    )
    options = {} if how is None else {"approximate": how.name}
    engine = Engine(backend, context=4096, options=options)
    engine.prefill(cells)
    return engine


THIN = Sparse(block=3, dense=4, rho=0.5)


def test_the_worked_number_of_blocks() -> None:
    """(8192 - 4096) 0.5 + 4096 = 6144 cells; times 8 heads, of 64 each: 768."""
    how = Sparse(block=64, dense=4096, rho=0.5)
    assert how.kept(8192, heads=8) == 768
    assert how.kept(4096, heads=8) == 512
    assert how.kept(4095, heads=8) == 512
    assert Sparse(block=64, dense=4096).kept(8195, heads=8) == 129 * 8
    assert Sparse(block=64, dense=0, rho=0.0).kept(8192, heads=8) == 0


def test_the_blocks_that_a_query_chooses() -> None:
    """Blocks of two cells: means 1, 5, 3, 4 of the one head, 0 of the other."""
    keys = np.zeros((8, 2, 1))
    keys[:, 0, 0] = [0, 2, 5, 5, 3, 3, 9, -1]
    query = np.ones((4, 1)) / 2
    how = Sparse(block=2, dense=0, rho=0.5, first=0, last=0)
    chosen = how.choose(query, keys)
    # 4 cells times 2 heads make 4 blocks, 2 of each head; of equals the lowest.
    assert chosen.T.tolist() == [[False, True, False, True], [True, True, False, False]]
    ends = Sparse(block=2, dense=0, rho=0.5)
    found = ends.choose(query, keys)
    assert found.T.tolist() == [[True, False, False, True]] * 2
    # Forced blocks are chosen though the budget be none.
    none = Sparse(block=2, dense=0, rho=0.0)
    assert none.choose(query, keys).T.tolist() == [[True, False, False, True]] * 2
    # A block that is not full counts by the mean of what it has: 5, 3 and 9 of 1.
    short = Sparse(block=2, dense=0, rho=0.9, first=0, last=0)
    found = short.choose(query, keys[:7])
    assert found[:, 0].tolist() == [False, True, True, True]


def test_with_nothing_left_out_it_is_the_oracle(tiny: Model) -> None:
    cells, rows = prompt(tiny, 21), prompt(tiny, 4, seed=3)
    want = oracle(tiny, None, cells).run(rows).logits
    for how in (Sparse(block=3, dense=0), Sparse(block=3, rho=0.1), Sparse()):
        got = oracle(tiny, how, cells).run(rows).logits
        np.testing.assert_array_equal(got, want)
    for how in (THIN, Sparse(tau=0.1)):
        engine = oracle(tiny, how, cells)
        assert (engine.run(rows).logits != want).any()
        assert engine.options["approximate"] == how.name
    assert THIN.name == "sparse(rho 0.5 beyond 4, tau 0), approximate"


@pytest.mark.parametrize(
    "how",
    [THIN, Sparse(block=3, dense=4, rho=0.3, anchors=(3,)), Sparse(tau=0.05)],
    ids=["blocks", "anchors", "features"],
)
def test_rejected_rows_change_nothing_of_it(tiny: Model, how: Sparse) -> None:
    """The first row chooses, and it is always kept: twin and replay are equal."""
    cells, rows = prompt(tiny, 21), prompt(tiny, 5, seed=3)
    engine = oracle(tiny, how, cells)
    window = engine.run(rows)
    engine.finish(window, stop_ids=())
    engine.commit(window, keep=3, force=True)
    for other in ([*rows[:3], 7, 8], rows[:3]):
        again = oracle(tiny, how, cells)
        twin = again.run(other)
        np.testing.assert_array_equal(twin.logits[:3], window.logits[:3])
        again.finish(twin, stop_ids=())
        again.commit(twin, keep=3, force=True)
        assert diff(again, engine) == []
    # Another first row chooses others: row by row is another computation.
    serial = oracle(tiny, how, cells)
    for token in rows[:3]:
        one = serial.run([token])
        serial.finish(one, stop_ids=())
        serial.commit(one)
    assert (diff(serial, engine) == []) == (how.tau > 0)


def test_rows_of_the_window_are_always_seen(tiny: Model) -> None:
    """No block at all is chosen: a row has the window's own cells.

    One that completes a block may not see itself, and then it has all that it sees.
    """
    none = Sparse(block=3, dense=0, rho=0.0, first=0, last=0)
    layer: Any = SparseOracle(tiny.checkpoint, none)._layers[3]
    rng = np.random.default_rng(0)
    query, k, v = (
        rng.standard_normal((n, h, 16)) for n, h in ((1, 4), (12, 2), (12, 2))
    )
    layer.window = sparse._Window(10, none)
    for seen, used in (
        ((4, 5, 10), (10,)),
        ((4, 5, 10, 11), (10, 11)),
        ((4, 5), (4, 5)),
    ):
        found = layer.attend(query[0], k, v, np.array(seen))
        want = blocks.attend(query[0], k, v, np.array(used))
        np.testing.assert_allclose(found, want, rtol=1e-12)
    # Without a window nothing is left out.
    layer.window = None
    found = layer.attend(query[0], k, v, np.array([4, 10]))
    np.testing.assert_array_equal(
        found, blocks.attend(query[0], k, v, np.array([4, 10]))
    )


def test_a_layer_may_go_by_the_choice_of_an_anchor(tiny: Model) -> None:
    """Layers 3 and 7 attend. Without a choice of its own 7 computes something else."""
    cells, rows = prompt(tiny, 21), prompt(tiny, 4, seed=3)
    found = {
        anchors: oracle(
            tiny, Sparse(block=3, dense=4, rho=0.3, anchors=anchors), cells
        ).run(rows)
        for anchors in (None, (3, 7), (3,), (7,))
    }
    own = found[None].logits
    np.testing.assert_array_equal(found[3, 7].logits, own)
    # Before the only anchor a layer goes by its own.
    np.testing.assert_array_equal(found[7,].logits, own)
    assert (found[3,].logits != own).any()


def test_a_prompt_is_read_whole(tiny: Model) -> None:
    how = Sparse(block=3, dense=4, rho=0.1, tau=0.5)
    cells = prompt(tiny, 30)
    assert diff(oracle(tiny, how, cells), oracle(tiny, None, cells)) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"block": 0}, "`block` is 0, wanted 1 or more"),
        ({"dense": -1}, "`dense` is -1, wanted 0 or more"),
        ({"first": -1}, "`first` is -1"),
        ({"last": -1}, "`last` is -1"),
        ({"rho": 1.5}, "`rho` is 1.5, wanted 0 to 1"),
        ({"tau": -0.1}, "`tau` is -0.1, wanted 0 or more"),
        ({"tau": float("nan")}, "`tau` is nan"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sparse(**wrong)
