"""The slot for routings: what one sees, what it may answer, and how a run repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from helpers import advance, after, assert_same, prompt
from strata_kernels.route import shares
from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.experts.streaming import Streaming
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.policies.routing import NATURAL, Chosen, Seen
from strata_nb.window import Window

START = 21


@dataclass(frozen=True)
class ResidentsFirst:
    """Experts in a slot before all others, and of each kind the strongest."""

    name: str = "residents first, approximate"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        ready = 0.0 if seen.resident is None else 1e3 * seen.resident
        return NATURAL.choose(logits + mx.array(ready), top_k=top_k, seen=seen)


@dataclass(frozen=True)
class Scribbling:
    """Writes into what it is shown."""

    name: str = "scribbling, approximate"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        assert seen.resident is not None
        seen.resident[:] = True
        return NATURAL.choose(logits, top_k=top_k, seen=seen)


@dataclass(frozen=True)
class Sparing:
    """Row t uses K - t experts, at least none."""

    name: str = "sparing, approximate"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        ids = NATURAL.choose(logits, top_k=top_k, seen=seen).recorded()
        spared = np.arange(top_k) >= top_k - np.arange(len(ids))[:, None]
        return Chosen.of_record(np.where(spared, -1, ids))


def ran(engine: Engine, ids: Sequence[int]) -> Window:
    window = engine.run(ids)
    engine.finish(window, stop_ids=())
    return window


def ids_of(window: Window) -> dict[tuple[int, int], np.ndarray]:
    """The experts of each row, as something to impose."""
    return {
        (layer, window.start + row): made.expert_ids[row]
        for layer, made in enumerate(window.layers)
        for row in range(window.T)
    }


def residents_of(window: Window) -> dict[tuple[int, int], np.ndarray]:
    """What was resident when the window began, as something to impose."""
    found = {}
    for layer, made in enumerate(window.layers):
        assert made.resident_ids is not None
        found[layer, window.start] = made.resident_ids
    return found


def test_a_window_keeps_the_residents_of_its_beginning(tiny: Model) -> None:
    model = load(tiny.checkpoint.path, experts=Streaming(slots=5))
    engine = after(model, prompt(model, START))
    pool = model._weights.streamed.pool  # type: ignore[union-attr]
    before = pool.snapshot()
    window = engine.run([3, 4, 5])
    assert pool.snapshot() != before
    other = after(model, prompt(model, 9, seed=4)).fork()
    advance(other, [7, 8])
    for made, ready in zip(window.layers, before, strict=True):
        assert made.resident_ids is not None
        assert made.resident_ids.tolist() == sorted(ready)
    assert all(made.resident_ids is None for made in tiny.engine().run([3]).layers)


def test_a_run_repeats_from_what_it_recorded(tiny: Model) -> None:
    """With the residents it saw, or the experts it chose, in memory and in slots."""
    model = load(tiny.checkpoint.path, experts=Streaming(slots=5))
    routing = ResidentsFirst()
    ids = prompt(model, START)
    engine = model.engine(routing=routing)
    seen = prefilled(engine, ids)
    window = ran(engine, [3, 4, 5, 6])
    natural = after(tiny, ids)
    assert (window.logits != ran(natural, [3, 4, 5, 6]).logits).any()
    resident = {**residents_of(seen), **residents_of(window)}
    experts = {**ids_of(seen), **ids_of(window)}
    for again in (
        tiny.engine(routing=routing, imposed=Imposed(resident=resident)),
        tiny.engine(routing=routing, imposed=Imposed(experts)),
        tiny.engine(imposed=Imposed(experts)),
        model.engine(imposed=Imposed(experts)),
        model.engine(routing=routing, imposed=Imposed(resident=resident)),
    ):
        prefilled(again, ids)
        replay = ran(again, [3, 4, 5, 6])
        np.testing.assert_array_equal(replay.logits, window.logits)
        again.commit(replay, keep=2, force=True)
    engine.commit(window, keep=2, force=True)
    assert_same(again, engine)


def prefilled(engine: Engine, ids: Sequence[int]) -> Window:
    """A prompt in one headless window, which is handed out."""
    window = engine.run(ids, head=False)
    engine.finish(window)
    engine.commit(window)
    return window


def test_a_fork_and_another_engine_do_not_change_what_a_window_sees(
    tiny: Model, tmp_path: Path
) -> None:
    """Whatever runs between two windows, a window given its snapshot is the same."""
    model = load(tiny.checkpoint.path, experts=Streaming(slots=4))
    routing = ResidentsFirst()
    base = after(model, prompt(model, START), routing=routing)
    one = base.fork()
    window, file = ran(one, [9, 8, 7]), tmp_path / "base"
    advance(after(model, prompt(model, 12, seed=3)), [1, 2])
    snapshot = Imposed(resident=residents_of(window))
    other = residents_of(ran(base.fork(), [9, 8, 7]))
    assert any(not np.array_equal(other[p], r) for p, r in snapshot.resident.items())
    again = model.engine(routing=routing, imposed=snapshot)
    base.save(file)
    again.restore(file)
    np.testing.assert_array_equal(ran(again, [9, 8, 7]).logits, window.logits)


def test_a_routing_cannot_change_what_is_recorded(tiny: Model) -> None:
    model = load(tiny.checkpoint.path, experts=Streaming(slots=4))
    with pytest.raises(ValueError, match="read-only"):
        model.engine(routing=Scribbling()).run([3])
    imposed = Imposed(resident={(0, 0): np.array([1, 2])})
    with pytest.raises(ValueError, match="read-only"):
        tiny.engine(routing=Scribbling(), imposed=imposed).run([3])
    assert imposed.resident[0, 0].tolist() == [1, 2]


@pytest.mark.parametrize("slots", [None, 1, 3, 16])
def test_a_place_that_is_not_used_is_not_read(tiny: Model, slots: int | None) -> None:
    """Rows of 4, 3, 2, 1 and no experts: recorded with -1, the same bits in slots."""
    model = tiny
    if slots is not None:
        model = load(tiny.checkpoint.path, experts=Streaming(slots=slots))
    ids = prompt(tiny, START)
    engine = model.engine(routing=Sparing())
    engine.prefill(ids, chunk=1)
    whole = tiny.engine(routing=Sparing())
    whole.prefill(ids, chunk=1)
    rows = [3, 4, 5, 6, 7, 8]
    window, wanted = ran(engine, rows), ran(whole, rows)
    np.testing.assert_array_equal(window.logits, wanted.logits)
    for made in window.layers:
        assert (made.expert_ids >= 0).sum(axis=1).tolist() == [4, 3, 2, 1, 0, 0]
        union = len({*made.expert_ids.ravel().tolist()} - {-1})
        asked = [made.measured.get(n, 0) for n in ("resident", "miss", "late")]
        assert sum(asked) == (union if slots is not None else 0)
    record = engine.commit(window, keep=6, force=True).record
    assert record.approximate == ("sparing, approximate",)
    again = model.engine(routing=Sparing(), imposed=Imposed(ids_of(window)))
    again.prefill(ids, chunk=1)
    np.testing.assert_array_equal(ran(again, rows).logits, window.logits)


@dataclass(frozen=True)
class Nothing:
    """No expert at all."""

    name: str = "nothing, approximate"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        return Chosen.of_record(np.full((len(logits), top_k), -1))


def test_rows_may_use_no_expert_at_all(tiny: Model) -> None:
    model = load(tiny.checkpoint.path, experts=Streaming(slots=2))
    engines = [after(m, [1, 2, 3], routing=Nothing()) for m in (tiny, model)]
    whole, few = (ran(engine, [4, 5]) for engine in engines)
    np.testing.assert_array_equal(whole.logits, few.logits)
    assert np.isfinite(whole.logits).all()
    assert sum(made.measured["bytes_read"] for made in few.layers) == 0


def test_weights_are_the_natural_ones_without_those_not_used() -> None:
    logits = mx.log(mx.array([[0.4, 0.3, 0.2, 0.1]] * 2))
    ids = mx.array(np.array([[0, 2, 0], [3, 3, 3]], np.uint32))
    used = mx.array([[True, True, False], [False, False, False]])
    found = shares(logits, ids, renormalise=True, used=used)
    np.testing.assert_allclose(found[0], [2 / 3, 1 / 3, 0], rtol=1e-6)
    assert np.array(found[1]).tolist() == [0, 0, 0]
    found = shares(logits, ids, renormalise=False, used=used)
    np.testing.assert_allclose(found[0], [0.4, 0.2, 0], rtol=1e-6)
    broken = shares(logits * float("nan"), ids, renormalise=True, used=used)
    assert np.isnan(np.array(broken)).all()


def test_a_record_is_what_was_chosen() -> None:
    record = np.array([[3, 1, -1], [2, -1, -1], [-1, -1, -1]])
    chosen = Chosen.of_record(record)
    assert np.array(chosen.ids).tolist() == [[3, 1, 3], [2, 2, 2], [0, 0, 0]]
    np.testing.assert_array_equal(chosen.recorded(), record)
    assert chosen.busy_rows().tolist() == [0, 1]
    assert Chosen(chosen.ids).busy_rows().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "used"),
    [([[1, 2]], [[False, True]]), ([[1, 2]], [[True, False]])],
)
def test_unused_places_elsewhere_are_refused(
    ids: list[list[int]], used: list[list[bool]]
) -> None:
    chosen = Chosen(mx.array(np.array(ids, np.uint32)), mx.array(used))
    with pytest.raises(ValueError, match="wanted unused places behind the used ones"):
        chosen.busy_rows()


def test_what_is_imposed_is_checked(tiny: Model) -> None:
    ids = prompt(tiny, START)
    for wrong in ([0, 0], [16], [-1], [0.5]):
        imposed = Imposed(resident={(2, START): np.array(wrong)})
        with pytest.raises(ValueError, match="layer 2, cell 21"):
            after(tiny, ids, imposed=imposed).run([3])
    # Behind -1 there is no expert, and where all places are used no -1.
    for routing, bad in ((Sparing(), [-1, 3, 2, 1]), (NATURAL, [3, 2, 1, -1])):
        imposed = Imposed({(0, START): np.array(bad)})
        engine = after(tiny, ids, imposed=imposed, routing=routing)
        with pytest.raises(ValueError, match="wanted"):
            engine.run([3])
