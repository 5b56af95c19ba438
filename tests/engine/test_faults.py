"""Planted faults: each acts where it says, in silence, and on nobody else."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from helpers import advance, after, assert_same, greedy, prompt, serial
from strata_nb import Model, diff, load
from strata_nb.engine import Engine
from strata_nb.faults import DEFECTS, FAULTS, Defect, Fault, find, registry
from strata_nb.gates.records import HEAD_PARTS, PARTS, STATES
from strata_nb.gates.stage.rig import garbage
from strata_nb.state import Difference
from tiny import small_config, write_checkpoint

OF_TARGET = {name: fault for name, fault in FAULTS.items() if fault.part in PARTS}
"""Those of a draft head are in `test_mtp_faults`."""
ALL = pytest.mark.parametrize("fault", OF_TARGET.values(), ids=lambda f: f.name)

Windows = tuple[tuple[int, int], ...]
"""Rows and kept rows of windows that follow each other."""


@dataclass(frozen=True)
class Scenario:
    """Windows after a prompt of `start` cells, and what parts first in TINY.

    Nothing parts before the last window: a fault that shows at once has one window.
    """

    start: int
    windows: Windows
    layer: int | None


SCENARIOS = {
    "ple_tokens_kept": Scenario(21, ((4, 2),), None),
    "ple_conv_no_rewind": Scenario(21, ((4, 1),), 1),
    "gdn_no_rewind": Scenario(21, ((4, 2),), 0),
    "gdn_conv_no_rewind": Scenario(21, ((4, 3),), 0),
    "gdn_late_fold": Scenario(21, ((4, 2), (1, 1)), 0),
    "gdn_parity": Scenario(21, ((4, 2),), 0),
    "gdn_stale_graph": Scenario(21, ((4, 2), (3, 2), (3, 1), (3, 1)), 0),
    "gdn_partial_offset": Scenario(21, ((4, 2),), 0),
    "kv_shared_scale": Scenario(21, ((4, 2),), 3),
    "kv_cells_kept": Scenario(21, ((4, 2), (1, 1)), 3),
    "kv_page_seal": Scenario(253, ((6, 3),), 3),
    "qsa_ring": Scenario(5, ((4, 1),), 3),
    "qsa_last_row_tail": Scenario(5, ((4, 1),), 3),
    "qsa_old_tail": Scenario(21, ((1, 1),), 3),
    "qsa_kv_length_only": Scenario(22, ((4, 2), (1, 1)), 3),
    "qsa_block_count": Scenario(21, ((4, 2), (1, 1)), 3),
    "qsa_block_keys_kept": Scenario(21, ((4, 2), (1, 1)), 3),
}
# Not a matter of windows: these two have a test of their own.
ELSEWHERE = {"ple_shared_history", "qsa_blocks_not_restored"}

WITHOUT_REJECTION = {
    "gdn_late_fold",
    "gdn_stale_graph",
    "gdn_partial_offset",
    "kv_shared_scale",
    "qsa_old_tail",
}
"""They need several rows in a window, but none of them rejected."""


@pytest.fixture(scope="module")
def small_wide(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The smallest model with heads that can be kept in 8 bits."""
    config = small_config(head_dim=64, indexer_head_dim=32)
    return load(write_checkpoint(tmp_path_factory.mktemp("small_wide"), config, seed=5))


@pytest.fixture
def model(fault: Fault, small: Model, small_wide: Model) -> Model:
    """The smallest model in which the fault can act."""
    return small_wide if fault.options.get("kv") == "int8" else small


def planted(model: Model, fault: Fault, ids: list[int], **options: object) -> Engine:
    """A faulty engine after `ids`, with garbage wherever nothing lives."""
    return garbage(after(model, ids, fault=fault.name, **{**fault.options, **options}))


def sound(model: Model, fault: Fault, ids: list[int], **options: object) -> Engine:
    """The same engine without the fault."""
    return after(model, ids, **{**fault.options, **options})


def play(model: Model, engine: Engine, windows: Windows, *, seed: int = 0) -> None:
    """Run `windows` with random rows, the rejected ones among them."""
    for number, (rows, keep) in enumerate(windows):
        advance(engine, prompt(model, rows, seed=100 * seed + number), keep=keep)


