"""`SlotsAndIO`: counts beside the pool's own, windows, layers, and what travels."""

import json
import re
import time
from typing import Any

import numpy as np
import pytest
import vl_convert

import strata_nb
from strata_nb.experts.streaming import Streaming
from strata_nb.policies.prefetch import NO_PREFETCH, Ahead
from strata_nb.trace import LayerDecisions, Trace, WindowRecord, window_record
from strata_widgets import SlotsAndIO
from strata_widgets.slots_io import SHOWN
from strata_widgets.theme import PALETTE
from strata_widgets.timeline.bins import MOST
from widgets.fake_trace import trace

KEYS = (
    "resident", "miss", "late", "prefetched", "evicted", "bytes_read",
    "prefetched_bytes",
)  # fmt: skip
TEXT = tuple(range(40, 72))


def window(*layers: tuple[int, ...], times: tuple[float, float] = (2, 8)) -> Any:
    """A window of one row; a layer is its counts and the bytes read, ahead last."""
    made = []
    for counts in layers:
        # Of a layer with fewer counts the others were not measured.
        measured = dict(zip(KEYS, counts, strict=False))
        ids = np.arange(max(1, sum(counts[:3])))[None]
        made.append(LayerDecisions(expert_ids=ids, measured=measured))
    wait, run = times
    return window_record(
        position=0,
        inputs=[0],
        keep=1,
        predictions=[0],
        decisions=made,
        expert_wait_ms=wait,
        run_ms=run,
    )


TWO = ((3, 1, 0, 2, 4, 300, 200), (1, 2, 1, 0, 1, 50, 0))


def run(windows: int, *, seed: int = 1) -> list[WindowRecord]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 90, (windows, 2, 7))
    counts[:, :, 6] = counts[:, :, 5] // 2
    return [window(*map(tuple, layers)) for layers in counts.tolist()]


def rows(view: SlotsAndIO, chart: str) -> list[dict[str, Any]]:
    return view._live[chart].rows


def sent(view: SlotsAndIO) -> dict[str, list[dict[str, Any]]]:
    """Note what each chart sends from here on."""
    messages: dict[str, list[dict[str, Any]]] = {}
    for name, chart in view._live.items():
        chart.send = messages.setdefault(name, []).append
        chart._pace._gap = 0
    return messages


def test_rows_are_the_sums_of_a_window() -> None:
    view = SlotsAndIO([window(*TWO)])
    assert rows(view, "wanted") == [
        {"window": 0, "here": 4, "late": 1, "read": 3, "gone": 5}
    ]
    assert rows(view, "reads") == [{"window": 0, "wanted": 150, "ahead": 200}]
    assert rows(view, "shares") == [{"window": 0, "hits": 0.5, "wait": 0.25}]
    assert rows(view, "overview") == [{"from": 0, "to": 1, "hits": 0.5, "bytes": 350}]
    assert view.text() == (
        "SlotsAndIO(1 windows; 8 experts wanted, 4 in a slot (50.0%), 1 late, 3 read; "
        "2 read ahead; 5 evicted; 350 B read, 200 B of it ahead; wasted reads ahead "
        "not measured (a trace lacks them: give `model=`))"
    )
    # Times are on the page, and in no text that is compared.
    assert view._page["status"].endswith("waited 2.0 of 8.0 ms (25%)")


def test_the_page_says_the_numbers() -> None:
    view = SlotsAndIO([window(*TWO)])
    view.select(layer=1)
    picture = vl_convert.vegalite_to_svg(view.snapshot().spec)
    for said in (
        "window 0: 4 in a slot",
        "window 0: 1 late",
        "window 0: 3 read",
        "window 0: 5 lost their slot",
        "window 0: 150 bytes wanted",
        "window 0: 200 bytes ahead of need",
        "window 0: 50% in a slot, all layers",
        "window 0: 25% in a slot, selected layer",
        "window 0: 25% waited for experts",
        "windows 0 to 0: 50% in a slot, 350 bytes a window",
    ):
        assert f'aria-label="{said}"' in picture


