"""`TailView`: the worked counterexample, its moments, and an engine held against it."""

import asyncio
import json
from typing import Any

import pytest
import traitlets

from helpers import advance, prompt
from strata_nb import Engine, Model
from strata_nb.gates.tail.model import TailCase
from strata_nb.gates.tail.moments import BEHAVIOURS, SOUND
from strata_widgets.qsa_tail import TailView

RING: dict[str, Any] = {"behaviour": "qsa_ring", "start": 5, "T": 4, "keep": 1}


def rows(view: TailView, chart: str) -> list[dict[str, Any]]:
    return view._live[chart].rows


def use(view: TailView, name: str, value: Any = True) -> None:
    view._heard(None, {"kind": "control", "name": name, "value": value}, None)


def played(model: Model, *, fault: str | None = None, windows: int = 4) -> Engine:
    ids = prompt(model, 60, seed=3)
    engine = model.engine(fault=fault)
    engine.prefill(ids[:13])
    for T, keep in [(4, 1), (6, 2), (5, 2), (7, 1)][:windows]:
        at = engine.position
        advance(engine, [*ids[at : at + keep], *[7] * (T - keep)], keep=keep)
    return engine


def test_the_worked_counterexample() -> None:
    view = TailView(**RING)
    assert view.case == TailCase(5, 4, 1)
    assert view.moment == len(view.moments) - 1 == 7
    assert "at the end block 1 pools [raw8 rejected, raw5, raw6, raw7]" in repr(view)
    slots = rows(view, "slots")
    assert [(r["name"], r["under"]) for r in slots] == [
        ("before", ""),
        ("row 0", "5"),
        ("row 1", "6"),
        ("row 2", "7"),
        ("row 3", "8"),
        ("commit", "keep 1"),
        ("right", "6"),
        ("right", "7"),
    ]
    assert [r["text"] for r in slots] == [
        ["4", "1", "2", "3"],
        ["4", "5", "2", "3"],
        ["4", "5", "6", "3"],
        ["4", "5", "6", "7"],
        ["8", "5", "6", "7"],
        ["8 ✗", "5", "6 ✗", "7 ✗"],
        ["8 ✗", "5", "6", "7 ✗"],
        ["8 ✗", "5", "6", "7"],
    ]
    last = [r for r in rows(view, "blocks") if r["at"] == 7]
    assert [(r["block"], r["text"], r["verdict"]) for r in last] == [
        (0, ["0", "1", "2", "3"], "right"),
        (1, ["8 ✗", "5", "6", "7"], "WRONG"),
        (2, ["", "", "", ""], "open: 0 of 4 cells committed"),
    ]
    before = [r["verdict"] for r in rows(view, "blocks") if r["at"] == 0]
    assert before == ["right", "open: 1 of 4 cells committed"]


def test_replay_is_right_at_the_end() -> None:
    view = TailView()
    assert view.behaviour == SOUND
    assert "at the end every pooled key is right" in repr(view)
    assert rows(view, "slots")[5]["text"] == ["4", "5", "2", "3"]


def test_text_says_slots_and_pools() -> None:
    view = TailView(**RING)
    view.go(5)
    assert view.text().splitlines() == [
        "TailView(qsa_ring; cell 5, T = 4, keep 1; moment 5 of 7, commit: commit keeps "
        "1 of 4 rows and leaves the slots alone)",
        "Slots at this moment",
        "slot  cell  how it lies there       counts",
        "0     8     left by a rejected row  yes, WRONG",
        "1     5     committed               yes, right",
        "2     6     left by a rejected row  no",
        "3     7     left by a rejected row  no",
        "Pooled keys at this moment",
        "block  pools                   is it right",
        "0      raw0, raw1, raw2, raw3  right",
    ]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_behaviour_can_be_chosen(name: str) -> None:
    view = TailView()
    use(view, "behaviour", name)
    assert view.behaviour == name
    wrong = "every pooled key is right" not in repr(view)
    assert wrong == (name != SOUND)


def test_controls_set_the_window_and_the_moment() -> None:
    view = TailView(**RING)
    use(view, "keep", 3)
    use(view, "T", 2)
    assert view.case == TailCase(5, 2, 2)
    use(view, "start", 8)
    assert view.case == TailCase(8, 2, 2)
    assert [m.position for m in view.moments] == [8, 8, 8, 10, 11, 12]
    use(view, "moment", 2)
    assert view.moment == 2
    assert view._live["slots"].values["moment"] == 2


def test_a_moment_sends_a_number_and_no_rows() -> None:
    view = TailView(**RING)
    sent: list[object] = []
    for chart in view._live.values():
        chart.replace = sent.append  # type: ignore[assignment, method-assign]
    for at in range(8):
        view.go(at)
    view.select(cell=4)
    assert sent == []
    for chart in view._live.values():
        assert len(json.dumps(chart.rows)) < 20_000


def test_it_plays_to_the_end_and_can_be_held() -> None:
    view = TailView(**RING)
    view._ticker._gap = 0.0

    async def whole() -> list[int]:
        seen = []
        view.play()
        assert "playing" in repr(view)
        while view._playing:
            seen.append(view.moment)
            await asyncio.sleep(0)
        use(view, "play")
        use(view, "play")
        await asyncio.sleep(0.01)
        return seen

    seen = asyncio.run(whole())
    assert sorted(set(seen)) == list(range(7))
    # Played again from the start, and held there by the same button.
    assert (view.moment, view._playing, view._ticker.running) == (0, False, False)
    with pytest.raises(RuntimeError):
        view.play()
    assert not view._playing


