"""Which experts are read ahead: guesses, their order, and where they end."""

from typing import Any

import numpy as np
import pytest

from helpers import assert_same, prompt
from strata_nb import Model, Trace, WindowRecord, load
from strata_nb.experts import Streaming
from strata_nb.experts.pool import SlotPool
from strata_nb.policies import (
    NO_PREFETCH,
    Ahead,
    CutOff,
    History,
    Now,
    Prefetch,
    cutoff_layers,
    load_ms,
    recorded,
)
from strata_nb.policies.prefetch import by_demand, merged
from strata_nb.trace import LayerRecord

SHARES = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.4, 0.1, 0.4]])


def now(
    *, layer: int = 0, layers: int = 8, experts: int = 16, chosen: Any = ((0, 1),)
) -> Now:
    return Now(layer, layers, experts, np.array(chosen, np.uint32), {})


def ran(model: Model) -> Trace:
    """A prompt and some windows of it, as they are recorded."""
    engine = model.engine()
    engine.prefill(prompt(model, 30, seed=1))
    for number in range(6):
        window = engine.run(prompt(model, 1 + number % 3, seed=number))
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=1, force=True)
    return engine.trace


def traced(*layers: Any) -> Trace:
    """One window with these experts a layer, [T, K] each."""
    records = [
        LayerRecord.from_decisions(number, np.array(ids), keep=1)
        for number, ids in enumerate(layers)
    ]
    inputs = tuple(range(len(layers[0])))
    return Trace(
        [
            WindowRecord(
                position=0, inputs=inputs, keep=1, headless=True, layers=tuple(records)
            )
        ]
    )


# ------------------------------------------------------------------ routers asked


def test_demand_is_merged_over_rows_strongest_first() -> None:
    scores = np.log(SHARES)
    assert merged(scores, top_k=2) == [1, 0, 3]
    assert merged(scores[:1], top_k=2) == [0, 1]
    assert by_demand(SHARES, top_k=1) == [0, 1]
    assert by_demand(np.zeros((2, 4)), top_k=2) == []


def test_the_next_layers_are_asked_and_none_behind_the_last() -> None:
    assert list(Ahead(2).asks(5, layers=8)) == [6, 7]
    assert list(Ahead(2).asks(7, layers=8)) == []
    assert list(NO_PREFETCH.asks(0, layers=8)) == []
    with pytest.raises(ValueError, match="1 or more layers"):
        Ahead(0)


def test_what_the_routers_say_is_read_the_nearest_layer_first() -> None:
    scores = {6: np.log(SHARES), 7: np.log(SHARES[::-1])}
    seen = Now(5, 8, 4, np.array([[0, 1], [2, 3]]), scores)
    assert Ahead(2).tasks(seen) == [(6, [1, 0, 3]), (7, [1, 0, 3])]
    assert Ahead(2, root_only=True).tasks(seen) == [(6, [0, 1]), (7, [1, 3])]
    assert NO_PREFETCH.tasks(seen) == ()


# ------------------------------------------------------------------ recorded history


def test_history_says_what_mostly_came_after_these_experts(tiny: Model) -> None:
    """Counted a second time, row by row."""
    trace, config = ran(tiny), tiny.config
    history = recorded(trace, config)
    for layer in range(config.num_hidden_layers - 1):
        wanted = np.zeros((config.num_experts, config.num_experts))
        for expert in range(config.num_experts):
            after = [
                next_ids
                for record in trace
                for ids, next_ids in zip(
                    record.layers[layer].expert_ids.tolist(),
                    record.layers[layer + 1].expert_ids.tolist(),
                    strict=True,
                )
                if expert in ids
            ]
            for ids in after:
                wanted[expert, ids] += 1 / len(after)
        np.testing.assert_allclose(history.shares[layer], wanted, atol=1e-6)