def test_no_colour_of_the_palette_says_where_an_expert_was() -> None:
    picture = vl_convert.vegalite_to_svg(SlotsAndIO([window(*TWO)]).snapshot().spec)
    assert not {colour for colour in PALETTE.values() if colour in picture}
    looks = {}
    for who in ("in a slot", "late", "read"):
        box = re.search(f'<path aria-label="window 0: . {who}"[^>]*>', picture)
        assert box is not None
        fill, opacity = (
            re.search(rf'\b{name}="([^"]*)"', box[0]) for name in ("fill", "opacity")
        )
        looks[who] = (fill and fill[1], opacity and opacity[1])
    assert len(set(looks.values())) == 3, looks
    assert looks["in a slot"][1] == "0.5"


def test_a_selected_layer_has_its_own_line() -> None:
    view = SlotsAndIO([window(*TWO), window(*TWO)])
    messages = sent(view)
    view.select(layer=1)
    assert [row["own"] for row in rows(view, "shares")] == [0.25, 0.25]
    assert not messages["wanted"] + messages["reads"] + messages["overview"]
    assert "newest window, layer 1: 4 experts wanted, 1 in a slot (25.0%)" in (
        view.text()
    )
    view.select(layer=5)
    assert "layer 5 is selected, which has no experts here" in view.text()
    assert "own" not in rows(view, "shares")[0]


def test_a_selected_window_lists_its_layers() -> None:
    view = SlotsAndIO([window(*TWO), window(*TWO)])
    assert view._tables() == ()
    view._live["reads"]._answer(None, {"kind": "click", "row": {"window": 1}}, [])
    view.select(layer=1)
    assert view.selection == {"window": 1, "layer": 1, "cell": None}
    (table,) = view._tables()
    assert table.rows == [[0, 4, 3, 0, 1, 2, 4, 300], [1, 4, 1, 1, 2, 0, 1, 50]]
    assert table.marked == 1
    assert "window 1: 8 experts wanted" in view.text()
    view.select(window=9)
    assert "window 9 is selected, which this trace lacks" in view.text()
    assert len(rows(view, "wanted")) == 2


def test_what_was_not_measured_is_a_gap_and_is_said() -> None:
    (plain,) = trace(1)
    view = SlotsAndIO([plain, window(*TWO)])
    assert rows(view, "wanted")[0] == {"window": 0}
    assert rows(view, "shares")[0] == {"window": 0}
    assert rows(view, "overview") == [{"from": 1, "to": 2, "hits": 0.5, "bytes": 350}]
    assert "2 windows, slots measured in 1; 8 experts wanted" in view.text()
    view.select(window=0)
    assert "window 0: slots not measured" in view.text()
    assert set(view._tables()[0].rows[0][2:]) == {"not measured"}


def test_a_run_without_reads_says_none_of_them() -> None:
    """A window that measured what was wanted, and nothing that was read."""
    view = SlotsAndIO([window((3, 1, 0))])
    assert rows(view, "wanted") == [{"window": 0, "here": 3, "late": 0, "read": 1}]
    assert rows(view, "reads") == [{"window": 0}]
    assert rows(view, "overview") == [{"from": 0, "to": 1, "hits": 0.75}]
    assert view.text() == (
        "SlotsAndIO(1 windows; 4 experts wanted, 3 in a slot (75.0%), 0 late, 1 read; "
        "wasted reads ahead not measured (a trace lacks them: give `model=`))"
    )
    picture = vl_convert.vegalite_to_svg(view.snapshot().spec)
    assert 'aria-label="windows 0 to 0: 75% in a slot"' in picture
    # A window that measured all adds what it read, as if it were alone.
    view = SlotsAndIO([window((3, 1, 0)), window(*TWO)])
    assert "2 read ahead; 5 evicted; 350 B read, 200 B of it ahead" in view.text()


def test_axes_stand_still_until_a_power_of_two_is_passed() -> None:
    found = []
    for count in (16, 17, 64, 65):
        values = SlotsAndIO([window((count, 0, 0, 0, 0, 64 * count, 0))])._values()
        found.append((values["most"], values["bytes"]))
    assert found == [(16, 1024), (32, 2048), (64, 4096), (128, 8192)]