def test_another_window_ends_the_play() -> None:
    view = TailView(**RING)

    async def change() -> None:
        view.play()
        view.set(start=6)

    asyncio.run(change())
    assert (view._playing, view.moment) == (False, len(view.moments) - 1)


def test_a_selected_cell_is_said_and_a_click_selects_it() -> None:
    view = TailView(**RING)
    view._clicked({"cell": 8, "slot": 0})
    assert view.selection["cell"] == 8
    assert "cell 8: its key is in slot 0 and block 1" in repr(view)
    view.selection = {"cell": 2}
    assert "cell 2: its key is in block 0" in repr(view)
    view.select(cell=99)
    assert "cell 99: its key is in no slot or block" in repr(view)
    view._clicked({"cell": -1, "slot": 0})
    assert view.selection["cell"] == 99
    view.select(layer=2)
    assert "layer 2: the labels are the same for all layers" in repr(view)
    assert view._bounds("cell") == (0, 8)
    assert view._bounds("layer") is None


def test_misuse_says_what_is_wanted() -> None:
    view = TailView(**RING)
    with pytest.raises(ValueError, match=r"must be one of .*qsa_ring.*, got 'ring'"):
        TailView(behaviour="ring")
    with pytest.raises(ValueError, match="`T` must be 1 to 8 rows, got 9"):
        view.set(T=9)
    with pytest.raises(ValueError, match="1 <= keep <= T"):
        view.set(keep=5)
    assert view.case == TailCase(5, 4, 1)
    with pytest.raises(ValueError, match="`moment` must be 0 to 7, got 8"):
        view.go(8)
    with pytest.raises(ValueError, match=r"no engine to compare; make `TailView\(eng"):
        view.compare()
    with pytest.raises(ValueError, match=r"no engine to follow; make `TailView\(eng"):
        view.follow()
    with pytest.raises(TypeError, match="an engine is wanted, or None for the"):
        TailView(3)
    with pytest.raises(traitlets.TraitError, match="`cell` must be None or"):
        view.select(cell=-1)


@pytest.mark.parametrize("fault", [None, "qsa_ring", "qsa_old_tail"])
def test_an_engine_is_equal_to_its_labels(small: Model, fault: str | None) -> None:
    engine = played(small, fault=fault)
    view = TailView(engine)
    assert view.behaviour == (fault or SOUND)
    assert view.case == TailCase(18, 7, 1)
    assert "not compared at this position" in view.text()
    before = engine.digests()
    use(view, "compare")
    lines = view.text().splitlines()
    at = lines.index("The engine against the labels, after 19 cells")
    assert [line.split()[:2] for line in lines[at + 2 :]] == [
        ["raw", "tail"],
        ["pooled", "keys"],
    ]
    assert all(line.endswith("  equal") for line in lines[at + 2 :])
    assert ("none" not in lines[-1]) == (fault is not None)
    assert engine.digests() == before


def test_an_engine_of_another_kind_than_its_labels_is_not_equal(small: Model) -> None:
    engine = played(small, fault="qsa_ring")
    view = TailView(engine)
    view._history.tail.mend = "snapshot and replay"
    view._history.wrong = []
    view.compare()
    assert view.text().splitlines()[-1].endswith("NOT EQUAL")


def test_a_running_engine_is_followed(small: Model) -> None:
    engine = played(small, fault="qsa_ring", windows=0)
    view = TailView(engine)
    assert "the engine has run no window yet" in repr(view)
    ids = prompt(small, 60, seed=3)
    for T, keep in [(4, 1), (6, 2)]:
        at = engine.position
        advance(engine, [*ids[at : at + keep], *[7] * (T - keep)], keep=keep)
        view.refresh()
        assert view.case == TailCase(at, T, keep)
    view.compare()
    advance(engine, ids[16:17])
    view.refresh()
    assert "not compared at this position" in view.text()
    # What earlier windows left is there before this one.
    assert any("✗" in text for text in rows(view, "slots")[0]["text"])


def test_a_window_that_is_set_is_run_elsewhere(small: Model) -> None:
    engine = played(small)
    view = TailView(engine)
    view.set(behaviour="qsa_ring", start=5, T=4, keep=1)
    position = engine.position
    use(view, "compare")
    assert view.text().splitlines()[-1] == (
        f"run on an engine of {small.name}: a pooled key is wrong; by the labels a "
        "pooled key is wrong: equal"
    )
    assert engine.position == position
    use(view, "follow")
    assert view.case == TailCase(18, 7, 1)
    assert view.behaviour == SOUND


def test_what_cannot_be_compared_is_said_on_the_page(small: Model) -> None:
    view = TailView(played(small).fork())
    use(view, "compare")
    assert view._note["kind"] == "error"
    assert "take an engine whose trace begins at cell 0" in view._note["text"]


def test_a_layer_without_a_tail_is_said(small: Model) -> None:
    view = TailView(played(small))
    view.select(layer=0)
    assert "layer 0 has no tail; layers 1 have" in repr(view)
    assert view._bounds("layer") == (1, 1)


def test_undone_windows_go(small: Model) -> None:
    engine = played(small, fault="qsa_ring")
    view = TailView(engine)
    engine.trace.truncate(3)
    view.refresh()
    assert view.case == TailCase(14, 6, 2)


def test_a_still_has_its_words() -> None:
    still = TailView(**RING).snapshot()
    assert "raw8 rejected" in still.text
    assert still.png()[:4] == b"\x89PNG"
