"""`StateDiff`: what differs as `strata_nb` says it, counts by hand, and misuse."""

import re
from typing import Any

import numpy as np
import pytest

import strata_nb
from strata_nb import Engine, Session
from strata_nb.state import differences
from strata_nb.trace import Leaf
from strata_widgets import StateDiff
from strata_widgets.selection import link
from strata_widgets.state_diff.pair import Pair
from widgets.fake_model import SCRIPT, FakeModel

PARTS = ("ple_tokens", "gdn_state", "kv", "qsa_tail", "qsa_blocks")


def leaves() -> dict[Leaf, np.ndarray]:
    """Ten cells: two layers, one of each kind."""
    rng = np.random.default_rng(3)
    shapes = {
        Leaf("ple_tokens", None, "ids"): (2,),
        Leaf("gdn_state", 0, "S"): (2, 3),
        Leaf("kv", 1, "k"): (10, 4),
        Leaf("kv", 1, "v"): (10, 4),
        Leaf("qsa_tail", 1, "rows"): (2, 4),
        Leaf("qsa_blocks", 1, "keys"): (2, 4),
    }
    return {leaf: rng.normal(size=shape) for leaf, shape in shapes.items()}


def view_of(first: Any, second: Any, **how: Any) -> StateDiff:
    return StateDiff(first, second, position=10, ratio=4, **how)


def rows(view: StateDiff, chart: str) -> dict[str, dict[str, Any]]:
    """Rows of a chart by what they say first: part and layer."""
    return {row["says"].split(":")[0]: row for row in view._live[chart].rows}


def test_equal_states_are_equal_to_the_bit_and_no_box_differs() -> None:
    view = view_of(leaves(), leaves())
    assert repr(view) == "StateDiff(cell 10: equal to the bit in all 6 arrays)"
    assert {row["kind"] for row in rows(view, "map").values()} == {"equal"}
    assert [row["note"] for row in view._live["sizes"].rows] == [
        "Nothing differs; move one of the two and look again."
    ]
    assert view.differences == ()


def test_a_zero_of_another_sign_is_no_equality_to_the_bit() -> None:
    one, other = leaves(), leaves()
    one[Leaf("kv", 1, "k")][0, 0], other[Leaf("kv", 1, "k")][0, 0] = 0.0, -0.0
    said = repr(view_of(one, other))
    assert "equal to the bit" not in said
    assert "all 6 arrays are equal, not to the bit" in said


def test_differences_are_those_of_strata_nb_and_entries_are_counted() -> None:
    one, other = leaves(), leaves()
    other[Leaf("kv", 1, "k")][7, 2] += 0.5
    other[Leaf("kv", 1, "k")][9, :] += 0.25
    other[Leaf("gdn_state", 0, "S")] += 2.0
    other[Leaf("qsa_blocks", 1, "keys")][1, 3] += 1e-3
    view = view_of(one, other)
    assert view.differences == tuple(
        differences(one, other, position=10, ratio=4, atol=0.0)
    )
    found = rows(view, "map")
    kinds = {name: row["kind"].split(" ")[0] for name, row in found.items()}
    assert kinds == {
        "ple_tokens": "equal",
        "gdn_state, layer 0": "differs",
        "kv, layer 1": "differs",
        "qsa_tail, layer 1": "equal",
        "qsa_blocks, layer 1": "differs",
    }
    assert found["gdn_state, layer 0"]["shade"] > found["kv, layer 1"]["shade"] > 0
    dots = {row["says"]: row["drawn"] for row in view._live["sizes"].rows}
    assert dots == {
        "gdn_state, layer 0: differs, by 2.0e+00 at most": pytest.approx(2.0),
        "kv, layer 1: differs, by 5.0e-01 at most": pytest.approx(0.5),
        "qsa_blocks, layer 1: differs, by 1.0e-03 at most": pytest.approx(1e-3),
    }
    # Cells by hand: row 7 of K is cell 7, block 1 of 4 cells begins at cell 4.
    cells = {row["part"]: row["cell"] for row in view._live["cells"].rows}
    assert cells == {"kv": 7, "qsa_blocks": 4}
    view.choose("kv")
    (table,) = view._tables()
    assert table.rows == [
        [1, "k", "[10, 4]", "differs", "5 of 40", "5.0e-01", "[7, 2]", 7],
        [1, "v", "[10, 4]", "equal", "0 of 40", "0", "-", "-"],
    ]