def cause(found: list[Difference]) -> Difference:
    """The difference that comes first in the order in which state is computed."""
    return min(
        found,
        key=lambda d: (-1 if d.layer is None else d.layer, PARTS.index(d.part)),
    )


def finite(engine: Engine) -> bool:
    return all(np.isfinite(leaf).all() for leaf in engine.leaves().values())


@pytest.mark.parametrize("fault", DEFECTS.values(), ids=lambda f: f.name)
def test_each_is_documented(fault: Defect) -> None:
    assert (fault.part in (*PARTS, *HEAD_PARTS)) == (fault.name in FAULTS)
    assert fault.part in STATES
    assert fault.families
    assert fault.report.startswith("https://")
    assert len(fault.what) > 20
    assert len(fault.shows) > 10
    assert find(fault.name) is fault


def test_every_fault_has_a_scenario() -> None:
    assert {*SCENARIOS, *ELSEWHERE} == set(OF_TARGET)
    assert {f.part for f in FAULTS.values()} == {*PARTS, *HEAD_PARTS}


def test_off_unless_asked_for(small: Model) -> None:
    assert "fault" not in small.engine().options
    assert small.engine(fault="qsa_ring").options["fault"] == "qsa_ring"


def test_an_unknown_name_is_refused_with_those_there_are(small: Model) -> None:
    message = "no fault is named 'ring'; wanted one of ple_tokens_kept, .*qsa_ring"
    with pytest.raises(ValueError, match=message):
        small.engine(fault="ring")


def test_a_fault_of_a_policy_is_none_of_an_engine(small: Model) -> None:
    message = r"'slop_in_place' is in the penalties, .*`Session\(model, fault=...\)"
    with pytest.raises(ValueError, match=message):
        small.engine(fault="slop_in_place")


def test_two_faults_of_one_name_are_refused() -> None:
    ring = find("qsa_ring")
    with pytest.raises(ValueError, match="two faults are named 'qsa_ring'; rename"):
        registry._by_name([ring], [ring])


@ALL
def test_rows_one_by_one_and_prompts_are_right(fault: Fault, model: Model) -> None:
    """But for a tail that forgets every row that came alone."""
    engine = planted(model, fault, prompt(model, 22, seed=3))
    other = sound(model, fault, prompt(model, 22, seed=3))
    alone = [] if fault.name == "qsa_old_tail" else prompt(model, 7, seed=4)
    for either in (engine, other):
        serial(either, alone)
        either.prefill(prompt(model, 11, seed=5))
        either.prefill(prompt(model, 30, seed=6), chunk=10)
        serial(either, alone)
    assert_same(engine, other, why=fault.name)


@ALL
def test_windows_that_are_kept_whole(fault: Fault, model: Model) -> None:
    windows = ((3, 3), (3, 3), (8, 8), (2, 2), (3, 3), (8, 8))
    engine, other = (
        make(model, fault, prompt(model, 22, seed=3)) for make in (planted, sound)
    )
    for either in (engine, other):
        play(model, either, windows)
    assert bool(diff(engine, other)) == (fault.name in WITHOUT_REJECTION)


@pytest.mark.parametrize("name", SCENARIOS)
def test_its_part_is_the_first_to_part(name: str, tiny: Model, wide: Model) -> None:
    fault, scenario = FAULTS[name], SCENARIOS[name]
    model = wide if "kv" in fault.options else tiny
    ids = prompt(model, scenario.start, seed=scenario.start)
    engine, other = planted(model, fault, ids), sound(model, fault, ids)
    for number in range(len(scenario.windows)):
        assert diff(engine, other) == []
        for either in (engine, other):
            one = scenario.windows[number : number + 1]
            play(model, either, one, seed=number)
    found = cause(diff(engine, other))
    assert (found.part, found.layer) == (fault.part, scenario.layer)
    assert finite(engine)
    # Long enough to choose blocks and to fold again; a NaN would be refused.
    greedy(engine, 3, 12)
    assert finite(engine)