def test_history_is_merged_over_rows_as_routers_are(tiny: Model) -> None:
    trace = traced([[0, 1], [0, 2], [3, 2]], *[[[4, 5], [4, 6], [7, 8]]] * 7)
    history = recorded(trace, tiny.config)
    # After 0 came 4 twice of two, 5 and 6 once; after 1, 4 and 5.
    assert history.tasks(now(chosen=[[0, 1]])) == [(1, [4, 5])]
    assert history.tasks(now(chosen=[[0, 1], [3, 3]])) == [(1, [4, 5, 7, 8])]
    root = recorded(trace, tiny.config, root_only=True)
    assert root.tasks(now(chosen=[[0, 1], [3, 3]])) == [(1, [4, 5])]
    assert root.name == "root history"
    # Never seen; the last layer; nobody's router.
    assert history.tasks(now(chosen=[[9, 10]])) == [(1, [])]
    assert history.tasks(now(layer=7)) == ()
    assert list(history.asks(0, layers=8)) == []


def test_unused_choices_are_no_history(tiny: Model) -> None:
    history = recorded(traced(*[[[2, 3, -1], [-1, -1, -1]]] * 8), tiny.config)
    assert np.flatnonzero(history.shares[0].sum(axis=1)).tolist() == [2, 3]
    assert history.tasks(now(chosen=[[2, 2]])) == [(1, [2, 3])]


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([[[0]]] * 7, "experts in 7 layers, this model in layers 0 to 7"),
        ([[[0]]] * 9, "experts in 9 layers"),
        ([*[[[0]]] * 7, [[16]]], "layer 7 of `trace` .* up to number 16"),
        ([[[0, 1, 2, 3, 4]]] * 8, "5 experts a row .* 4 of 16"),
    ],
)
def test_a_trace_of_another_model_is_refused(
    tiny: Model, layers: Any, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        recorded(traced(*layers), tiny.config)


def test_no_history_is_refused(tiny: Model) -> None:
    with pytest.raises(ValueError, match="no windows"):
        recorded(Trace(), tiny.config)
    bare = WindowRecord(position=0, inputs=(1,), keep=1, headless=True)
    with pytest.raises(ValueError, match="experts in 0 layers"):
        recorded([bare], tiny.config)


def test_a_history_of_another_model_is_refused_by_the_first_window(
    tiny: Model,
) -> None:
    history = History(np.zeros((3, 16, 16), np.float32))
    with pytest.raises(ValueError, match=r"4 layers with 16 .* has 8 with 16"):
        history.tasks(now())
    model = load(tiny.checkpoint.path, experts=Streaming(slots=4, prefetch=history))
    engine = model.engine()
    with pytest.raises(ValueError, match="record a trace of it"):
        engine.run([1, 2])
    assert engine.window is None


# ------------------------------------------------------------------ the cut-off


@pytest.mark.parametrize(
    ("hidden_ms", "expert_ms", "per_layer", "wanted"),
    [
        (30, 0.79, 8, 4),
        (30, 0.79, 6, 6),
        (30, 9.4, 2, 1),
        (0, 1, 1, 0),
        (1e9, 1, 1, 48),
        # Whole on paper, below it in floats.
        (0.3, 0.1, 1, 3),
        (0.3, 0.1, 0.5, 6),
    ],
)
def test_layers_whose_reads_are_hidden(
    hidden_ms: float, expert_ms: float, per_layer: float, wanted: int
) -> None:
    """The first three are worked numbers of the formula."""
    given: dict[str, Any] = {
        "hidden_ms": hidden_ms,
        "expert_ms": expert_ms,
        "per_layer": per_layer,
    }
    assert cutoff_layers(**given, layers=48) == wanted


def test_memory_bounds_them_whatever_time_says() -> None:
    given: dict[str, Any] = {"expert_ms": 0.79, "per_layer": 8, "layers": 48}
    room = {"free_bytes": 20 * 157, "expert_bytes": 157}
    assert cutoff_layers(hidden_ms=30, **given, **room) == 2
    assert cutoff_layers(hidden_ms=1e6, **given, **room) == 2
    assert cutoff_layers(hidden_ms=7, **given, **room) == 1
    with pytest.raises(ValueError, match="go together"):
        cutoff_layers(hidden_ms=30, **given, free_bytes=5)


def test_time_of_one_expert() -> None:
    """157.3 MB: 9.8 ms at 16 GB/s, 4.9 at 32."""
    nbytes = 6400 * 4096 * 3 * 2
    assert load_ms(nbytes, mb_per_s=16_000) == pytest.approx(9.83, abs=0.005)
    assert load_ms(nbytes, mb_per_s=32_000) == pytest.approx(4.915, abs=0.005)
    assert load_ms(0, mb_per_s=1, overhead_ms=0.5) == 0.5


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"hidden_ms": -1}, "`hidden_ms` is -1, wanted 0 or more"),
        ({"hidden_ms": float("nan")}, "`hidden_ms` is nan"),
        ({"expert_ms": 0}, "`expert_ms` is 0, wanted more than 0"),
        ({"per_layer": 0}, "`per_layer` is 0"),
        ({"layers": -1}, "`layers` is -1"),
        ({"free_bytes": -1, "expert_bytes": 1}, "`free_bytes` is -1"),
        ({"free_bytes": 1, "expert_bytes": 0}, "`expert_bytes` is 0"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any], why: str) -> None:
    fine: dict[str, Any] = {"hidden_ms": 1, "expert_ms": 1, "per_layer": 1, "layers": 1}
    with pytest.raises(ValueError, match=why):
        cutoff_layers(**(fine | wrong))
    with pytest.raises(ValueError, match="`mb_per_s` is 0"):
        load_ms(1, mb_per_s=0)