def test_what_the_counts_say_agrees_with_what_strata_nb_says() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, other = leaves(), leaves()
        for leaf in other:
            if rng.random() < 0.5:
                mask = rng.random(other[leaf].shape) < 0.2
                other[leaf] += mask * rng.normal(size=other[leaf].shape)
        now = Pair(one, other, position=10, ratio=4, atol=0.0).look()
        said = {Leaf(d.part, d.layer, d.field): d for d in now.found}
        for leaf, array in now.arrays.items():
            assert (array.differing or 0) == int((one[leaf] != other[leaf]).sum())
            assert array.differs == (leaf in said) == (array.index is not None)


def test_absent_shapes_and_nan_have_words_of_their_own() -> None:
    one, other = leaves(), leaves()
    del other[Leaf("qsa_tail", 1, "rows")]
    other[Leaf("kv", 1, "v")] = other[Leaf("kv", 1, "v")][:9]
    other[Leaf("gdn_state", 0, "S")][0, 0] = np.nan
    view = view_of(one, other)
    kinds = {name: row["kind"] for name, row in rows(view, "map").items()}
    assert kinds["qsa_tail, layer 1"] == "absent in one (-)"
    assert kinds["kv, layer 1"] == "differs (✗)"
    assert "; the largest difference is NaN; 1 array of other shapes" in repr(view)
    assert repr(view).endswith("1 array absent in one)")
    assert {row["shape"] for row in view._live["sizes"].rows} == {
        "shapes differ, or NaN"
    }
    view.choose("qsa_tail")
    assert "[2, 4] and none" in view.text()
    assert "absent in one" in view.text()


def test_a_part_that_does_not_move_is_told_after_a_second_look() -> None:
    one, other = leaves(), leaves()
    view = view_of(one, other)
    assert "never changed" not in str(view._live["map"].rows)
    for state in (one, other):
        state[Leaf("kv", 1, "k")][9] = 1.0
    view.refresh()
    kinds = {name: row["kind"] for name, row in rows(view, "map").items()}
    assert kinds["kv, layer 1"] == "equal"
    assert kinds["qsa_tail, layer 1"] == "equal, never changed (·)"
    for state in (one, other):
        state.update(leaves())
    view.refresh()
    # It is as at first, and has changed meanwhile.
    assert rows(view, "map")["kv, layer 1"]["kind"] == "equal"


def test_atol_is_what_still_counts_as_none() -> None:
    one, other = leaves(), leaves()
    other[Leaf("kv", 1, "k")][3, 0] += 1e-6
    other[Leaf("kv", 1, "k")][5, 1] += 1e-2
    view = view_of(one, other, atol=1e-4)
    assert view._now.arrays[Leaf("kv", 1, "k")].differing == 1
    assert view._now.arrays[Leaf("kv", 1, "k")].index == (5, 1)
    within = repr(view_of(one, other, atol=0.1))
    assert "all 6 arrays are equal within 0.1, not to the bit" in within


@pytest.fixture(scope="module")
def model() -> strata_nb.Model:
    return strata_nb.load("strata-tiny")


def moved(engine: Engine, ids: list[int], rows: int, keep: int) -> None:
    """Run `rows` rows, of which the last are wrong, and keep `keep`."""
    at = engine.position
    wrong = [9] * (rows - keep)
    window = engine.run([*ids[at : at + keep], *wrong])
    engine.finish(window)
    engine.commit(window, keep=keep, force=True)


def test_a_fault_shows_first_where_it_is_planted(model: strata_nb.Model) -> None:
    ids = list(range(20, 60))
    sound, broken = model.engine(), model.engine(fault="ple_conv_no_rewind")
    for engine in (sound, broken):
        engine.prefill(ids[:20])
    view = StateDiff(sound, broken)
    assert repr(view) == "StateDiff(cell 20: equal to the bit in all 22 arrays)"
    for engine in (sound, broken):
        moved(engine, ids, 4, 2)
    view.refresh()
    assert repr(view).startswith(
        "StateDiff(cell 22: 1 of 22 arrays differ, in ple_conv"
    )
    assert view.part == "ple_conv"
    assert view.differences == tuple(strata_nb.diff(sound, broken))
    (dot,) = view._live["cells"].rows
    assert (dot["part"], dot["layer"]) == ("ple_conv", 1)
    assert dot["cell"] == view.differences[0].cell
    moved(sound, ids, 1, 1)
    view.refresh()
    assert repr(view).startswith("StateDiff(cells 23 and 22: ")


