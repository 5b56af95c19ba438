"""`ExpertMap`: who uses which expert, what travels, slots, and a selected layer."""

import json
import re
from typing import Any

import numpy as np
import pytest
import vl_convert

import strata_nb
from strata_nb.experts.streaming import Streaming
from strata_nb.theory import uniform_union
from strata_nb.trace import LayerDecisions, Trace, WindowRecord, window_record
from strata_widgets import ExpertMap
from strata_widgets.expert_map.users import Users
from strata_widgets.theme import PALETTE, Role
from widgets.fake_trace import trace

HERE = {"resident": 3, "miss": 0, "late": 0}
MIXED = {"resident": 1, "miss": 2, "late": 0}
PLACES = ({"here": 3, "late": 0, "read": 0}, {"here": 1, "late": 0, "read": 2})


def window(
    *layers: LayerDecisions | None, rows: int = 2, position: int = 0, **how: Any
) -> WindowRecord:
    tokens = {} if how.get("headless") else {"predictions": [0] * rows}
    how = {**how, **tokens, "inputs": [0] * rows, "keep": rows}
    return window_record(position=position, decisions=layers, **how)


def chose(ids: Any, **measured: int) -> LayerDecisions:
    return LayerDecisions(expert_ids=np.array(ids), measured=measured)


def by_hand(**how: Any) -> WindowRecord:
    """Layer 0 measured alike, layer 1 without experts, layer 2 a mixture."""
    first, last = chose([[1, 4], [4, 2]], **HERE), chose([[0, -1], [3, 5]], **MIXED)
    return window(first, None, last, **how)


def rows(view: ExpertMap, chart: str = "map") -> list[dict[str, Any]]:
    return view._live[chart].rows


def sent(view: ExpertMap) -> list[dict[str, Any]]:
    """Note what both charts send from here on."""
    messages: list[dict[str, Any]] = []
    for chart in view._live.values():
        chart.send = messages.append
        chart._pace._gap = 0
    return messages


def click(view: ExpertMap, **row: int) -> None:
    chart = view._live["map"]
    chart._answer(chart, {"kind": "click", "row": row}, [])


def drawn(view: ExpertMap) -> str:
    svg: str = vl_convert.vegalite_to_svg(view.snapshot().spec)
    return svg


def test_each_expert_is_of_the_root_of_drafts_or_of_both() -> None:
    view = ExpertMap([by_hand()], experts=8, chosen=2)
    assert rows(view) == [
        {"layer": 0, "experts": "1|4|2"},
        {"layer": 2, "experts": "0||3 5"},
    ]
    first, last = rows(view, "unions")
    assert first == {"layer": 0, "union": 3, "root": 2, "added": 1, **PLACES[0]}
    assert last == {"layer": 2, "union": 3, "root": 1, "added": 2, **PLACES[1]}
    values = view._live["unions"].values
    assert values["uniform"] == uniform_union(8, 2, 2) == 3.5
    assert (values["bound"], values["most"], values["layers"]) == (4, 8, 3)


def test_the_page_gets_ids_and_draws_a_box_for_each() -> None:
    picture = drawn(ExpertMap([by_hand()], experts=8, chosen=2))
    for said in (
        "layer 0, expert 1: root only",
        "layer 0, expert 4: root and drafts",
        "layer 0, expert 2: drafts only",
        "layer 2, expert 0: root only",
        "layer 2, expert 3: drafts only",
        "layer 2, expert 5: drafts only",
        "layer 2: 2 read",
        "layer 0: union of 3, by chance 3.5, at most 4",
    ):
        assert f'aria-label="{said}"' in picture
    assert picture.count(", expert ") == 6
    # What the root shares with drafts keeps the colour of the root.
    colours: dict[str, Role] = {"4: root and drafts": "root", "2: drafts only": "added"}
    for who, role in colours.items():
        box = re.search(f'<path [^>]*expert {who}"[^>]*>', picture)
        assert box is not None
        assert f'fill="{PALETTE[role]}"' in box[0]
    # Where it was says no colour: those of the palette say whose it is.
    hues = {colour for colour in PALETTE.values() if colour in picture}
    assert hues == {PALETTE[role] for role in ("root", "added", "unreached")}
    # A layer without experts is a gap.
    assert 'aria-label="layer 1' not in picture


