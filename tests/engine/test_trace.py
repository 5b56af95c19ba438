"""The record: what is counted, what is refused, what a trace is."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from strata_nb.trace import (
    LayerDecisions,
    LayerRecord,
    Trace,
    check_draft,
)
from strata_nb.trace.columns import LAYER_COLUMNS, WINDOW_COLUMNS
from trace_samples import IDS, plain, window


def test_the_experts_of_a_layer_are_counted() -> None:
    (layer,) = window(keep=2).layers
    assert layer.layer == 1
    assert (layer.union_size, layer.root_only_size) == (5, 2)
    assert (layer.cold_beyond_root, layer.cold_beyond_kept) == (3, 2)


@pytest.mark.parametrize(("keep", "beyond_kept"), [(1, 3), (2, 2), (3, 0)])
def test_more_kept_rows_leave_fewer_experts_beyond_them(
    keep: int, beyond_kept: int
) -> None:
    assert LayerRecord.from_decisions(0, IDS, keep).cold_beyond_kept == beyond_kept


def test_an_unused_choice_is_no_expert() -> None:
    layer = LayerRecord.from_decisions(0, [[4, -1], [-1, 4]], 1)
    assert (layer.union_size, layer.root_only_size, layer.cold_beyond_root) == (1, 1, 0)


def test_a_record_does_not_change_with_the_array_it_came_from() -> None:
    ids = IDS.astype(np.int32)
    layer = LayerRecord.from_decisions(0, ids, 1)
    ids[:] = 0
    assert layer.expert_ids.tolist() == IDS.tolist()
    with pytest.raises(ValueError, match="read-only"):
        layer.expert_ids[0, 0] = 1


def test_what_was_not_measured_is_none() -> None:
    record = window()
    unmeasured = [name for name, c in LAYER_COLUMNS.items() if c.nullable]
    assert len(unmeasured) == 7
    assert {getattr(record.layers[0], name) for name in unmeasured} == {None}
    assert (record.run_ms, record.total_ms, record.warm) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": 0, "decisions": []}, "`keep` must be 1 to T = 3, got 0"),
        ({"keep": 4}, "`keep` must be 1 to T = 3, got 4"),
        ({"accepted": 3}, "`accepted` must be 0 to offered = 2, got 3"),
        ({"offered": 3}, "`offered` must be 0 to T - 1 = 2, got 3"),
        ({"headless": True, "predictions": ()}, "`offered` must be 0 in a headless"),
        ({"predictions": (1,)}, "`predictions` must be T = 3 tokens, got \\(1,\\)"),
        ({"position": -1}, "`position` must be 0 or more, got -1"),
        ({"stop": "eos"}, '`stop` must be "stop", "limit" or None, got eos'),
        ({"fold": "both"}, '`fold` must be "lazy", "eager" or None, got both'),
        ({"run_ms": float("nan")}, "`run_ms` must be 0 or more milliseconds, got nan"),
        ({"run_ms": -1.0}, "`run_ms` must be 0 or more milliseconds, got -1.0"),
        (
            {"decisions": [LayerDecisions(IDS[:2])]},
            "`expert_ids` of layer 0 must have T = 3 rows, got 2",
        ),
        (
            {"decisions": [LayerDecisions(IDS[0])]},
            "`expert_ids` must be \\[T, K\\], got shape \\(2,\\)",
        ),
    ],
)
def test_impossible_numbers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        window(**changes)


def test_tokens_must_be_integers() -> None:
    with pytest.raises(TypeError, match="`inputs` must be integers, got"):
        window(inputs=(1.5, 2, 3))


UNRECORDABLE = [
    ({"drafter": 5}, TypeError, "`drafter` must be text, got 5"),
    ({"drafter": None}, TypeError, "`drafter` must be text, got None"),
    ({"drafter": "\ud800"}, ValueError, r"`drafter` must be .*, got '\\ud800'"),
    ({"match_length": "x"}, TypeError, "`match_length` must be an integer or None"),
    ({"match_length": 2.5}, TypeError, "`match_length` must be an integer or None"),
    ({"match_length": True}, TypeError, "`match_length` must be an integer or None"),
    ({"match_length": -1}, ValueError, "`match_length` must be 0 or more .* got -0x1"),
    ({"match_length": 2**63}, ValueError, "`match_length` must be .* below 2\\*\\*63"),
    ({"match_length": 10**5000}, ValueError, "`match_length` must be .* below"),
    ({"draft_ms": "1"}, TypeError, "`draft_ms` must be a number or None, got '1'"),
    ({"draft_ms": True}, TypeError, "`draft_ms` must be a number or None, got True"),
    ({"draft_ms": float("nan")}, ValueError, "`draft_ms` must be 0 or more"),
    ({"draft_ms": -1.0}, ValueError, "`draft_ms` must be 0 or more milliseconds"),
    ({"draft_ms": 10**400}, ValueError, "`draft_ms` must be 0 or more .*, got inf"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), UNRECORDABLE)
def test_what_no_file_can_hold_is_refused_before_the_window_runs_and_after(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    good: dict[str, Any] = {"drafter": "hand", "match_length": None, "draft_ms": None}
    check_draft(**good)
    with pytest.raises(error, match=message):
        check_draft(**good | wrong)
    with pytest.raises(error, match=message):
        window(**wrong)


@pytest.mark.parametrize("name", ["rule", "approximate"])
def test_names_are_text(name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` must be text, got 5"):
        window(**{name: 5 if name == "rule" else ("MoCE", 5)})


@pytest.mark.parametrize("name", ["forced", "headless", "partial", "warm"])
@pytest.mark.parametrize("value", ["no", 1, 0.0])
def test_flags_are_true_or_false(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"`{name}` must be True or False, got"):
        window(**{name: value})


def test_only_what_can_be_unmeasured_is_none() -> None:
    assert window(partial=None, warm=None).partial is None
    with pytest.raises(TypeError, match="`forced` must be True or False, got None"):
        window(forced=None)


def test_numpy_numbers_become_plain_ones() -> None:
    record = window(match_length=np.int32(3), draft_ms=np.float32(0.5))
    assert (type(record.match_length), type(record.draft_ms)) == (int, float)
    assert (record.match_length, record.draft_ms) == (3, 0.5)


def test_a_trace_is_a_list_of_windows() -> None:
    records = [window(position=i) for i in range(4)]
    trace = Trace(records[:1], provenance={"model": "m"})
    for record in records[1:]:
        trace.append(record)
    assert len(trace) == 4
    assert list(trace) == records
    assert trace[-1].position == 3
    assert [record.position for record in trace[1:3]] == [1, 2]
    assert trace[1:3].provenance == {"model": "m"}
    with pytest.raises(TypeError, match="a Trace holds WindowRecord, got dict"):
        trace.append({})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ({"a": {"b": {1, 2}}}, "provenance\\['a'\\]\\['b'\\] must be something JSON"),
        ({"a": [1.0, float("inf")]}, "provenance\\['a'\\]\\[1\\] must be"),
        ({1: 2}, "provenance must be .* text keys"),
        ({"a": Path("x")}, "provenance\\['a'\\] must be"),
    ],
)
def test_provenance_is_something_json_can_hold(bad: Any, where: str) -> None:
    with pytest.raises(TypeError, match=where):
        Trace(provenance=bad)


def nested(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


def test_provenance_has_an_end() -> None:
    assert Trace(provenance={"a": nested(63)}).provenance == {"a": nested(63)}
    endless: dict[str, Any] = {}
    endless["a"] = endless
    for deep in (endless, {"a": nested(64)}, {"a": nested(5000)}):
        with pytest.raises(ValueError, match="must not go deeper than 64 lists"):
            Trace(provenance=deep)


@pytest.mark.parametrize(
    "number", [10**308, -(10**308), 10**5000], ids=["large", "small", "huge"]
)
def test_a_number_in_provenance_is_one_that_others_can_read(number: int) -> None:
    assert Trace(provenance={"seed": 2**64}).provenance == {"seed": 2**64}
    with pytest.raises(ValueError, match=r"\['seed'\] must be a number below 1e308"):
        Trace(provenance={"seed": number})


def test_provenance_is_checked_again_when_saved(tmp_path: Path) -> None:
    trace = Trace()
    for late, error in ((object(), TypeError), (10**5000, ValueError)):
        trace.provenance["late"] = late
        with pytest.raises(error, match="provenance\\['late'\\]"):
            trace.save(tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_frame_has_one_row_a_window_and_layers_frame_one_a_layer() -> None:
    trace = Trace([plain(0, 0), window(run_ms=2.5), window(position=9)])
    frame, layers = trace.frame(), trace.layers_frame()
    assert frame.columns == list(WINDOW_COLUMNS)
    assert frame["T"].to_list() == [1, 3, 3]
    assert frame["run_ms"].to_list() == [None, 2.5, None]
    assert frame["inputs"].to_list()[1] == [10, 11, 12]
    assert layers.columns == ["window", "position", "T", "keep", *LAYER_COLUMNS]
    assert layers["window"].to_list() == [1, 2]
    assert layers["position"].to_list() == [5, 9]
    assert layers["expert_ids"].to_list() == [[3, 1, 1, 2, 7, 9]] * 2


def test_frames_of_an_empty_trace_have_their_columns() -> None:
    assert Trace().frame().schema == pl.Schema(
        {name: column.dtype for name, column in WINDOW_COLUMNS.items()}
    )
    assert Trace().layers_frame().schema == Trace([window()]).layers_frame().schema


def test_times_are_floats_and_the_waits_lie_inside_them() -> None:
    record = window(
        run_ms=np.float32(4), expert_wait_ms=3, finish_ms=1, commit_ms=2, fold_ms=2
    )
    assert {type(record.run_ms), type(record.expert_wait_ms)} == {float}
    assert record.total_ms == 7.0


def test_a_trace_forgets_its_last_windows() -> None:
    trace = Trace([window(position=i) for i in range(4)])
    trace.truncate(2)
    assert [record.position for record in trace] == [0, 1]