def test_a_forgotten_block_shows_when_it_is_restored(
    tiny: Model, tmp_path: Path
) -> None:
    fault = FAULTS["qsa_blocks_not_restored"]
    ids = prompt(tiny, 22, seed=1)
    engine, other = planted(tiny, fault, ids), sound(tiny, fault, ids)
    play(tiny, engine, ((4, 1), (5, 5)))
    play(tiny, other, ((4, 1), (5, 5)))
    assert_same(engine, other)
    other.save(tmp_path / "state")
    engine.restore(tmp_path / "state")
    found = diff(engine, other)
    assert {(d.part, d.layer) for d in found} == {("qsa_blocks", 3), ("qsa_blocks", 7)}
    keys = [a for leaf, a in engine.leaves().items() if leaf.part == "qsa_blocks"]
    assert all(a.shape[0] == engine.position // 4 and not a.any() for a in keys)
    greedy(engine, 3, 6)
    assert finite(engine)


def test_a_shared_history_is_that_of_the_last_writer(tiny: Model) -> None:
    fault = FAULTS["ple_shared_history"]
    first, alone = (make(tiny, fault, [5, 4, 8, 6]) for make in (planted, sound))
    assert_same(first, alone, why="one engine is right")
    second = planted(tiny, fault, [7, 9, 11])
    found = diff(first, alone)
    assert [(d.part, d.layer) for d in found] == [("ple_tokens", None)]
    assert not diff(second, sound(tiny, fault, [7, 9, 11]))
    branch = second.fork()
    advance(branch, [30])
    assert diff(second, sound(tiny, fault, [7, 9, 11]))[0].part == "ple_tokens"
    # What the first one reads next are the tokens of the branch: 11, 30.
    for either in (first, alone):
        serial(either, [12, 13])
    assert cause(diff(first, alone)).part == "ple_conv"
    assert finite(first)


@ALL
def test_garbage_goes_where_nothing_lives(fault: Fault, model: Model) -> None:
    engine = planted(model, fault, prompt(model, 21, seed=2))
    play(model, engine, ((4, 2), (5, 1), (8, 3)))
    before = engine.digests()
    assert garbage(engine).digests() == before
    play(model, engine, ((4, 4), (1, 1), (1, 1), (4, 2), (8, 8), (3, 1)), seed=1)
    greedy(engine, 3, 5)
    assert finite(engine)


@pytest.mark.parametrize(
    "name", ["qsa_ring", "qsa_kv_length_only", "gdn_stale_graph", "kv_cells_kept"]
)
def test_what_stays_behind_is_filled(name: str, tiny: Model) -> None:
    fault = FAULTS[name]
    plain = planted(tiny, fault, prompt(tiny, 22, seed=2))
    play(tiny, plain, ((4, 2), (5, 1)))
    # A fork settles, and so would the digests of a fold: fork both of them.
    filled = garbage(plain.fork())
    for either in (plain, filled):
        play(tiny, either, ((5, 2), (1, 1), (1, 1), (1, 1)), seed=1)
    reads_it = name != "qsa_ring"  # the ring rewrites its slots before it pools them
    assert bool(diff(plain, filled)) == reads_it


@ALL
def test_the_state_is_saved_and_restored(
    fault: Fault, model: Model, tmp_path: Path
) -> None:
    clean = sound(model, fault, prompt(model, 23, seed=2))
    clean.save(tmp_path / "clean")
    engine = model.engine(fault=fault.name, **fault.options)  # type: ignore[arg-type]
    engine.restore(tmp_path / "clean")
    gone = {"qsa_blocks"} if fault.name == "qsa_blocks_not_restored" else set()
    assert {d.part for d in diff(engine, clean)} == gone
    play(model, engine, ((4, 2), (8, 3), (4, 1)))
    engine.save(tmp_path / "used")
    again = model.engine(fault=fault.name, **fault.options)  # type: ignore[arg-type]
    again.restore(tmp_path / "used")
    assert {d.part for d in diff(engine, again)} <= gone


@ALL
def test_a_window_that_is_aborted_leaves_nothing(fault: Fault, model: Model) -> None:
    def digests(aborts: bool) -> dict[str, str]:
        engine = planted(model, fault, prompt(model, 21, seed=2))
        for number, window in enumerate(((4, 2), (4, 1), (3, 3), (4, 4))):
            if aborts:
                engine.abort(engine.run(prompt(model, 5, seed=50 + number)))
            play(model, engine, (window,), seed=number)
        return engine.digests()

    assert digests(True) == digests(False)


@ALL
def test_a_sequence_alone_decides_what_becomes_of_it(
    fault: Fault, model: Model
) -> None:
    """Its digests repeat whatever other engines do, unless sharing is the defect."""
    windows: Windows = ((4, 2), (3, 1), (4, 3), (1, 1), (4, 1), (8, 5))

    def digests(others: bool) -> dict[str, str]:
        engine = planted(model, fault, prompt(model, 21, seed=2))
        for number, window in enumerate(windows):
            if others:
                play(model, planted(model, fault, [9, 9, 3]), ((3, 1), (4, 2)))
            play(model, engine, (window,), seed=number)
        return engine.digests()

    assert (digests(False) == digests(True)) == (not fault.shared)


@ALL
def test_sound_engines_of_the_model_stay_sound(fault: Fault, model: Model) -> None:
    ids = prompt(model, 21, seed=2)
    want = sound(model, fault, ids)
    before = sound(model, fault, ids)
    windows: Windows = ((4, 2), (1, 1), (5, 1), (4, 4))
    play(model, want, windows)
    engine = planted(model, fault, ids)
    for number in range(len(windows)):
        play(model, engine, windows[number : number + 1], seed=7)
        advance(
            before,
            prompt(model, windows[number][0], seed=number),
            keep=windows[number][1],
        )
    later = sound(model, fault, ids)
    play(model, later, windows)
    assert_same(before, want, exact=True)
    assert_same(later, want, exact=True)


def test_a_rejected_row_changes_what_is_stored_of_a_kept_one(wide: Model) -> None:
    fault = FAULTS["kv_shared_scale"]
    engine = planted(wide, fault, prompt(wide, 21, seed=2))
    twin, plain = engine.fork(), sound(wide, fault, prompt(wide, 21, seed=2))
    advance(engine, [1, 2, 3, 4], keep=2)
    advance(twin, [1, 2, 8, 9], keep=2)
    advance(plain, [1, 2], keep=2)
    found = cause(diff(engine, twin))
    assert (found.part, found.layer, found.cell) == ("kv", 3, 21)
    # What is stored stands for the same numbers: only coarser.
    scales = [
        e.leaves()[leaf][21:]
        for e in (plain, engine)
        for leaf in e.leaves()
        if (leaf.part, leaf.layer, leaf.field) == ("kv", 3, "k_scale")
    ]
    assert (scales[1] > 0.9 * scales[0].max(axis=0)).all()


@pytest.mark.parametrize("name", ["gdn_late_fold", "gdn_stale_graph"])
def test_a_fold_behind_a_root_that_was_taken_in(name: str, tiny: Model) -> None:
    fault = FAULTS[name]
    ids = prompt(tiny, 21, seed=2)
    engine, other = (m(tiny, fault, ids, partial=True) for m in (planted, sound))
    for either in (engine, other):
        play(tiny, either, ((4, 1), (4, 1), (4, 1), (1, 1)))
    assert_same(engine, other, why="no fold was due", exact=True)
    for either in (engine, other):
        play(tiny, either, ((4, 3), (4, 1)), seed=1)
    assert cause(diff(engine, other)).part == "gdn_state"


@pytest.mark.parametrize("fold", ["lazy", "eager"])
def test_a_fold_that_is_settled_in_time_is_right(fold: str, tiny: Model) -> None:
    fault = FAULTS["gdn_late_fold"]
    ids = prompt(tiny, 21, seed=2)
    engine, other = (m(tiny, fault, ids, fold=fold) for m in (planted, sound))
    for number, window in enumerate(((4, 2), (5, 3), (2, 1))):
        engine, other = engine.fork(), other.fork()
        for either in (engine, other):
            play(tiny, either, (window,), seed=number)
    assert_same(engine, other, exact=True)