def test_a_prompt_has_neither_root_nor_drafts() -> None:
    view = ExpertMap([by_hand(headless=True)], experts=8, chosen=2)
    assert rows(view)[0] == {"layer": 0, "experts": "|||1 2 4"}
    assert rows(view, "unions")[0]["prompt"] == 3
    assert 'aria-label="layer 0, expert 2: prompt"' in drawn(view)
    assert "window 0, the newest: cell 0, a prompt of 2" in view.text()
    view.select(layer=0)
    used = [row[1] for row in view._tables()[0].rows]
    assert used == ["row 0", "row 1", "rows 0 1"]


def test_words_give_the_numbers_and_where_they_come_from() -> None:
    view = ExpertMap([by_hand()])
    assert view.text() == (
        "ExpertMap(window 0, the newest: cell 0, T = 2; 2 layers with unions of 3 to "
        "3, mean 3.0 (by chance 3.3, at most 4); E = 6, K = 2 (inferred from ids seen))"
    )
    given = ExpertMap([by_hand()], experts=8, chosen=2)
    assert "E = 8, K = 2 (given)" in given.text()
    half = ExpertMap([by_hand()], experts=8)
    assert "E = 8, K = 2 (given, the other inferred from ids seen)" in half.text()
    assert ExpertMap(Trace()).text() == (
        "ExpertMap(no windows yet; the size of a layer is not known)"
    )


def test_a_selected_layer_lists_its_experts() -> None:
    view = ExpertMap([by_hand(), by_hand(position=2)], experts=8, chosen=2)
    view.select(layer=0)
    said = "layer 0: 3 experts, 1 root only, 1 root and drafts, 1 drafts only; 3 in a "
    assert said in view.text()
    (table,) = view._tables()
    assert table.head == ("expert", "used by", "when wanted")
    assert table.rows == [
        [1, "root", "in a slot"],
        [2, "draft 1", "in a slot"],
        [4, "root, draft 1", "in a slot"],
    ]
    click(view, layer=2)
    assert view.selection == {"window": None, "layer": 2, "cell": None}
    (table,) = view._tables()
    # Counts alone do not say which of a mixture was which.
    assert [row[2] for row in table.rows] == ["not recorded"] * 3
    assert "1 in a slot, 0 late, 2 read; E = 8" in view.text()
    assert view._live["map"].values["layer"] == 2


def test_what_was_not_measured_is_said_and_not_drawn() -> None:
    view = ExpertMap(trace(3), experts=16, chosen=2)
    view.select(layer=1)
    assert not {"here", "late", "read"} & set(rows(view, "unions")[0])
    assert "slots not measured" in view.text()
    assert {row[2] for row in view._tables()[0].rows} == {"not measured"}


def test_a_selection_that_the_trace_lacks_is_said() -> None:
    view = ExpertMap([by_hand()], experts=8, chosen=2)
    view.select(window=7, layer=1)
    assert "window 7 is selected, which this trace lacks; window 0" in view.text()
    assert "layer 1 is selected, which has no experts here" in view.text()
    assert len(rows(view)) == 2


def test_the_largest_window_stays_a_small_message() -> None:
    """512 experts, 48 layers, 8 rows that share nothing, all of them in slots."""
    ids = np.arange(431, 511).reshape(8, 10)
    big = window(*[chose(ids)] * 48, rows=8)
    view = ExpertMap([big], experts=512, chosen=10)
    assert view._live["map"].renderer == "canvas"
    messages = sent(view)
    for chart in view._live.values():
        chart._answer(chart, {"kind": "hello"}, [])
    assert len(messages) == 2
    assert max(len(json.dumps(m)) for m in messages) < 20_000
    held = Users(root=tuple(range(431, 441)), drafts=tuple(range(441, 511)))
    assert held.packed(range(512)).split("|")[4:] == [
        " ".join(map(str, range(431, 441))),
        "",
        " ".join(map(str, range(441, 511))),
    ]


def test_a_long_prompt_shows_the_selected_layer_alone() -> None:
    rng = np.random.default_rng(3)
    ids = [chose(rng.integers(0, 512, (600, 10))) for _ in range(48)]
    view = ExpertMap([window(*ids, rows=600, headless=True)], experts=512, chosen=10)
    assert rows(view)[-1]["note"].startswith("More experts than fit on a map")
    messages = sent(view)
    view.select(layer=5)
    assert [row["layer"] for row in rows(view) if "experts" in row] == [5]
    assert max(len(json.dumps(m)) for m in messages) < 20_000
    assert len(view._tables()[0].rows) == 128
    assert view._tables()[0].hidden > 300
    assert len(json.dumps(view._page)) < 20_000


