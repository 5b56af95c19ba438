"""A model whose experts are in slots computes what it computes with all in memory."""

import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import assert_same, greedy, prompt
from strata_kernels.experts import apply_experts, mix_experts, mix_outputs
from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.errors import ExpertFileError, ExpertReadError
from strata_nb.experts import FileSource
from strata_nb.experts.pack import pack
from strata_nb.experts.source import CheckpointSource
from strata_nb.experts.streaming import Streaming
from strata_nb.models.qwen4_exp.experts import SlotExperts
from strata_nb.policies.prefetch import Ahead
from strata_nb.policies.residency import LeastStale, Lfu
from tiny import small_config, write_checkpoint

WINDOWS = (1, 2, 3, 4, 5, 6, 7, 8)


def streamed(model: Model) -> SlotExperts:
    assert model._weights is not None
    found = model._weights.streamed
    assert found is not None
    return found


def opened(model: Model, **how: Any) -> Model:
    """The same checkpoint with its experts in slots."""
    return load(model.checkpoint.path, experts=Streaming(**how))


def played(model: Model, *, seed: int = 0) -> tuple[list[np.ndarray], Engine]:
    """Logits of windows of every width, some kept in part, after a prompt."""
    engine = model.engine()
    engine.prefill(prompt(model, 21, seed=seed))
    found = []
    for number, width in enumerate(WINDOWS):
        window = engine.run(prompt(model, width, seed=seed + number + 1))
        engine.finish(window, stop_ids=())
        found.append(window.logits)
        engine.commit(window, keep=1 + number % width, force=True)
    return found, engine


