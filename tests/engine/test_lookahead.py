"""What drafted rows foretell: the buffer, what is read for it, and what goes."""

import math
from typing import Any

import numpy as np
import pytest

from helpers import after, assert_same, prompt
from self_drafts import beside, even_model
from strata_nb import Model, load
from strata_nb.draft import MoeSpeq, SelfDrafter, SpecMoe
from strata_nb.experts import Streaming
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.slots import Layer
from strata_nb.policies import (
    Farthest,
    FromDraft,
    HotTemporal,
    Lookahead,
    Phases,
    SpMoe,
    cutoff_layers,
    reduced,
)
from strata_nb.policies.residency import Held

LAYERS, K = 8, 4
ROWS = np.log(
    np.array(
        [
            [[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]],
            [[0.1, 0.5, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]],
            [[0.3, 0.1, 0.1, 0.5], [0.7, 0.1, 0.1, 0.1]],
        ]
    )
)
"""Router logits of three rows: two layers of four experts, of which a row uses two."""


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return even_model(tmp_path_factory.mktemp("even"))


def buffer(rows: int = 3) -> Lookahead:
    made = Lookahead()
    made.begin(2)
    for row in ROWS[:rows]:
        made.add(row)
    return made


# ------------------------------------------------------------------ the buffer


def test_it_holds_experts_and_confidences_of_each_row_and_layer() -> None:
    seen = buffer()
    assert (seen.rows, seen.layers, seen.top_k) == (3, 2, 2)
    wanted = [[[0, 1], [3, 2]], [[1, 2], [0, 1]], [[3, 0], [0, 1]]]
    assert seen.ids.tolist() == wanted
    shares = [
        [[0.5, 0.3], [0.4, 0.3]],
        [[0.5, 0.3], [0.25] * 2],
        [[0.5, 0.3], [0.7, 0.1]],
    ]
    np.testing.assert_allclose(seen.confidences, shares, rtol=1e-12)
    assert [seen.first_use(0, e) for e in range(4)] == [0, 0, 1, 2]
    assert [seen.first_use(1, e) for e in range(5)] == [1, 1, 0, 0, math.inf]
    assert seen.first_use(2, 0) == math.inf


def test_a_draft_begins_with_an_empty_one() -> None:
    seen = buffer()
    seen.begin(3)
    assert (seen.rows, seen.layers, seen.top_k) == (0, 0, 3)
    assert seen.first_use(0, 0) == math.inf
    assert seen.ids.shape == (0, 0, 0)
    assert seen.confidences.shape == (0, 0, 3)
    seen.add(np.zeros((5, 6)))
    assert seen.ids.tolist() == [[[0, 1, 2]] * 5]
    with pytest.raises(ValueError, match=r"got shape \(5, 7\) after \(5, 6\)"):
        seen.add(np.zeros((5, 7)))
    with pytest.raises(ValueError, match=r"router logits \[L, E\]"):
        Lookahead().add(np.zeros(5))


@pytest.mark.parametrize("kind", ["few", "low bits"])
def test_a_drafter_fills_it_with_what_its_routers_say(even: Model, kind: str) -> None:
    """A row a token: the root's is the target's own in the first layer."""
    drafter: SelfDrafter = SpecMoe(3) if kind == "few" else MoeSpeq()
    ids = prompt(even, 27)
    engine = beside(even, drafter, ids)
    draft = drafter.propose(3)
    seen = drafter.buffer
    assert seen.scores.shape == (3, LAYERS, 16)
    assert seen.ids.shape == (3, LAYERS, K)
    window = engine.run([ids[-1], *draft.tokens])
    for row in range(3):
        first = window.layers[0].router_logits
        assert first is not None
        if row == 0:
            np.testing.assert_array_equal(seen.scores[0, 0], first[0])
    hit = [
        len({*seen.ids[row, layer].tolist()} & {*made.expert_ids[row].tolist()})
        for layer, made in enumerate(window.layers)
        for row in range(3)
    ]
    # By chance a row of 4 of 16 would meet one of its four.
    assert np.mean(hit) > (3 if kind == "low bits" else 1.5)
    drafter.propose(0)
    assert drafter.buffer.rows == 0


# ------------------------------------------------------------------ what is read


def test_rows_are_merged_by_union_or_by_the_largest() -> None:
    rows = ROWS[:2, 0]
    # Shares 0.5, 0.8, 0.3 of those that a row names; the largest 0.5, 0.5, 0.3.
    assert reduced(rows, top_k=2, reduce="union") == [1, 0, 2]
    assert reduced(rows, top_k=2, reduce="max") == [0, 1]
    assert reduced(rows[:1], top_k=2, reduce="max") == [0, 1]
    assert reduced(rows, top_k=1, reduce="union") == [0, 1]
    assert reduced(rows, top_k=1, reduce="max") == [0]