def test_following_sends_a_window_and_a_selected_one_stays() -> None:
    whole = trace(3000)
    growing = Trace(whole[:10])
    view = ExpertMap(growing, experts=16, chosen=2)
    messages = sent(view)
    for record in whole[10:2000]:
        growing.append(record)
        view.refresh()
    assert len(rows(view)) == 4
    assert max(len(json.dumps(m)) for m in messages) < 1_000
    assert view.text().startswith("ExpertMap(window 1999, the newest")
    view.select(window=3)
    messages.clear()
    for record in whole[2000:]:
        growing.append(record)
        view.refresh()
    assert messages == []
    assert rows(view) == rows(ExpertMap(whole[:4], experts=16, chosen=2))


def test_windows_that_were_taken_back_are_gone() -> None:
    made = trace(20)
    view = ExpertMap(made)
    made.truncate(5)
    view.refresh()
    assert rows(view) == rows(ExpertMap(trace(20)[:5]))
    made.truncate(0)
    view.refresh()
    assert rows(view) == [{"note": "Run a window, and its experts appear here."}]
    assert "the size of a layer is not known" in view.text()


def test_an_axis_of_inferred_size_seldom_moves() -> None:
    view = ExpertMap([window(chose([[0], [17]]))])
    assert (view.experts, view.chosen) == (18, 1)
    assert view._live["map"].values["experts"] == 32


def test_the_map_grows_to_the_layers_it_finds() -> None:
    growing = Trace()
    view = ExpertMap(growing)
    assert view._live["map"].spec["height"] == 150
    growing.append(window(*[chose([[0], [1]])] * 24))
    view.refresh()
    assert {chart.spec["height"] for chart in view._live.values()} == {432}
    assert len(rows(view)) == 24


def test_slots_of_now_are_those_of_the_pool() -> None:
    model = strata_nb.load("strata-tiny", experts=Streaming(slots=12))
    engine = model.engine()
    view = ExpertMap(engine)
    assert (view.experts, view.chosen) == (128, 8)
    assert view.text().endswith("E = 128, K = 8 (of the model))")
    for ids in ([5, 6, 7], [8]):
        opened = engine.run(ids)
        engine.finish(opened, stop_ids=())
        engine.commit(opened, keep=1)
        view.refresh()
    view.select(window=0)
    assert model.pool is not None
    record = engine.trace[0]
    for row, layer in zip(rows(view), record.layers, strict=True):
        kinds = row["experts"].split("|")
        inside = {int(e) for kind in kinds[4:] for e in kind.split()}
        outside = {int(e) for kind in kinds[:4] for e in kind.split()}
        used = set(layer.expert_ids.ravel().tolist())
        assert inside == used & model.pool.resident(layer.layer)
        assert outside == used - inside
    assert any(row["experts"].count("|") > 3 for row in rows(view))
    view.select(layer=2)
    (table,) = view._tables()
    there = model.pool.resident(2)
    assert table.head[-1] == "now"
    assert all((r[3] == "in a slot") == (r[0] in there) for r in table.rows)
    said = "of its 12 slots now 12 ready, 0 in flight, 0 free, 0 pinned"
    assert said in view.text()
    # Other engines move slots too: nothing new in the trace, and yet another map.
    other = model.engine()
    other.prefill([40, 41, 42, 43])
    before = rows(view)
    view._heard(view, {"kind": "control", "name": "slots", "value": True}, [])
    assert rows(view) != before


def test_misuse_says_what_was_wanted() -> None:
    with pytest.raises(ValueError, match="`experts` is 4, but window 0 uses expert 4"):
        ExpertMap([by_hand()], experts=4)
    with pytest.raises(ValueError, match="`chosen` is 0, wanted 1 or more"):
        ExpertMap([by_hand()], chosen=0)
    with pytest.raises(ValueError, match="`chosen` is 9, wanted at most `experts` = 8"):
        ExpertMap([by_hand()], experts=8, chosen=9)
    with pytest.raises(TypeError, match="a trace is wanted, or an engine"):
        ExpertMap(3)
