"""`FoldView`: each row of a window, against counts by hand."""

from pathlib import Path
from typing import Any

import pytest

from helpers import advance, prompt
from strata_nb import Model, Trace
from strata_nb.faults import FAULTS
from strata_nb.trace import WindowRecord, window_record
from strata_widgets.fold import FoldView
from strata_widgets.fold.drawings import LINES, REJECTED, ROOT, SAVED, TAKEN


def records(
    *windows: tuple[int, int], fold: str | None = "lazy", partial: bool | None = False
) -> list[WindowRecord]:
    """Windows of T rows, keep of them kept, one after the other."""
    made: list[WindowRecord] = []
    position = 0
    for T, keep in windows:
        made.append(
            window_record(
                position=position,
                inputs=[1] * T,
                keep=keep,
                predictions=[1] * T,
                fold=fold,
                partial=partial,
            )
        )
        position += keep
    return made


def boxes(view: FoldView) -> list[tuple[str, int, str, str, bool]]:
    return [
        (LINES[r["line"]], r["row"], r["text"], r["state"], r.get("replayed", False))
        for r in view._live["rows"].rows
        if "state" in r
    ]


def facts(view: FoldView) -> dict[str, Any]:
    return {str(row[0]): row[1] for row in view._tables()[0].rows}


def test_lazy_and_partial() -> None:
    view = FoldView(records((3, 2), (4, 3), partial=True))
    assert boxes(view) == [
        ("run begins", 1, "replay", TAKEN, True),
        ("run", 0, "partial", ROOT, False),
        ("run", 1, "saved", SAVED, False),
        ("run", 2, "saved", SAVED, False),
        ("run", 3, "saved", SAVED, False),
        ("commit", 0, "in S", TAKEN, False),
        ("commit", 1, "due", SAVED, False),
        ("commit", 2, "due", SAVED, False),
        ("commit", 3, "✗", REJECTED, False),
        ("next run", 1, "replay", TAKEN, True),
        ("next run", 2, "replay", TAKEN, True),
    ]
    assert repr(view) == (
        "FoldView(2 windows, 2 replay 3 rows; window 1: T = 4, keep 3, lazy, partial; "
        "commit: leaves due 2 rows from offset 1; next run begins with a replay of 2 "
        "rows)"
    )
    found = facts(view)
    assert found["rows to replay"] == "row 1, row 2"
    assert found["run begins with"] == "a replay of 1 row"
    assert found["state after row 0"] == "yes: partial"
    # Two commits: with two buffers, the first again.
    assert "of two buffers, 0 would hold it" in found["double buffer's parity"]
    assert found["double buffer's parity"].startswith("not recorded")
    assert found["time of the fold"] == "not recorded"


def test_eager_without_partial() -> None:
    view = FoldView(records((4, 2), fold="eager"))
    assert boxes(view) == [
        ("run", 0, "saved", SAVED, False),
        ("run", 1, "saved", SAVED, False),
        ("run", 2, "saved", SAVED, False),
        ("run", 3, "saved", SAVED, False),
        ("commit", 0, "replay", TAKEN, True),
        ("commit", 1, "replay", TAKEN, True),
        ("commit", 2, "✗", REJECTED, False),
        ("commit", 3, "✗", REJECTED, False),
    ]
    assert facts(view)["commit"] == "replays 2 rows from offset 0"
    assert facts(view)["next run begins with"] == "nothing"


def test_one_row_and_a_prompt_leave_nothing_due() -> None:
    prompted = window_record(position=0, inputs=[1] * 40, keep=40, headless=True)
    (one,) = records((1, 1))
    after = WindowRecord(**{**vars(one), "position": 40})
    view = FoldView([prompted, after])
    assert boxes(view) == [
        ("run", 0, "in S", TAKEN, False),
        ("commit", 0, "in S", TAKEN, False),
    ]
    assert facts(view)["state after row 0"] == "yes: the only row"
    view.select(window=0)
    assert [b[:3] for b in boxes(view)] == [
        ("run", 0, "40 rows of a prompt"),
        ("commit", 0, "40 rows of a prompt"),
    ]
    assert facts(view)["commit"] == "nothing to replay"