def test_without_slots_it_says_how_to_get_them() -> None:
    assert rows(SlotsAndIO(Trace()), "wanted") == [
        {"note": "Run a window, and its slots and reads appear here."}
    ]
    view = SlotsAndIO(trace(5))
    (row,) = rows(view, "wanted")
    assert row["note"][1] == "strata_nb.load(..., experts=Streaming(slots=8))"
    assert "5 windows, slots measured in 0; All experts are in memory" in view.text()
    # The first window with slots takes the words away.
    view.trace.append(window(*TWO))
    view.refresh()
    assert [row["window"] for row in rows(view, "wanted")] == [0, 1, 2, 3, 4, 5]


def test_growing_sends_new_windows_only_and_keeps_few() -> None:
    whole = run(2200)
    growing = Trace(whole[:100])
    view = SlotsAndIO(growing)
    messages = sent(view)
    for start in range(100, 2200, 3):
        for record in whole[start : start + 3]:
            growing.append(record)
        view.refresh()
    for name in ("wanted", "reads", "shares"):
        assert {m["op"] for m in messages[name]} == {"append"}
        assert sum(len(m["rows"]) for m in messages[name]) == 2100
        assert len(rows(view, name)) == SHOWN
        assert [row["window"] for row in rows(view, name)] == list(range(2072, 2200))
    sizes = [len(json.dumps(m)) for several in messages.values() for m in several]
    assert max(sizes) < 20_000
    assert len(rows(view, "overview")) <= MOST
    again = SlotsAndIO(whole)
    assert view.text() == again.text()
    for name in view._live:
        assert rows(view, name) == rows(again, name)
    view.select(window=3)
    assert "it lies before the windows drawn one by one" in view.text()
    # All of them at once are a small message too.
    view.select(layer=1)
    assert len(json.dumps(messages["shares"][-1])) < 20_000


def test_windows_that_were_taken_back_are_gone() -> None:
    made = Trace(run(30))
    view = SlotsAndIO(made)
    made.truncate(10)
    view.refresh()
    for record in run(4, seed=5):
        made.append(record)
    view.refresh()
    again = SlotsAndIO(made)
    for name in view._live:
        assert rows(view, name) == rows(again, name)
    assert view.text() == again.text()


@pytest.mark.parametrize("ahead", [False, True])
def test_sums_are_those_of_the_pool(ahead: bool) -> None:
    """Experts read on demand; and read ahead, where each window waits for its reads."""
    prefetch = Ahead() if ahead else NO_PREFETCH
    how = Streaming(slots=24, prefetch=prefetch)
    model = strata_nb.load("strata-tiny", experts=how)
    pool, engine = model.pool, model.engine()
    assert pool is not None
    view = SlotsAndIO(engine)
    for at in range(0, len(TEXT), 4):
        before = pool.counters
        engine.prefill(TEXT[at : at + 4], chunk=4)
        spent = (pool.counters - before).total
        view.refresh()
        row = rows(view, "wanted")[-1]
        assert (row["here"], row["late"], row["read"], row["gone"]) == (
            spent.hits,
            spent.late,
            spent.misses,
            spent.evicted,
        )
        settle(pool)
    total = pool.counters.total
    kept: Any = view._totals
    assert (kept.resident, kept.miss, kept.late, kept.evicted) == (
        total.hits,
        total.misses,
        total.late,
        total.evicted,
    )
    assert kept.miss > 0
    assert kept.evicted > 0
    said = f"{total.prefetched:,} read ahead, of which {total.wasted:,} wasted"
    assert said in view.text()
    if ahead:
        # What landed between two windows is in no record, and in the pool's counters.
        assert 0 < kept.prefetched <= total.prefetched
        assert total.wasted > 0
    else:
        assert kept.bytes_read == total.bytes_read > 0
        assert rows(view, "reads")[0]["ahead"] == 0
        assert sum(row["wanted"] for row in rows(view, "reads")) == total.bytes_read


def settle(pool: Any) -> None:
    while any(pool.counts(layer).in_flight for layer in range(pool.source.layers)):
        time.sleep(0.001)


def test_what_has_no_trace_is_refused() -> None:
    with pytest.raises(TypeError, match="a trace is wanted, or an engine"):
        SlotsAndIO(3)
