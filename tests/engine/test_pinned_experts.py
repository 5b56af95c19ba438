"""A few pinned experts in the place of all: which they are, and what they compute."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import after, assert_close, greedy, prompt
from self_drafts import beside, even_model
from strata_kernels.experts import mix_experts
from strata_nb import Model, Session, load
from strata_nb.draft import SpecMoe
from strata_nb.experts import Streaming
from strata_nb.experts.aside import distances, substitutes
from strata_nb.experts.pool import SlotPool
from strata_nb.models.qwen4_exp.aside import PinnedExperts
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.policies import HotTemporal
from strata_nb.trace import LayerRecord, WindowRecord

EXPERTS, LAYERS, START = 16, 8, 27


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return even_model(tmp_path_factory.mktemp("even"))


@pytest.fixture(scope="module")
def slots(even: Model) -> Model:
    """Room for 6 of 16 experts a layer."""
    return load(even.checkpoint.path, experts=Streaming(slots=6))


def weights_of(model: Model) -> Weights:
    assert model._weights is not None
    return model._weights


# ------------------------------------------------------------------ the few experts


def test_distances_are_those_of_all_weights(tiny: Model) -> None:
    gate_up, down = tiny.checkpoint.experts(2)
    flat = np.concatenate(
        [gate_up.reshape(EXPERTS, -1), down.reshape(EXPERTS, -1)], axis=1
    ).astype(np.float64)
    want = np.sqrt(((flat[:, None] - flat[None]) ** 2).sum(axis=-1))
    found = distances(tiny.checkpoint, 2)
    np.testing.assert_allclose(found, want, atol=1e-5)
    np.testing.assert_array_equal(found, found.T)
    assert (np.diagonal(found) == 0).all()
    assert weights_of(tiny).distances(2) is weights_of(tiny).distances(2)


def test_the_nearest_pinned_expert_stands_in() -> None:
    far = np.array(
        [
            [0.0, 1.0, 2.0, 2.0],
            [1.0, 0.0, 3.0, 3.0],
            [2.0, 3.0, 0.0, 0.0],
            [2.0, 3.0, 0.0, 0.0],
        ]
    )
    assert substitutes(far, [1, 2]).tolist() == [1, 1, 2, 2]
    # Equally near: the lowest. Pinned: itself, though another is as near as that.
    assert substitutes(far, [3, 2]).tolist() == [2, 2, 2, 3]
    assert substitutes(far, [3]).tolist() == [3, 3, 3, 3]
    for wrong in ([], [4], [-1]):
        with pytest.raises(ValueError, match="wanted pinned experts of 0 to 3"):
            substitutes(far, wrong)


def test_choices_that_share_an_expert_are_added_up(tiny: Model) -> None:
    """The weight of each pinned expert is the sum of those that it stands for."""
    pinned, layer = (2, 9, 11), 3
    experts = PinnedExperts(weights_of(tiny), 3)
    experts.pin([pinned] * LAYERS)
    rng = np.random.default_rng(0)
    x = mx.array(rng.standard_normal((5, 32)), mx.float32)
    ids = np.stack([rng.permutation(EXPERTS)[:4] for _ in range(5)])
    weights = rng.random((5, 4)).astype(np.float32)
    found = experts.mix(layer, x, mx.array(ids.astype(np.uint32)), mx.array(weights))
    stands = substitutes(weights_of(tiny).distances(layer), pinned)[ids]
    summed = np.stack([(weights * (stands == p)).sum(axis=1) for p in pinned], axis=1)
    chosen = mx.array(np.tile(np.array(pinned, np.uint32), (5, 1)))
    whole = weights_of(tiny).experts(layer)
    want = mix_experts(x, chosen, mx.array(summed.astype(np.float32)), *whole)
    assert_close("mixed", found, want, rel=1e-5)
    assert len({*stands.ravel().tolist()}) == 3


def test_with_every_expert_pinned_it_is_the_target(even: Model) -> None:
    for model in (
        even,
        load(even.checkpoint.path, experts=Streaming(slots=EXPERTS)),
    ):
        drafter = SpecMoe(EXPERTS, depth=5)
        ids = prompt(even, START)
        beside(model, drafter, ids)
        want = greedy(after(even, ids[:-1]), ids[-1], 5)
        draft = drafter.propose(7)
        assert list(draft.tokens) == want
        reply = Session(model, drafter=SpecMoe(EXPERTS)).reply(ids, max_new=11)
        assert reply.offered == reply.accepted > 0


def test_few_experts_are_another_model(even: Model) -> None:
    ids = prompt(even, START)
    texts = set()
    for count in (1, 3, EXPERTS):
        drafter = SpecMoe(count, depth=7)
        beside(even, drafter, ids)
        texts.add(drafter.propose(7).tokens)
    assert len(texts) == 3


def test_the_more_are_pinned_the_nearer_it_is(even: Model) -> None:
    """The shape of the published table: drafts get better with N, up to the target."""
    ids = prompt(even, START + 8)
    errors = {}
    for count in (1, 4, 8, EXPERTS):
        drafter = SpecMoe(count)
        beside(even, drafter, ids[: START + 1])
        engine: Any = drafter._engine
        beside_it: Any = drafter._beside
        apart = []
        for token in ids[START:]:
            with beside_it.ready(drafter.pins.pinned):  # type: ignore[union-attr]
                drafted = engine.draft(1, root=token, by=beside_it)
            window = engine.run([token])
            engine.finish(window, stop_ids=())
            apart.append(np.abs(drafted.logits[0] - window.logits[0]).mean())
            engine.commit(window)
        errors[count] = float(np.mean(apart))
    assert errors[1] > errors[4] > errors[8] > errors[EXPERTS] == 0


def test_no_expert_is_fetched_while_it_drafts(
    slots: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned ones may be read before; none is asked for by a row."""
    pool = slots.pool
    assert pool is not None
    ids = prompt(slots, START)
    pins = HotTemporal(3)
    drafter = SpecMoe(pins)
    engine = beside(slots, drafter, ids)
    taken: list[Any] = []
    read: list[int] = []
    take = SlotPool.take

    def told(self: Any, layer: int, wanted: Any, **how: Any) -> Any:
        taken.append((layer, tuple(wanted)))
        return take(self, layer, wanted, **how)

    monkeypatch.setattr(SlotPool, "take", told)
    seen = drafter._seen

    def counted(scores: Any) -> None:
        seen(scores)
        read.append(pool.counters.total.bytes_read)
        assert [pool.counts(i).pinned for i in range(LAYERS)] == [3] * LAYERS

    drafter._seen = counted  # type: ignore[method-assign]
    assert len(drafter.propose(4).tokens) == 4
    assert taken == [(layer, pins.pinned(layer)) for layer in range(LAYERS)]
    assert len({*read}) == 1
    # The last window of the prompt says which they are.
    uses = np.bincount(engine.trace[-1].layers[5].expert_ids.ravel(), minlength=16)
    assert pins.pinned(5) == tuple(np.argsort(-uses, kind="stable")[:3].tolist())