def test_what_the_record_lacks_is_said() -> None:
    view = FoldView(records((4, 2), fold=None, partial=None))
    assert "of 1 the record does not say how" in repr(view)
    found = facts(view)
    names = ("fold", "state after row 0", "rows to replay", "commit")
    assert {found[name] for name in names} == {"not recorded"}
    # That rows 2 and 3 were rejected is known all the same.
    assert [b[:3] for b in boxes(view)] == [("commit", 2, "✗"), ("commit", 3, "✗")]


def test_a_state_from_elsewhere_has_no_window_before() -> None:
    first, second = records((4, 2), (4, 2))
    view = FoldView([first, WindowRecord(**{**vars(second), "position": 90})])
    assert facts(view)["run begins with"] == "a state from elsewhere"
    assert "run begins" not in {b[0] for b in boxes(view)}


def test_an_empty_trace_says_what_to_do() -> None:
    view = FoldView(Trace())
    assert repr(view) == "FoldView(no windows yet)"
    assert {r.get("note") for r in view._live["rows"].rows} >= {
        "Run a window, and its fold appears here."
    }
    assert view.snapshot().png()[:4] == b"\x89PNG"


def test_the_table_marks_the_selected_window_and_stays_short() -> None:
    view = FoldView(records(*[(4, 2)] * 3000))
    table = view._tables()[1]
    assert (len(table.rows), table.marked, table.hidden) == (8, 7, 2992)
    view.select(window=100)
    table = view._tables()[1]
    assert table.marked is not None
    assert table.rows[table.marked][0] == 100
    assert table.rows[table.marked][1] == 200
    view._clicked({"window": 99, "row": 1})
    assert view.selection["window"] == 99
    assert len(view._live["rows"].rows) < 40
    view.select(window=5000)
    assert "window 5000 is selected, which this trace lacks" in repr(view)
    assert "window 2999" in repr(view)


def test_it_follows_a_trace_and_what_is_undone() -> None:
    trace = Trace(records((4, 2)))
    view = FoldView(trace)
    trace.append(WindowRecord(**{**vars(records((3, 3))[0]), "position": 2}))
    view.refresh()
    assert "2 windows, 2 replay 5 rows" in repr(view)
    trace.truncate(1)
    view.refresh()
    assert "FoldView(1 window, 1 replays 2 rows;" in repr(view)


def test_an_engine_tells_layers_an_open_window_and_a_fault(small: Model) -> None:
    engine = small.engine(fault="gdn_parity", fold="eager", partial=True)
    ids = prompt(small, 20, seed=1)
    engine.prefill(ids[:8])
    advance(engine, ids[8:12], keep=2)
    view = FoldView(engine)
    kinds = small.config.layer_types
    indexed, folding = kinds.index("indexed_attention"), kinds.index("linear_attention")
    view.select(layer=indexed)
    assert facts(view)["layer"].endswith("it has no S and no fold")
    view.select(layer=folding)
    assert facts(view)["layer"].endswith("its S folds like this")
    view.select(layer=len(kinds))
    assert facts(view)["layer"] == f"the model has no layer {len(kinds)}"
    assert FAULTS["gdn_parity"].what in facts(view)["planted"]
    window = engine.run(ids[10:13])
    view.update()
    assert "a window of 3 rows is open (run): its rows are saved" in repr(view)
    engine.abort(window)
    view.update()
    assert "is open" not in repr(view)


def test_one_row_is_one_row() -> None:
    assert "1 window, 1 replays 1 row;" in repr(FoldView(records((2, 1))))
    assert "1 window, 0 replay 0 rows;" in repr(FoldView(records((1, 1))))


def test_what_is_due_is_taken_in_by_whom_it_says(small: Model, tmp_path: Path) -> None:
    engine = small.engine(fold="lazy", partial=False)
    ids = prompt(small, 20, seed=1)
    engine.prefill(ids[:8])
    advance(engine, ids[8:12], keep=2)
    assert facts(FoldView(engine))["taken in earlier"] == (
        "not recorded: a fork takes in what is due, a digest or file not"
    )
    due = engine._now.state
    engine.digests()
    engine.save(tmp_path / "state.safetensors")
    assert engine._now.state is due
    engine.fork()
    assert engine._now.state is not due


def test_misuse() -> None:
    with pytest.raises(TypeError, match="a trace is wanted, or an engine or a session"):
        FoldView(3)
