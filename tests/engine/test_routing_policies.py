"""Routings in engines whose experts are in slots: bounds, records, and repetition."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from helpers import after, assert_same, greedy, prompt
from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.experts.streaming import Streaming
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.policies.accept_moe import AcceptMoe, committed_shares
from strata_nb.policies.hard_budget import HardBudget
from strata_nb.policies.moce import Moce
from strata_nb.policies.moe_spec import MoeSpec
from strata_nb.policies.routing import NATURAL, Routing
from strata_nb.trace import LayerDecisions
from strata_nb.window import Window

K, EXPERTS, LAYERS, START = 4, 16, 8, 21
PHAT = (1.0, 0.5, 0.2, 0.05)
POLICIES: tuple[Routing, ...] = (
    Moce(),
    Moce(2, 1.0, draft_protect=1, draft_bonus=4.0, rank_1_bonus=0.5),
    HardBudget(),
    HardBudget(1),
    MoeSpec(5),
    MoeSpec(5, "truncate"),
    AcceptMoe(PHAT),
    AcceptMoe(PHAT, protect_anchors=False),
)
ROWS = (3, 4, 5, 6)


@pytest.fixture(scope="module")
def slots(tiny: Model) -> Model:
    """TINY with room for 6 of 16 experts a layer."""
    assert tiny.config.num_experts_per_tok == K
    return load(tiny.checkpoint.path, experts=Streaming(slots=6))


@pytest.fixture(scope="module")
def start(tiny: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all windows here begin: a prompt of 21 tokens, naturally routed."""
    file = tmp_path_factory.mktemp("start") / "state"
    after(tiny, prompt(tiny, START)).save(file)
    return file


def at(
    start: Path,
    model: Model,
    routing: Routing = NATURAL,
    imposed: Imposed | None = None,
) -> Engine:
    engine = model.engine(routing=routing, imposed=imposed or Imposed())
    engine.restore(start)
    return engine


def ran(engine: Engine, ids: Sequence[int]) -> Window:
    window = engine.run(ids)
    engine.finish(window, stop_ids=())
    return window


def imposed(window: Window, *, rows: int) -> Imposed:
    """The experts that its first `rows` rows used."""
    return Imposed(
        {
            (layer, window.start + row): made.expert_ids[row]
            for layer, made in enumerate(window.layers)
            for row in range(rows)
        }
    )


def snapshot(window: Window) -> Imposed:
    """What was ready in a slot when it began."""
    return Imposed(
        resident={
            (layer, window.start): ready(made)
            for layer, made in enumerate(window.layers)
        }
    )


def ready(made: LayerDecisions) -> np.ndarray:
    assert made.resident_ids is not None
    return made.resident_ids


def used(made: LayerDecisions, rows: slice = slice(None)) -> set[int]:
    return {int(i) for i in made.expert_ids[rows].ravel()} - {-1}


@pytest.mark.parametrize("routing", POLICIES, ids=lambda routing: routing.name)
def test_a_window_repeats_to_the_bit(
    tiny: Model, slots: Model, start: Path, routing: Routing
) -> None:
    """A replay from the experts or the residents; a twin; and the record says so."""
    engine = at(start, slots, routing)
    window = ran(engine, ROWS)
    for given in (imposed(window, rows=4), snapshot(window)):
        for model in (tiny, slots):
            again = at(start, model, routing, given)
            replay = ran(again, ROWS)
            np.testing.assert_array_equal(replay.logits, window.logits)
            for one, other in zip(replay.layers, window.layers, strict=True):
                np.testing.assert_array_equal(one.expert_ids, other.expert_ids)
            again.commit(replay, keep=2, force=True)
    # Other rejected rows; through the set of experts they would reach the kept ones.
    twin = at(start, slots, routing, imposed(window, rows=2))
    other_window = ran(twin, (*ROWS[:2], 77, 78))
    np.testing.assert_array_equal(other_window.logits[:2], window.logits[:2])
    twin.commit(other_window, keep=2, force=True)
    record = engine.commit(window, keep=2, force=True).record
    for other_engine in (again, twin):
        assert_same(other_engine, engine)
    assert record.approximate == (routing.name,)
    assert "approximate" in routing.name
    assert not routing.lossless


@pytest.mark.parametrize("routing", POLICIES, ids=lambda routing: routing.name)
def test_it_is_another_model_and_a_root_alone_mostly_is_not(
    tiny: Model, slots: Model, start: Path, routing: Routing
) -> None:
    plain = ran(at(start, tiny), ROWS).logits
    assert (ran(at(start, slots, routing), ROWS).logits != plain).any()
    alone = ran(at(start, slots, routing), ROWS[:1]).logits
    if not isinstance(routing, Moce):
        np.testing.assert_array_equal(alone, ran(at(start, tiny), ROWS[:1]).logits)


