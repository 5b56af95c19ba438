"""Faults of the draft head: the gates see each, and nothing where there is none."""

from pathlib import Path

import numpy as np
import pytest

from heads import write_with_head
from helpers import advance, after, prompt, serial
from strata_nb import Model, diff, load
from strata_nb.engine import Engine
from strata_nb.faults import FAULTS
from strata_nb.gates.gate_1.defaults import unasked
from strata_nb.gates.gate_3 import rejection
from strata_nb.gates.gate_4 import full_disk, resume
from strata_nb.gates.records import HEAD_PARTS, PARTS, Case
from strata_nb.gates.runner import _watched
from strata_nb.gates.stage.places import parts_of
from strata_nb.gates.stage.rig import Rig, garbage
from strata_nb.policies.routing import FewerExperts
from tiny import small_config

MINE = [name for name, fault in FAULTS.items() if fault.part in HEAD_PARTS]
CONTEXT = 4096


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The smallest model that has every kind of layer, and a draft head."""
    return load(write_with_head(tmp_path_factory.mktemp("head"), small_config(), 2))


def test_the_gate_of_rejections_is_clean_and_moves_the_head(headed: Model) -> None:
    rig, moved, families = Rig(headed), set(), set()
    cases = rejection.cases(headed.config, "quick", CONTEXT)
    some = [c for c in cases if c.family in ("reject", "chain", "drafted")]
    for group in dict.fromkeys(c.group for c in some):
        for result in rejection.run([c for c in some if c.group == group][::5], rig):
            assert result.verdict == "same", (result.case.id, result.cause)
            moved |= {*result.changed}
            families.add(result.case.family)
    assert moved >= {*HEAD_PARTS}
    assert "drafted" in {c.family for c in some}
    assert families


def test_saved_and_forked_heads_go_on(headed: Model) -> None:
    rig = Rig(headed)
    cases = resume.cases(headed.config, "quick", CONTEXT)
    for family in dict.fromkeys(c.family for c in cases):
        chosen = [c for c in cases if c.family == family][:2]
        for result in resume.run(chosen, rig):
            assert result.verdict == "same", (result.case.id, result.cause)


def test_a_save_that_fails_is_tried_with_the_head(
    headed: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(engine: Engine, path: Path) -> None:
        saved.append({leaf.part for leaf in engine.leaves()})
        real(engine, path)

    saved: list[set[str]] = []
    real = Engine.save
    monkeypatch.setattr(Engine, "save", watched)
    every = resume.cases(headed.config, "quick", CONTEXT)
    (case,) = (c for c in every if ("how", "no folder") in c.params)
    (result,) = resume.run([case], Rig(headed))
    assert result.findings == ()
    assert len(saved) == 2
    assert saved[0] == saved[1] >= {*HEAD_PARTS}


def test_a_full_disk_is_tried_with_the_head(headed: Model) -> None:
    every = resume.cases(headed.config, "quick", CONTEXT)
    (case,) = (c for c in every if ("how", "full disk") in c.params)
    (result,) = resume.run([case], Rig(headed))
    assert result.findings == ()
    # What is tried has the parts of the head: as if it were tried here.
    engine = full_disk.made(headed)
    engine.prefill([1, 2, 3])
    assert {leaf.part for leaf in engine.leaves()} >= {*HEAD_PARTS}


def test_the_gate_of_defaults_says_that_the_head_is_on(headed: Model) -> None:
    """It is off unless asked for; a model that has one is no exception."""
    assert unasked(headed.engine()) == []
    (found,) = unasked(headed.engine(mtp=True))
    assert found.note == "option mtp: wanted none, got 'whole, position t'"


def test_an_approximate_routing_is_the_same_with_the_head_on(headed: Model) -> None:
    """Its experts are its own, so what gate_5 says of a policy holds for both."""

    ids, rows = prompt(headed, 21, seed=2), prompt(headed, 5, seed=3)
    engines = [
        after(headed, ids, mtp=on, routing=FewerExperts(by=1)) for on in (True, False)
    ]
    for engine in engines:
        if "mtp" in engine.options:
            engine.draft(3, root=rows[0])
        advance(engine, rows, keep=2)
    assert {d.part for d in diff(*engines)} <= {*HEAD_PARTS}
    on, off = (engine.trace[-1].layers for engine in engines)
    for one, other in zip(on, off, strict=True):
        np.testing.assert_array_equal(one.expert_ids, other.expert_ids)
    assert engines[0].trace[-1].approximate


def test_a_model_without_a_head_is_asked_nothing_of_it(small: Model) -> None:
    assert not {*parts_of(small.config)} & {*HEAD_PARTS}
    cases = rejection.cases(small.config, "quick", CONTEXT)
    assert "drafted" not in {c.family for c in cases}


@pytest.mark.parametrize("name", MINE)
def test_each_starts_in_its_part_and_reaches_no_token(headed: Model, name: str) -> None:
    """All that the head holds is for its own drafts, so no token can tell."""
    ids, needs = prompt(headed, 23, seed=4), FAULTS[name].options
    engine = garbage(after(headed, ids, **needs, fault=name))
    rows, found = prompt(headed, 8, seed=5), set()
    for keep in (3, 2, 5):
        engine.draft(4, root=rows[0])
        advance(engine, rows, keep=keep)
        ids += rows[:keep]
        found |= {d.part for d in diff(engine, after(headed, ids, **needs))}
    assert FAULTS[name].part in found
    assert found <= {*HEAD_PARTS}


def test_pairs_that_wait_leave_some_faults_nothing_to_spoil(headed: Model) -> None:
    """A rejected row's pair is never read, so its tail and blocks cannot hold it."""
    spoiled = set()
    for name in MINE:
        ids, rows = prompt(headed, 23, seed=4), prompt(headed, 8, seed=5)
        engine = after(headed, ids, mtp=True, fold="lazy", fault=name)
        for keep in (3, 2, 5):
            engine.draft(4, root=rows[0])
            advance(engine, rows, keep=keep)
            ids += rows[:keep]
        if diff(engine, after(headed, ids, mtp=True)):
            spoiled.add(name)
    assert {*MINE} - spoiled == {"mtp_ring", "mtp_block_count"}


def test_sound_where_no_fault_is(headed: Model, tmp_path: Path) -> None:
    """The same way without a fault: the comparison above can pass."""
    ids, rows = prompt(headed, 23, seed=4), prompt(headed, 8, seed=5)
    engine = after(headed, ids, mtp=True)
    for keep in (3, 2, 5):
        engine.draft(4, root=rows[0])
        advance(engine, rows, keep=keep)
        ids += rows[:keep]
    assert diff(engine, serial(headed.engine(mtp=True), ids)) == []


def test_a_gate_without_the_head_does_not_want_its_parts() -> None:
    """A gate of defaults has no engine with one, and would be vacuous for ever."""
    there = ("kv", "mtp_kv")
    plain = Case("gate_1", "options", ())
    drafted = Case("gate_3", "drafted", (), (*PARTS, *HEAD_PARTS))
    told = Case("gate_4", "requests", (), ("drafter",))
    assert _watched(there, [plain]) == ["kv"]
    assert _watched(there, [plain, drafted]) == ["kv", "mtp_kv"]
    assert _watched(there, [told]) == ["kv", "drafter"]