def test_nothing_is_read_past_the_cut_off() -> None:
    cut = CutOff(3, within=Ahead(4))
    assert list(cut.asks(0, layers=8)) == [1, 2]
    assert list(cut.asks(2, layers=8)) == []
    assert cut.name == "ahead 4, cut off after 3"
    history = History(np.ones((7, 16, 16), np.float32))
    assert [n for n, _ in CutOff(3, within=history).tasks(now(layer=1))] == [2]
    assert CutOff(3, within=history).tasks(now(layer=2)) == []
    with pytest.raises(ValueError, match="`layers` is -1"):
        CutOff(-1)


# ------------------------------------------------------------------ in an engine


@pytest.mark.parametrize("kind", ["history", "root history", "cut off", "all wrong"])
def test_no_prefetch_changes_a_bit(tiny: Model, kind: str) -> None:
    trace = ran(tiny)
    wrong = History(np.eye(16, dtype=np.float32)[None].repeat(7, axis=0)[:, ::-1])
    policies: dict[str, Prefetch] = {
        "history": recorded(trace, tiny.config),
        "root history": recorded(trace, tiny.config, root_only=True),
        "cut off": CutOff(4, within=Ahead(2)),
        "all wrong": wrong,
    }
    how = Streaming(slots=6, prefetch=policies[kind])
    model = load(tiny.checkpoint.path, experts=how)
    engine, alone = model.engine(), tiny.engine()
    for either in (engine, alone):
        either.prefill(prompt(tiny, 30, seed=1))
    for number in range(8):
        ids = prompt(tiny, number + 1, seed=number)
        found = []
        for either in (engine, alone):
            window = either.run(ids)
            either.finish(window, stop_ids=())
            found.append(window.logits)
            either.commit(window, keep=1 + number // 2, force=True)
        np.testing.assert_array_equal(found[0], found[1])
    assert_same(engine, alone)
    read = [one.prefetched or 0 for record in engine.trace for one in record.layers]
    by_layer = np.reshape(read, (-1, 8)).sum(axis=0)
    last = 4 if kind == "cut off" else 8
    assert by_layer[0] == 0
    assert (by_layer[1:last] > 0).all()
    assert (by_layer[last:] == 0).all()


@pytest.mark.parametrize("slots", [2, 16])
def test_guesses_are_queued_behind_what_a_layer_needs(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    """Also where its experts are taken in several groups."""
    calls: list[tuple[str, int]] = []
    for name in ("take", "hint"):
        whole = getattr(SlotPool, name)

        def told(
            self: Any, layer: int, *args: Any, name: str = name, whole: Any = whole
        ) -> Any:
            calls.append((name, layer))
            return whole(self, layer, *args)

        monkeypatch.setattr(SlotPool, name, told)
    model = load(tiny.checkpoint.path, experts=Streaming(slots=slots, prefetch=Ahead()))
    model.engine().run([3, 4, 5])
    for layer in range(7):
        last = max(i for i, call in enumerate(calls) if call == ("take", layer))
        assert calls[last + 1] == ("hint", layer + 1)
    assert (calls.count(("take", 3)) > 1) == (slots == 2)
    assert sum(name == "hint" for name, _ in calls) == 7
