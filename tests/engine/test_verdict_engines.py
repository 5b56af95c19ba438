"""The verdict on real engines that differ by little, or by too much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import strata_nb
from helpers import advance, after, prompt
from strata_nb.engine import Engine
from strata_nb.errors import KeepError
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.judge.observed import Observed, RowSeen, see
from strata_nb.gates.judge.verdict import judge
from strata_nb.gates.records import Case, CaseResult, Finding
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.trace import Leaf
from strata_nb.window import Committed
from tiny import tiny_config, write_checkpoint, write_safetensors

FLOOR = Floor(logits=1e-4, experts=1e-4, blocks=1e-4, rows=1)
LITTLE = 2.0**-20  # of a weight or key: far above rounding in float32, below the floor
S = Leaf("gdn_state", 2, "S")


def judged(subject: Observed, reference: Any, **terms: Any) -> tuple[Finding, ...]:
    defaults: dict[str, Any] = {"by": "serial", "moment": "after", "ratio": 4}
    defaults |= {"floor": FLOOR, "exact": False}
    return judge(subject, reference, **(defaults | terms))


@dataclass(frozen=True)
class Pair:
    """Two models that differ by little at one decision, and what they are fed."""

    subject: strata_nb.Model
    reference: strata_nb.Model
    ids: Sequence[int]
    layer: int
    experts: tuple[int, int]  # of the reference and of the subject, at cell 0


@pytest.fixture(scope="module")
def routers(tiny: strata_nb.Model, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two equal router rows but for a little more, or less, in the second."""
    ids, layer = prompt(tiny, 8, seed=3), 1
    logits = see(tiny.engine(), ids, keep=1)[0].layers[layer].router_logits
    assert logits is not None
    best = np.argsort(-logits)
    last, first_out = (int(i) for i in best[3:5])
    assert logits[last] > 0
    models = []
    for more in (LITTLE, -LITTLE):
        folder = tmp_path_factory.mktemp("routers")
        write_checkpoint(folder, tiny_config(), seed=1)
        stored = load_file(folder / "model.safetensors")
        gate = stored[f"model.layers.{layer}.mlp.gate.weight"]
        gate[first_out] = gate[last] * np.float32(1 + more)
        write_safetensors(folder / "model.safetensors", stored)
        models.append(strata_nb.load(folder))
    return Pair(models[0], models[1], ids, layer, (last, first_out))


def observed(engine: Engine, ids: Sequence[int]) -> Observed:
    return Observed.of(engine, see(engine, ids, keep=len(ids)))


def test_experts_turned_over_by_less_than_the_floor_are_near_ties(
    routers: Pair,
) -> None:
    asked: list[Imposed] = []

    def reference(imposed: Imposed) -> Observed:
        asked.append(imposed)
        return observed(routers.reference.engine(imposed=imposed), routers.ids)

    subject = observed(routers.subject.engine(), routers.ids)
    found = judged(subject, reference)
    lost, won = routers.experts
    first = found[0]
    assert {f.kind for f in found} == {"near-tie"}
    assert (first.what, first.layer, first.cell) == ("experts", routers.layer, 0)
    assert first.note == f"experts: {won} instead of {lost}"
    assert first.gap is not None
    assert 0 < first.gap < 2 * first.size < 2 * FLOOR.experts
    # All that the judge imposed is in the list, and nothing else is.
    assert {(f.layer, f.cell) for f in found} == {*asked[-1].experts}
    assert asked[0].experts == {}


def test_without_the_choice_imposed_all_that_follows_would_be_a_fault(
    routers: Pair,
) -> None:
    subject = observed(routers.subject.engine(), routers.ids)
    plain = observed(routers.reference.engine(), routers.ids)
    found = judged(subject, plain)
    assert found[0].kind == "near-tie"
    assert {f.what for f in found if f.kind == "fault"} >= {"kv", "gdn_state", "logits"}