@pytest.mark.parametrize(
    "routing",
    [
        Moce(),
        Moce(0, 20.0, draft_protect=0, draft_bonus=20.0),
        HardBudget(),
        MoeSpec(EXPERTS),
        MoeSpec(EXPERTS, "truncate"),
    ],
    ids=lambda routing: routing.name,
)
def test_with_everything_there_it_is_the_model(
    tiny: Model, start: Path, routing: Routing
) -> None:
    """All in memory, and all of them ready in slots."""
    model = load(tiny.checkpoint.path, experts=Streaming(slots=EXPERTS))
    pool = model._weights.streamed.pool  # type: ignore[union-attr]
    for layer in range(LAYERS):
        pool.release(pool.take(layer, range(EXPERTS)))
    plain = at(start, tiny)
    wanted = ran(plain, ROWS)
    plain.commit(wanted, keep=3, force=True)
    for one in (tiny, model):
        engine = at(start, one, routing)
        window = ran(engine, ROWS)
        np.testing.assert_array_equal(window.logits, wanted.logits)
        engine.commit(window, keep=3, force=True)
        assert_same(engine, plain)


def test_drafts_under_a_hard_budget_read_nothing_of_their_own(
    tiny: Model, slots: Model, start: Path
) -> None:
    """What the natural choice reads beside it shows that there was something to bound.

    Base MoCE protects three cold experts a row, so it reads for drafts as well.
    """
    beyond = {}
    for routing in (NATURAL, Moce(), HardBudget()):
        engine = at(start, slots, routing)
        found = []
        for seed in range(4):
            window = ran(engine, prompt(tiny, 4, seed=seed))
            for made in window.layers:
                there = {*ready(made).tolist()}
                of_drafts = used(made, slice(1, None)) - there
                found.append(len(of_drafts - used(made, slice(1))))
                if isinstance(routing, HardBudget):
                    assert len(of_drafts) <= K
                    assert made.measured["miss"] <= K
                    assert made.measured["late"] == 0
            engine.commit(window, keep=2, force=True)
        beyond[routing.name] = max(found)
    assert beyond.pop(HardBudget().name) == 0
    assert all(most > K for most in beyond.values()), beyond


def test_a_budget_of_experts_bounds_what_a_layer_uses(
    tiny: Model, slots: Model, start: Path
) -> None:
    """AcceptMoE sizes itself: what hardly comes to be committed hardly widens it."""
    sizes = {}
    steep = AcceptMoe((1.0, 0.5, 0.05, 0.005), beta=1)
    for routing in (NATURAL, MoeSpec(5), MoeSpec(5, "truncate"), steep):
        window = ran(at(start, slots, routing), prompt(tiny, 4, seed=7))
        sizes[routing.name] = [len(used(made)) for made in window.layers]
        for made, size in zip(window.layers, sizes[routing.name], strict=True):
            asked = [made.measured[n] for n in ("resident", "miss", "late")]
            assert sum(asked) == size
    natural, *others = (max(found) for found in sizes.values())
    assert natural > 8
    assert others[:2] == [5, 5]
    assert others[2] < natural, sizes


def test_chances_come_from_a_recorded_trace(tiny: Model) -> None:
    """Two right drafts and a wrong one, then one right and a wrong one."""
    ids = prompt(tiny, START)
    text = [5, *greedy(after(tiny, ids), 5, 8)]
    engine = after(tiny, ids)
    for rows in ((text[0], text[1], text[2], text[3] ^ 1), (text[3], text[4], 1)):
        window = ran(engine, rows)
        engine.commit(window)
    assert [r.accepted for r in engine.trace if not r.headless] == [2, 1]
    assert committed_shares(engine.trace) == (1, 1, 0.5, 0)


@pytest.mark.parametrize(
    ("routing", "message"),
    [
        (MoeSpec(3), "a row of this model uses 4 experts; wanted 4 or more"),
        (AcceptMoe((1.0, 0.5)), "4 rows, but `phat` ends with position 1"),
    ],
)
def test_what_does_not_go_with_a_window_leaves_the_engine_as_before(
    tiny: Model, start: Path, routing: Routing, message: str
) -> None:
    engine = at(start, tiny, routing)
    before = engine.digests()
    with pytest.raises(ValueError, match=message):
        engine.run(ROWS)
    assert engine.window is None
    assert engine.digests() == before