def test_pinned_experts_are_hits_of_the_windows_that_follow(even: Model) -> None:
    """As residency too: they stay, as long as others are there to go."""
    pins = HotTemporal(4, by="decay", decay=0.9)
    model = load(even.checkpoint.path, experts=Streaming(slots=8, residency=pins))
    assert model.pool is not None
    drafter = SpecMoe(pins)
    engine = beside(model, drafter, prompt(even, START))
    drafter.propose(3)
    for number in range(6):
        pinned = [{*pins.pinned(layer)} for layer in range(LAYERS)]
        window = engine.run([number])
        engine.finish(window, stop_ids=())
        engine.commit(window)
        for layer, made in enumerate(window.layers):
            wanted = {*made.expert_ids.ravel().tolist()}
            assert made.measured["resident"] >= len(wanted & pinned[layer])
            # What was taken to draft with is nothing that the window asked for.
            asked = [made.measured[n] for n in ("resident", "miss", "late")]
            assert sum(asked) == len(wanted)
            assert pinned[layer] <= model.pool.resident(layer)
        # It learns, and takes nothing: an LRU would have let some go.
        drafter.propose(0)


# ------------------------------------------------------------------ what is pinned


def record(*layers: Any) -> Any:
    made = tuple(
        LayerRecord.from_decisions(number, np.array(ids), 1)
        for number, ids in enumerate(layers)
    )
    return WindowRecord(
        position=0,
        inputs=tuple(range(len(layers[0]))),
        keep=1,
        headless=True,
        layers=made,
    )


def test_the_hottest_of_recent_windows_are_pinned() -> None:
    pins = HotTemporal(2)
    assert pins.pinned(0) == (0, 1)
    pins.learn(record([[5, 7], [7, 3], [7, 5]], [[1, -1], [-1, -1], [4, 1]]))
    assert pins.pinned(0) == (7, 5)
    assert pins.pinned(1) == (1, 4)
    # Fewer than two were used: the lowest of the others. Nothing is said of layer 1.
    pins.learn(record([[9, -1]]))
    assert pins.pinned(0) == (9, 0)
    assert pins.pinned(1) == (0, 1)
    # Of equals the lowest number.
    pins.learn(record([[6, 2], [9, 3]]))
    assert pins.pinned(0) == (2, 3)


def test_how_recent_is_a_switch() -> None:
    hot = [record([[1, 2], [1, 2], [1, 2]]), record([[3, 4]]), record([[3, 5]])]
    found = {}
    for name, pins in {
        "last": HotTemporal(2),
        "two": HotTemporal(2, windows=2),
        "three": HotTemporal(2, windows=3),
        "slow": HotTemporal(2, by="decay", decay=0.9),
        "fast": HotTemporal(2, by="decay", decay=0.5),
        "none": HotTemporal(2, by="decay", decay=0.0),
    }.items():
        for one in hot:
            pins.learn(one)
        found[name] = pins.pinned(0)
    # Decay 0.9: 1 and 2 weigh 2.43, 3 has 1.9. Decay 0.5: 0.75, and 3 has 1.5, 5 has 1.
    assert found == {
        "last": (3, 5),
        "two": (3, 4),
        "three": (1, 2),
        "slow": (1, 2),
        "fast": (3, 5),
        "none": (3, 5),
    }
    assert HotTemporal(2, windows=3).name == "hot(2, last 3)"
    assert HotTemporal(2, by="decay", decay=0.9).name == "hot(2, decay 0.9)"


def test_pins_learn_each_window_once(even: Model) -> None:
    """Whoever asks how often; of a request that was undone what was run again."""
    drafter = SpecMoe(3)
    learnt: list[Any] = []
    assert drafter.pins is not None
    drafter.pins.learn = learnt.append  # type: ignore[assignment,method-assign]
    engine = beside(even, drafter, prompt(even, START))
    for _ in range(2):
        drafter.propose(2)
    assert learnt == [engine.trace[0]]
    for _ in range(2):
        window = engine.run([3, 4])
        engine.finish(window, stop_ids=())
        engine.commit(window)
    drafter.propose(0)
    assert learnt == [*engine.trace]
    engine.trace.truncate(1)
    drafter.propose(1)
    assert len(learnt) == 3
    window = engine.run([5])
    engine.finish(window, stop_ids=())
    engine.commit(window)
    drafter.propose(1)
    assert learnt[3:] == [engine.trace[1]]