def test_without_a_floor_experts_turned_over_are_a_fault(routers: Pair) -> None:
    subject = observed(routers.subject.engine(), routers.ids)

    def reference(imposed: Imposed) -> Observed:
        assert not imposed.experts
        return observed(routers.reference.engine(imposed=imposed), routers.ids)

    for floor in (None, replace(FLOOR, experts=1e-9)):
        result = CaseResult(Case("g", "f", ()), judged(subject, reference, floor=floor))
        assert result.verdict == "fault"
        assert result.cause is not None
        assert (result.cause.what, result.cause.layer) == ("experts", routers.layer)


def test_a_choice_against_equal_scores_is_a_fault(routers: Pair) -> None:
    lost, won = routers.experts
    sound = observed(routers.reference.engine(), routers.ids)
    chosen = sound.rows[0].layers[routers.layer].experts
    swapped = Imposed({(routers.layer, 0): np.where(chosen == lost, won, chosen)})
    subject = observed(routers.reference.engine(imposed=swapped), routers.ids)
    found = judged(
        subject,
        lambda imposed: observed(
            routers.reference.engine(imposed=imposed), routers.ids
        ),
    )
    assert (found[0].kind, found[0].what, found[0].size) == ("fault", "experts", 0.0)


def placed(
    model: strata_nb.Model, leaves: Mapping[Leaf, np.ndarray], n: int, **options: Any
) -> Engine:
    """An engine of `n` cells whose state is `leaves`."""
    engine = model.engine(**options)
    start = engine.backend.from_leaves(leaves, position=n)
    return Engine(
        engine.backend,
        context=engine.context,
        options=engine.options,
        start=Committed(start, root=None, window=None),
    )


def test_blocks_turned_over_by_less_than_the_floor_are_near_ties(
    tiny: strata_nb.Model,
) -> None:
    n, layer, keys = 28, 3, Leaf("qsa_blocks", 3, "keys")
    base = after(tiny, prompt(tiny, n, seed=1))
    ids = prompt(tiny, 3, seed=2)
    leaves = base.leaves()
    scores = see(base, ids, keep=3)[n].layers[layer].block_scores
    assert scores is not None
    # The row at n scores 7 blocks and attends to 4.
    last, first_out = (int(i) for i in np.argsort(-scores[:7])[3:5])
    assert scores[last] > 0

    def nearly(more: float) -> dict[Leaf, np.ndarray]:
        changed = leaves[keys].copy()
        changed[first_out] = changed[last] * np.float32(1 + more)
        return {**leaves, keys: changed}

    asked: list[Imposed] = []

    def reference(imposed: Imposed) -> Observed:
        asked.append(imposed)
        return observed(placed(tiny, nearly(-LITTLE), n, imposed=imposed), ids)

    subject = observed(placed(tiny, nearly(LITTLE), n), ids)
    found = judged(subject, reference)
    assert {f.kind for f in found} == {"near-tie"}
    first = found[0]
    assert (first.what, first.layer, first.cell) == ("blocks", layer, n)
    assert first.note == f"blocks: {first_out} instead of {last}"
    assert (layer, n) in asked[-1].blocks
    assert {f.kind for f in judged(subject, reference, floor=None)} == {"fault"}
    assert any(f.kind == "fault" for f in judged(subject, reference(Imposed())))


@pytest.mark.parametrize("exact", [True, False])
def test_a_hundredth_in_one_number_of_a_memory_is_a_fault(
    tiny: strata_nb.Model, exact: bool
) -> None:
    base = after(tiny, prompt(tiny, 24))
    leaves = base.leaves()
    moved = leaves[S].copy()
    moved[1, 2, 3] += 1e-2
    (at_once,) = judged(
        Observed(24, {**leaves, S: moved}, {}), Observed(24, leaves, {}), exact=exact
    )
    assert (at_once.kind, at_once.what, at_once.layer) == ("fault", "gdn_state", 2)
    assert at_once.size == pytest.approx(1e-2, rel=1e-3)
    ids = prompt(tiny, 4, seed=5)
    found = judged(
        observed(placed(tiny, {**leaves, S: moved}, 24), ids),
        lambda imposed: observed(placed(tiny, leaves, 24, imposed=imposed), ids),
        exact=exact,
    )
    cause = CaseResult(Case("g", "f", ()), found).cause
    assert cause is not None
    assert (cause.kind, cause.what, cause.layer) == ("fault", "gdn_state", 2)