def same(one: Model, other: Model, *, seed: int = 0) -> None:
    for model in (one, other):
        assert sorted(model.engine().leaves(), key=str)
    (a, first), (b, second) = (played(m, seed=seed) for m in (one, other))
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)
    assert_same(first, second)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that take a random time each, so that they land in any order."""
    rng = random.Random(7)
    read = CheckpointSource.read

    def late(self: Any, layer: int, expert: int, into: Sequence[Any]) -> int:
        time.sleep(rng.random() * 2e-3)
        return read(self, layer, expert, into)

    monkeypatch.setattr(CheckpointSource, "read", late)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("slots", [1, 3, 4, 9, 16])
def test_any_number_of_slots_gives_the_same_bits(tiny: Model, slots: int) -> None:
    """1, k - 1, k, about a union, all of them."""
    assert tiny.config.num_experts_per_tok == 4
    assert tiny.config.num_experts == 16
    model = opened(tiny, slots=slots, prefetch=Ahead() if slots % 2 else Ahead(2))
    same(tiny, model)
    pool = streamed(model).pool
    assert pool.held_bytes <= slots * 8 * pool.source.layout.record_bytes
    assert all(pool.counts(layer).pinned == 0 for layer in range(8))


@pytest.mark.parametrize(
    "how",
    [
        {"residency": Lfu()},
        {"residency": LeastStale()},
        {"prefetch": Ahead(root_only=True)},
        {"prefetch": Ahead(3), "prefetch_most": 2},
        {"prefetch": Ahead(), "prefetch_most": 0},
        {"threads": 1},
    ],
)
def test_no_policy_changes_a_bit(tiny: Model, how: dict[str, Any]) -> None:
    same(tiny, opened(tiny, slots=5, **how), seed=30)


def test_several_engines_share_the_slots(tiny: Model) -> None:
    model = opened(tiny, slots=4)
    engines = [model.engine() for _ in range(2)]
    alone = [tiny.engine() for _ in range(2)]
    for number, (one, other) in enumerate(zip(engines, alone, strict=True)):
        for engine in (one, other):
            engine.prefill(prompt(tiny, 9 + number, seed=number))
    for number in range(4):
        for one, other in zip(engines, alone, strict=True):
            ids = prompt(tiny, 3, seed=40 + number)
            for engine in (one, other):
                window = engine.run(ids)
                engine.finish(window, stop_ids=())
                engine.commit(window, keep=2, force=True)
            assert_same(one, other)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "q4", "q8", "mxfp4"])
def test_a_packed_file_gives_the_same_in_few_slots_as_in_all(
    tmp_path: Path, kind: Any
) -> None:
    config = small_config(hidden_size=64, moe_intermediate_size=32)
    folder = write_checkpoint(tmp_path / "m", config, seed=5)
    plain = load(folder)
    file = pack(plain.checkpoint, tmp_path / "experts", kind=kind).path
    resident = load(folder, experts=file)
    few = load(folder, experts=Streaming(file=file, slots=2, prefetch=Ahead()))
    same(resident, few)
    assert isinstance(streamed(few).source, FileSource)
    if kind == "float32":
        same(plain, few)
    ids = prompt(plain, 5, seed=1)
    a, b = (greedy(after, 3, 6) for after in (plain.engine(), resident.engine()))
    assert len(a) == len(b) == 6
    assert ids


def test_bfloat16_experts_in_a_bfloat16_run(tmp_path: Path) -> None:
    config = small_config()
    folder = write_checkpoint(tmp_path, config, seed=5, dtype="bfloat16")
    same(
        load(folder, dtype="bfloat16"),
        load(folder, dtype="bfloat16", experts=Streaming(slots=2)),
    )


def test_what_a_window_read_is_in_its_record(tiny: Model) -> None:
    model = opened(tiny, slots=16)
    engine = model.engine()
    for width, cold in ((4, True), (1, False)):
        window = engine.run(prompt(tiny, width, seed=2)[:width])
        engine.finish(window, stop_ids=())
        record = engine.commit(window).record
        assert record.expert_wait_ms is not None
        for layer in record.layers:
            found = (layer.resident, layer.miss, layer.late)
            assert all(number is not None for number in found)
            assert sum(n or 0 for n in found) == layer.union_size
            assert (layer.miss == layer.union_size) == cold
            assert layer.evicted == 0
            size = streamed(model).source.layout.record_bytes
            assert layer.bytes_read == (layer.miss or 0) * size
    assert tiny.engine().run([3]).layers[0].measured == {}


def test_a_rejected_draft_has_cost_its_reads(tiny: Model) -> None:
    """Counters are not rewound: what was read was read."""
    model = opened(tiny, slots=16)
    engine = model.engine()
    before = streamed(model).counters
    engine.abort(engine.run(prompt(tiny, 4, seed=3)))
    spent = (streamed(model).counters - before).total
    assert spent.misses > 0
    assert spent.bytes_read > 0


def test_a_read_that_fails_leaves_the_engine_as_before(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tiny, slots=4)
    engine = model.engine()
    engine.prefill(prompt(tiny, 6, seed=1))
    before, ids = engine.digests(), prompt(tiny, 3, seed=2)
    read, calls = CheckpointSource.read, itertools.count()

    def broken(self: Any, layer: int, expert: int, into: Sequence[Any]) -> int:
        if layer == 5 and next(calls) < 8:
            raise ExpertReadError("the disk is gone")
        return read(self, layer, expert, into)

    monkeypatch.setattr(CheckpointSource, "read", broken)
    with pytest.raises(ExpertReadError, match="the disk is gone"):
        engine.run(ids)
    assert engine.window is None
    assert engine.digests() == before
    pool = streamed(model).pool
    assert all(pool.counts(layer).pinned == 0 for layer in range(8))
    monkeypatch.setattr(CheckpointSource, "read", read)
    other = tiny.engine()
    other.prefill(prompt(tiny, 6, seed=1))
    for either in (engine, other):
        window = either.run(ids)
        either.finish(window, stop_ids=())
        either.commit(window, keep=3, force=True)
    assert_same(engine, other)


def test_an_interrupt_in_the_middle_pins_nothing(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tiny, slots=4)
    engine = model.engine()
    experts = streamed(model)
    mixed, calls = SlotExperts._mixed, itertools.count()

    def interrupted(self: Any, *args: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return mixed(self, *args)

    monkeypatch.setattr(SlotExperts, "_mixed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.run([3, 4, 5])
    assert engine.window is None
    assert all(experts.pool.counts(layer).pinned == 0 for layer in range(8))
    monkeypatch.undo()
    assert engine.run([3, 4, 5]).T == 3


def test_slots_that_mlx_cannot_see_are_copied(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streamed(opened(tiny, slots=2)).memory.shared
    monkeypatch.setattr(
        "strata_nb.models.qwen4_exp.experts._is_shared", lambda *_: False
    )
    model = opened(tiny, slots=5)
    assert not streamed(model).memory.shared
    # As on a device whose memory the host does not see: writes go nowhere else.
    memory = streamed(model).memory
    memory._views = [[view.copy() for view in layer] for layer in memory._views]
    same(tiny, model)


def test_memory_is_that_of_the_slots(tiny: Model) -> None:
    whole = streamed(opened(tiny))
    size = whole.source.layout.record_bytes
    budget = 8 * 5 * size + size - 1
    few = streamed(opened(tiny, budget_bytes=budget))
    assert few.pool.slots == 5
    assert few.memory.nbytes <= 8 * 5 * size <= budget
    assert whole.pool.slots == 16


def test_what_does_not_fit_is_refused(tiny: Model, tmp_path: Path) -> None:
    path = tiny.checkpoint.path
    with pytest.raises(ValueError, match="`check` is 'once', wanted 'first', 'always'"):
        Streaming(check="once")  # type: ignore[arg-type]
    for name in ("residency", "prefetch", "throttle"):
        odd: Any = {name: 3}
        with pytest.raises(TypeError, match=f"`{name}` is 3, wanted `"):
            Streaming(**odd)
    with pytest.raises(ValueError, match="give one of them"):
        Streaming(slots=1, budget_bytes=5)
    with pytest.raises(ValueError, match="budget_bytes"):
        load(path, experts=Streaming(budget_bytes=100))
    with pytest.raises(ValueError, match="`slots`"):
        load(path, experts=Streaming(slots=0))
    with pytest.raises(ExpertFileError, match="strata-nb pack"):
        load(path, experts=tmp_path / "none")
    with pytest.raises(ValueError, match="oracle computes with"):
        load(path, backend="oracle", experts=Streaming())


def test_pairs_in_any_order_are_the_outputs_that_are_mixed() -> None:
    rng = np.random.default_rng(3)
    x, gate_up, down = (
        mx.array(rng.normal(size=s).astype(np.float32))
        for s in ((3, 8), (5, 8, 12), (5, 6, 8))
    )
    chosen = mx.array(np.array([[1, 4], [0, 1], [3, 2]], np.uint32))
    weights = mx.array(rng.random((3, 2)).astype(np.float32))
    wanted = mix_experts(x, chosen, weights, gate_up, down)
    order = np.array([4, 1, 5, 0, 3, 2])
    rows, experts = (
        mx.array(a.ravel()[order].astype(np.uint32))
        for a in (np.repeat(np.arange(3), 2), np.array(chosen))
    )
    outputs = apply_experts(x, rows, experts, gate_up, down)
    back = mx.array(np.argsort(order).astype(np.uint32))
    found = mix_outputs(outputs[back].reshape(3, 2, 8), weights)
    np.testing.assert_array_equal(np.array(found), np.array(wanted))