def test_sp_moe_reads_ahead_up_to_the_cut_off() -> None:
    assert SpMoe(9).during(buffer(1)) == [(0, [0, 1]), (1, [3, 2])]
    assert SpMoe(1).during(buffer(2)) == [(0, [1, 0, 2])]
    assert SpMoe(1, reduce="max").during(buffer(2)) == [(0, [0, 1])]
    assert SpMoe(1, top_k=1).during(buffer(2)) == [(0, [0, 1])]
    assert SpMoe(0).during(buffer()) == []
    assert SpMoe(9).at_end(buffer()) == ()
    assert SpMoe(9).during(Lookahead()) == []
    assert SpMoe(2, "max", 3).name == "sp-moe(2 layers, max, top 3)"


def test_the_phases_of_moe_speq() -> None:
    """Nothing behind the first row, then what is sure, at the end all of it."""
    phases = Phases(priming=1, confidence=0.29)
    assert phases.during(buffer(1)) == ()
    assert phases.during(buffer(2)) == [(0, [1, 2]), (1, [])]
    assert phases.during(buffer(3)) == [(0, [3, 0]), (1, [0])]
    assert phases.at_end(buffer(2)) == [(0, [1, 0, 2]), (1, [3, 2, 0, 1])]
    assert Phases(priming=0, confidence=0.35).during(buffer(1)) == [(0, [0]), (1, [3])]
    assert Phases(priming=3).during(buffer(3)) == ()
    assert Phases(2, 0.25).name == "phases(priming 2, confidence 0.25)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpMoe(-1), "`layers` is -1, wanted 0 or more"),
        (lambda: SpMoe(1, reduce="sum"), "'sum', wanted 'union' or 'max'"),  # type: ignore[arg-type]
        (lambda: SpMoe(1, top_k=0), "`top_k` is 0, wanted 1 or more"),
        (lambda: Phases(priming=-1), "`priming` is -1, wanted 0 or more"),
        (lambda: Phases(confidence=1.5), "`confidence` is 1.5, wanted 0 to 1"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# ------------------------------------------------------------------ what goes


def gone(seen: Lookahead, *held: tuple[int, int], layer: int = 0) -> list[int]:
    """Experts, given with when they were last wanted, in the order they would go."""
    residency = Farthest(seen)
    made = [Held(expert, 0, touched, 1, 0, layer) for expert, touched in held]
    ranked = sorted((residency.worth(h, window=9), h.expert) for h in made)
    return [expert for _, expert in ranked]


def test_the_farthest_next_use_goes_first() -> None:
    """Of layer 0 the rows want 0 and 1, then 2, then 3; 5 and 6 nobody."""
    held = ((0, 3), (1, 1), (2, 9), (3, 9), (5, 8), (6, 7))
    assert gone(buffer(), *held) == [6, 5, 3, 2, 1, 0]
    assert gone(buffer(1), *held) == [6, 5, 2, 3, 1, 0]
    assert gone(buffer(), (0, 5), (2, 9), (3, 1), layer=1) == [0, 3, 2]
    # Without a draft it is LRU.
    assert gone(Lookahead(), *held) == [1, 0, 6, 5, 2, 3]


def test_a_layer_keeps_what_the_buffer_wants() -> None:
    """Three slots, and a fourth expert is asked for: LRU would let 1 go."""
    found = {}
    for name, seen in {"wanted": buffer(1), "empty": Lookahead()}.items():
        layer = Layer(3, Farthest(seen), number=0)
        for ticket, experts in enumerate(([1], [2], [3], [0]), 1):
            layer.want(ticket, experts, thread=0, window=1)
            while layer.urgent:
                expert = layer.urgent[0].expert
                layer.start(expert)
                layer.land(expert, 1)
            layer.release(ticket)
        found[name] = layer.resident()
    assert found == {"wanted": {0, 1, 3}, "empty": {0, 2, 3}}


# ------------------------------------------------------------------ in an engine


def test_reads_are_asked_for_while_it_drafts(
    even: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind each row but the last before the next is drafted; earlier layers first."""
    model = load(even.checkpoint.path, experts=Streaming(slots=8))
    drafter = SpecMoe(2, prefetch=SpMoe(3))
    ids = prompt(model, 27)
    beside(model, drafter, ids)
    calls: list[tuple[int, int]] = []
    hint = SlotPool.hint

    def told(self: Any, layer: int, experts: Any) -> None:
        calls.append((drafter.buffer.rows, layer))
        hint(self, layer, experts)

    monkeypatch.setattr(SlotPool, "hint", told)
    drafter.propose(3)
    assert calls == [(row, layer) for row in (1, 2, 3) for layer in range(3)]
    calls.clear()
    drafter.prefetch = Phases(priming=2)
    drafter.propose(3)
    assert calls == [(3, layer) for layer in [*range(LAYERS), *range(LAYERS)]]


@pytest.mark.parametrize("slots", [6, 12])
@pytest.mark.parametrize(
    "kind", ["sp-moe", "sp-moe, max", "phases, farthest", "few", "all wrong"]
)
def test_no_prediction_changes_a_bit(even: Model, kind: str, slots: int) -> None:
    """Executed experts are the natural ones, whatever was foretold, read or gone."""
    seen, pins = Lookahead(), HotTemporal(3)
    drafters: dict[str, Any] = {
        "sp-moe": (MoeSpeq(prefetch=SpMoe(5), buffer=seen), None),
        "sp-moe, max": (MoeSpeq(prefetch=SpMoe(5, "max"), buffer=seen), None),
        "phases, farthest": (MoeSpeq(prefetch=Phases(), buffer=seen), Farthest(seen)),
        "few": (SpecMoe(pins, prefetch=SpMoe(8)), pins),
        "all wrong": (MoeSpeq(prefetch=_Wrong(), buffer=seen), Farthest(seen)),
    }
    drafter, residency = drafters[kind]
    how = {} if residency is None else {"residency": residency}
    model = load(even.checkpoint.path, experts=Streaming(slots=slots, **how))
    assert model.pool is not None
    ids = prompt(model, 27)
    engine, alone = beside(model, drafter, ids), after(even, ids[:-1])
    root = ids[-1]
    for number in range(3):
        drafter.assign([root])
        draft = drafter.propose(3)
        rows = [root, *draft.tokens]
        window, other = engine.run(rows), alone.run(rows)
        for one in (window, other):
            one.owner.finish(one, stop_ids=())
        np.testing.assert_array_equal(window.logits, other.logits)
        for made in window.layers:
            scores = made.router_logits
            assert scores is not None
            natural = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            np.testing.assert_array_equal(made.expert_ids, natural)
        keep = 1 + number
        alone.commit(other, keep=keep, force=True)
        root = engine.commit(window, keep=keep, force=True).root or 0
        assert_same(engine, alone)
    assert model.pool.counters.total.prefetched > 0


class _Wrong:
    """Says what no row wants."""

    name = "wrong"

    def during(self, seen: Lookahead) -> list[Any]:
        worst = np.argsort(seen.scores[-1], axis=1)
        return [(layer, worst[layer, :4].tolist()) for layer in range(seen.layers)]

    def at_end(self, seen: Lookahead) -> tuple[()]:
        return ()


def test_what_was_foretold_is_there_when_it_is_wanted(even: Model) -> None:
    """With the drafter that is the target in 8 bits, and time for its reads."""
    counted = {}
    for name, prefetch in {"none": None, "sp-moe": SpMoe(LAYERS)}.items():
        model = load(even.checkpoint.path, experts=Streaming(slots=14))
        assert model.pool is not None
        made: FromDraft | None = prefetch
        drafter = MoeSpeq(kind="q8", prefetch=made)
        ids = prompt(model, 27)
        engine = beside(model, drafter, ids)
        draft = drafter.propose(3)
        while any(model.pool.counts(i).in_flight for i in range(LAYERS)):
            pass
        window = engine.run([ids[-1], *draft.tokens[:2]])
        counted[name] = sum(made.measured["miss"] for made in window.layers)
        # What was read for it is in its record, and in that of no other window.
        engine.finish(window)
        record = engine.commit(window).record
        ahead = [one.prefetched or 0 for one in record.layers]
        assert (sum(ahead) > 0) == (prefetch is not None)
        assert sum(ahead) == model.pool.counters.total.prefetched
        for one in record.layers:
            assert one.resident is not None
            assert one.resident + (one.miss or 0) + (one.late or 0) == one.union_size
        engine.run([3])
        assert sum(m.measured["prefetched"] for m in _layers(engine)) == 0
    assert counted["sp-moe"] < counted["none"] / 4, counted


def _layers(engine: Any) -> Any:
    return engine.window.layers


def test_the_cut_off_comes_from_the_time_of_drafting() -> None:
    """30 ms, 0.79 ms an expert: four layers of eight, six of six, one of two large."""
    time = {"hidden_ms": 30.0, "layers": 48}
    found = [
        SpMoe(cutoff_layers(expert_ms=ms, per_layer=k, **time)).layers  # type: ignore[arg-type]
        for ms, k in ((0.79, 8), (0.79, 6), (9.4, 2))
    ]
    assert found == [4, 6, 1]


def test_a_model_in_memory_reads_nothing(even: Model) -> None:
    drafter = MoeSpeq(prefetch=SpMoe(8))
    beside(even, drafter, prompt(even, 27))
    assert len(drafter.propose(3).tokens) == 3
    assert drafter.buffer.rows == 3


def test_a_buffer_is_shared_when_it_is_given() -> None:
    """The buffer is a drafter's own unless it is given one."""
    one, other = MoeSpeq(), MoeSpeq()
    assert one.buffer is not other.buffer
    shared = Lookahead()
    assert MoeSpeq(buffer=shared).buffer is shared