def test_equal_output_rows_are_the_same_and_the_lowest_wins(
    tiny: strata_nb.Model, tmp_path: Path
) -> None:
    ids = prompt(tiny, 8, seed=3)
    best = see(tiny.engine(), ids, keep=8)[5].prediction
    write_checkpoint(tmp_path, tiny_config(), seed=1)
    stored = load_file(tmp_path / "model.safetensors")
    low, high = sorted((best, 200 if best < 100 else 7))
    stored["lm_head.weight"][[low, high]] = stored["lm_head.weight"][best]
    write_safetensors(tmp_path / "model.safetensors", stored)
    model = strata_nb.load(tmp_path)
    one_by_one = model.engine()
    rows: dict[int, RowSeen] = {}
    for token in ids:
        rows |= see(one_by_one, [token], keep=1)
    at_once = observed(model.engine(), ids)
    assert at_once.rows[5].prediction == low
    assert at_once.rows[5].logits[low] == at_once.rows[5].logits[high]
    assert judged(at_once, Observed.of(one_by_one, rows)) == ()


def test_rounding_alone_is_the_same(tiny_folder: Path) -> None:
    """Eight rows in float32 against the same in float64, from the same state."""
    model = strata_nb.load(tiny_folder)
    oracle = strata_nb.load(tiny_folder, backend="oracle")
    for n in (3, 16, 30):
        engine, ids = after(model, prompt(model, n)), prompt(model, 8, seed=n)
        reference = observed(placed(oracle, engine.leaves(), n), ids)
        subject = observed(engine, ids)
        assert judged(subject, reference) == ()
        assert {f.kind for f in judged(subject, reference, exact=True)} == {"fault"}


# Seeing.


def test_seeing_gives_the_kept_rows_by_absolute_cell(tiny: strata_nb.Model) -> None:
    start = after(tiny, prompt(tiny, 22))
    twin, ids = start.fork(), prompt(tiny, 4, seed=8)
    window = twin.run(ids)
    rows = see(start, ids, keep=3)
    assert [*rows] == [22, 23, 24]
    assert start.position == 25
    assert start.window is None
    last = rows[24]
    assert (last.cell, last.token) == (24, ids[2])
    assert last.prediction == int(last.logits.argmax()) == start.root
    assert np.array_equal(last.logits, window.logits[2])
    for layer, decided in zip(last.layers, window.layers, strict=True):
        assert np.array_equal(layer.experts, decided.expert_ids[2])
        assert (layer.blocks is None) == (decided.blocks is None)
    assert last.layers[3].block_scores is not None
    assert last.layers[0].blocks is None


def test_decisions_can_be_left_out(tiny: strata_nb.Model) -> None:
    rows = see(tiny.engine(), [1, 2], keep=2, decisions=False)
    assert rows[1].layers == ()


def test_a_refused_keep_leaves_the_engine_as_it_was(tiny: strata_nb.Model) -> None:
    engine = after(tiny, [1, 2, 3])
    before = engine.digests()
    with pytest.raises(KeepError, match="keep"):
        see(engine, [4, 5], keep=3)
    assert (engine.digests(), engine.window) == (before, None)
    with pytest.raises(KeepError, match="keep"):
        see(engine, [4, 5, 6, 7], keep=4, force=False)
    assert engine.position == 3


def test_what_was_seen_of_an_engine_is_its_state(tiny: strata_nb.Model) -> None:
    engine = after(tiny, [1, 2, 3])
    advance(engine, [4])
    found = Observed.of(engine, {})
    assert found.position == 4
    assert {*found.leaves} == {*engine.leaves()}