def test_the_selection_moves_the_table_both_ways(model: strata_nb.Model) -> None:
    engine = model.engine()
    engine.prefill(range(20, 40))
    view, other = (StateDiff(engine, engine.fork()) for _ in range(2))
    link(view, other)
    view.choose("kv")
    other.select(layer=7)
    (table,) = view._tables()
    assert table.caption == "Arrays of kv, layer 7"
    assert [row[:2] for row in table.rows] == [[7, "k"], [7, "v"]]
    view.select(layer=2)
    assert other.selection["layer"] == 2
    assert view._tables()[0].caption == "Arrays of kv"
    view._clicked({"part": "gdn_state", "layer": 4, "at": 3, "kind": "equal"})
    assert (view.part, other.selection["layer"]) == ("gdn_state", 4)
    assert view._values()["chosen"] == view._now.parts.index("gdn_state")
    view._clicked({"part": "ple_tokens", "layer": -1, "at": 0})
    assert (view.part, other.selection["layer"]) == ("ple_tokens", None)
    view._clicked({"note": "Nothing differs"})
    assert view.part == "ple_tokens"


def test_a_layer_without_the_part_is_said(model: strata_nb.Model) -> None:
    engine, second = model.engine(), model.engine()
    engine.prefill(range(20, 40))
    second.prefill(range(21, 41))
    view = StateDiff(engine, second)
    view.choose("kv")
    view.select(layer=2)
    assert repr(view).endswith("; layer 2 is selected, which has no kv)")
    view.choose("ple_tokens")
    assert "ple_tokens belongs to the whole sequence, layer 2 has none" in repr(view)


def test_sessions_show_their_histories_too(model: strata_nb.Model) -> None:
    one, other = Session(model), Session(model)
    for session in (one, other):
        session.reply(range(20, 40), max_new=2)
    assert "equal to the bit in all 22 arrays" in repr(StateDiff(one, other))
    other.go_on(max_new=1)
    assert "cells 21 and 22" in repr(StateDiff(one, other))


def test_the_control_chooses_and_an_unknown_part_is_refused() -> None:
    view = view_of(leaves(), leaves())
    named = {c.name: c for c in (*view._selectors(), *view._controls())}
    assert [option[0] for option in named["part"].options] == list(PARTS)
    assert named["part"].options[2][1] == "kv: 0 of 2 differ"
    view._heard(None, {"kind": "control", "name": "part", "value": "kv"}, None)
    assert view.part == "kv"
    wanted = "`part` is 'attention', wanted one of ple_tokens, gdn_state, kv"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        view.choose("attention")


def test_misuse_is_refused_with_a_remedy(model: strata_nb.Model) -> None:
    with pytest.raises(TypeError, match=r"two engines are wanted.*got Engine and dict"):
        StateDiff(model.engine(), leaves())
    with pytest.raises(TypeError, match=r"got int and int"):
        StateDiff(1, 2)
    with pytest.raises(TypeError, match=r"`position=` and `ratio=` are wanted"):
        StateDiff(leaves(), leaves())
    with pytest.raises(TypeError, match=r"for bare leaves, got them with Engines"):
        StateDiff(model.engine(), model.engine(), position=3)
    with pytest.raises(ValueError, match=r"`atol` is -1.0, wanted 0 or more"):
        view_of(leaves(), leaves(), atol=-1.0)


def test_nothing_at_all_and_the_picture_have_words() -> None:
    empty = view_of({}, {})
    assert empty._live["map"].rows == [{"note": "Neither state has any part."}]
    assert empty.part == ""
    one, other = leaves(), leaves()
    other[Leaf("kv", 1, "k")][7, 2] += 0.5
    view = view_of(one, other)
    assert view.text() == view_of(one, other).text()
    assert "0x" not in view.text()
    spec = view._picture()
    assert [part["width"] for part in spec["vconcat"][:3]] == [480] * 3


def test_a_backend_without_blocks_is_no_obstacle() -> None:
    model = FakeModel()
    model.config.indexer_compress_ratio = 4
    one, other = model.engine(), model.engine()
    one.prefill(SCRIPT[:5])
    other.prefill((*SCRIPT[:4], 9))
    view = StateDiff(one, other)
    assert [row["cell"] for row in view._live["cells"].rows] == [4]
