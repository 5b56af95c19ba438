"""The file of a trace gives all of it back, and others are refused by column."""

import io
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_nb import trace as record_room
from strata_nb.errors import TraceError
from strata_nb.trace import (
    LayerDecisions,
    LayerRecord,
    Trace,
    WindowRecord,
    schema,
)
from strata_nb.trace.columns import (
    LAYER_COLUMNS,
    PROVENANCE_KEY,
    VERSION_KEY,
    WINDOW_COLUMNS,
)
from trace_samples import (
    IDS,
    measured_window,
    plain,
    prompt_window,
    window,
    write_sealed,
)

ROUND_TRIPS = {
    "no windows": [],
    "no layers": [plain(0, 0), plain(3, 1)],
    "nothing measured": [window()],
    "everything measured": [measured_window()],
    "one row": [plain(0, 0, decisions=[LayerDecisions(IDS[:1])])],
    "eight rows": [
        plain(7, 7, decisions=[LayerDecisions(np.arange(80).reshape(8, 10))])
    ],
    "a long prompt": [prompt_window(1000)],
    "an empty layer": [plain(1, 0, decisions=[LayerDecisions(np.zeros((2, 0), int))])],
    "layers only here and there": [
        plain(0, 0),
        window(),
        plain(1, 1),
        plain(1, 0, decisions=[LayerDecisions(np.zeros((2, 0), int))]),
        prompt_window(3),
        plain(0, 0),
    ],
}


@pytest.mark.parametrize("records", ROUND_TRIPS.values(), ids=ROUND_TRIPS.keys())
def test_a_file_gives_back_what_was_saved(
    tmp_path: Path, records: list[WindowRecord]
) -> None:
    provenance = {"model": "ab12", "text": "ü ✓", "none": None, "nested": {"x": [1.5]}}
    trace = Trace(records, provenance=provenance)
    trace.save(tmp_path / "t.parquet")
    back = Trace.load(tmp_path / "t.parquet")
    assert list(back) == records
    assert back.provenance == provenance
    assert back == trace
    for one, other in zip(trace, back, strict=True):
        assert [x.expert_ids.shape for x in one.layers] == [
            x.expert_ids.shape for x in other.layers
        ]
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


TOKENS = st.integers(0, 2**40)


@st.composite
def windows(draw: st.DrawFn) -> WindowRecord:
    """Any decode window."""
    rows = draw(st.integers(1, 8))
    offered = draw(st.integers(0, rows - 1))
    many = st.lists(TOKENS, min_size=rows, max_size=rows)
    choices = draw(st.integers(0, 3))
    ids = st.lists(
        st.integers(-1, 5), min_size=rows * choices, max_size=rows * choices
    ).map(lambda flat: LayerDecisions(np.array(flat, int).reshape(rows, choices)))
    return plain(
        offered,
        0,
        position=draw(TOKENS),
        inputs=draw(many),
        predictions=draw(many),
        emitted=draw(st.lists(TOKENS, max_size=rows)),
        accepted=draw(st.integers(0, offered)),
        keep=draw(st.integers(1, rows)),
        drafter=draw(st.text(st.characters(codec="utf-8"), max_size=4)),
        warm=draw(st.sampled_from([None, True, False])),
        run_ms=draw(st.none() | st.floats(0, 1e9)),
        decisions=draw(st.lists(ids, max_size=3)),
    )


# No deadline: a busy machine is no error.
@settings(deadline=None)
@given(st.lists(windows(), max_size=4))
def test_any_trace_survives_its_file(records: list[WindowRecord]) -> None:
    frame = record_room.tables.to_file_frame(records)
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    back = record_room.tables.from_file_frame(pl.read_parquet(buffer.getvalue()))
    assert back == records


def test_a_trace_recorded_elsewhere_loads(tmp_path: Path) -> None:
    # Columns in another order, no provenance, plain Python values.
    row = {
        "layers": [
            {
                "expert_ids": [1, 2, 2, 3],
                "layer": 0,
                "cold_beyond_root": 1,
                "cold_beyond_kept": 1,
                "root_only_size": 2,
                "union_size": 3,
            }
        ],
        "keep": 1,
        "position": 0,
        "T": 2,
        "inputs": [4, 5],
        "predictions": [6, 7],
        "emitted": [6],
        "offered": 1,
        "accepted": 0,
        "forced": False,
        "rule": "greedy",
        "drafter": "elsewhere",
        "headless": False,
        "approximate": [],
    }
    frame = pl.DataFrame([row], schema=schema()).select(reversed(schema().names()))
    frame.write_parquet(tmp_path / "t.parquet", metadata={VERSION_KEY: "1"})
    (record,) = Trace.load(tmp_path / "t.parquet")
    assert (record.drafter, record.T, record.run_ms) == ("elsewhere", 2, None)
    assert record.layers[0].expert_ids.tolist() == [[1, 2], [2, 3]]


def struct(**changes: Any) -> pl.Expr:
    """`layers` with some of its fields made anew."""
    return pl.col("layers").list.eval(
        pl.element().struct.with_fields(
            **{name: pl.lit(value) for name, value in changes.items()}
        )
    )


WRONG_FILES = {
    "missing": (lambda f: f.drop("keep"), "must have the column `keep` \\(Int64\\)"),
    "extra": (
        lambda f: f.with_columns(extra=pl.lit(1)),
        "must have the columns of trace_schema.md only, got `extra` \\(Int32\\)",
    ),
    "mistyped": (
        lambda f: f.cast({"keep": pl.Int32}),
        "must have `keep` as Int64, got Int32; cast it",
    ),
    "mistyped list": (
        lambda f: f.cast({"inputs": pl.List(pl.Int32)}),
        "must have `inputs` as List\\(Int64\\), got List\\(Int32\\)",
    ),
    "layers missing": (lambda f: f.drop("layers"), "must have the column `layers`"),
    "layers mistyped": (
        lambda f: f.with_columns(layers=pl.lit("x")),
        "must have `layers` as list of struct, got String",
    ),
    "field extra": (
        lambda f: f.with_columns(struct(extra=1)),
        "got `layers.extra` \\(Int32\\) as well; leave it out",
    ),
    "field mistyped": (
        lambda f: f.with_columns(struct(miss="one")),
        "must have `layers.miss` as Int64, got String",
    ),
    "null": (
        lambda f: f.with_columns(keep=pl.lit(None, pl.Int64)),
        "must have a value in every `keep`, got 2 null",
    ),
    "null in a list": (
        lambda f: f.with_columns(inputs=pl.lit([1, None, 3], pl.List(pl.Int64))),
        "must have a value in every `inputs`, got 2 null",
    ),
    "null in a layer": (
        lambda f: f.with_columns(struct(union_size=None).cast(f.schema["layers"])),
        "must have a value in every `layers.union_size`, got 2 null",
    ),
    "null layers": (
        lambda f: f.with_columns(layers=pl.lit(None, f.schema["layers"])),
        "must have a value in every `layers`, got 2 null",
    ),
    "impossible": (
        lambda f: f.with_columns(keep=pl.Series([2, 9])),
        "contradicts itself in window 1: `keep` must be 1 to T = 3, got 9",
    ),
    "wrong T": (
        lambda f: f.with_columns(T=pl.lit(4, pl.Int64)),
        "window 0: `T` must be the length of `inputs`, 3, got 4",
    ),
    "wrong count": (
        lambda f: f.with_columns(
            struct(union_size=9).cast(f.schema["layers"]),
        ),
        "window 0: `union_size` of layer 1 must be 5 by its `expert_ids`, got 9",
    ),
    "ragged ids": (
        lambda f: f.with_columns(
            pl.col("layers").list.eval(
                pl.element().struct.with_fields(
                    expert_ids=pl.lit([1, 2, 3, 4], pl.List(pl.Int32))
                )
            )
        ),
        "window 0: `expert_ids` of layer 1 must hold 3 \\* K ids, got 4",
    ),
}


@pytest.mark.parametrize(
    ("change", "message"), WRONG_FILES.values(), ids=WRONG_FILES.keys()
)
def test_a_file_that_does_not_fit_is_refused_by_column(
    tmp_path: Path, change: Any, message: str
) -> None:
    good = record_room.tables.to_file_frame([window(), window()])
    path = tmp_path / "t.parquet"
    write_sealed(path, good)
    assert len(Trace.load(path)) == 2
    write_sealed(path, change(good))
    with pytest.raises(TraceError, match=message):
        Trace.load(path)


@pytest.mark.parametrize("version", ["2", None])
def test_another_version_is_refused(tmp_path: Path, version: str | None) -> None:
    metadata = {} if version is None else {VERSION_KEY: version}
    path = tmp_path / "t.parquet"
    frame = record_room.tables.to_file_frame([window()])
    frame.write_parquet(path, metadata=metadata)
    with pytest.raises(TraceError, match=f"= 1 in its metadata, got {version}"):
        Trace.load(path)


HOSTILE_PROVENANCE = {
    "a list": "[1]",
    "cut": "{",
    "NaN": '{"a": NaN}',
    "infinity": '{"a": 1e999}',
    "digits": '{"a": %s}' % ("9" * 5000),
    "fewer digits": '{"a": %s}' % ("9" * 400),
    "deep": '{"a": ' * 100 + "1" + "}" * 100,
    "deeper": '{"a": ' * 900 + "1" + "}" * 900,
    "deepest": "[" * 100_000,
    "a cursor": "\x1b[2J",
}


@pytest.mark.parametrize(
    "provenance", HOSTILE_PROVENANCE.values(), ids=HOSTILE_PROVENANCE.keys()
)
def test_provenance_that_is_no_json_object_is_refused(
    tmp_path: Path, provenance: str
) -> None:
    path = tmp_path / "t.parquet"
    frame = record_room.tables.to_file_frame([window()])
    write_sealed(path, frame, **{PROVENANCE_KEY: provenance})
    with pytest.raises(TraceError, match="must hold a JSON object in") as caught:
        Trace.load(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.with_columns(pl.lit("\x1b[2J").alias("stop")),
        lambda f: f.with_columns(pl.lit(1).alias("\x1b[2J")),
        lambda f: f.with_columns(pl.struct(pl.lit(1).alias("\x1b[2J")).alias("keep")),
        lambda f: f.with_columns(pl.struct(pl.lit(1).alias("\x1b[2J")).alias("new")),
    ],
    ids=["value", "column", "type", "extra type"],
)
def test_a_refusal_moves_no_cursor(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "t.parquet"
    write_sealed(path, change(record_room.tables.to_file_frame([window()])))
    with pytest.raises(TraceError, match=r"\\x1b\[2J") as caught:
        Trace.load(path)
    assert str(caught.value).isprintable()


def test_a_version_moves_no_cursor(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = record_room.tables.to_file_frame([window()])
    write_sealed(path, frame, **{VERSION_KEY: "\x1b[2J"})
    with pytest.raises(TraceError, match=r"metadata, got \\x1b\[2J;"):
        Trace.load(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    Trace([window()] * 20).save(path)
    whole = path.read_bytes()
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match="whole Parquet file, got"):
            Trace.load(path)
    path.write_text("not a trace at all, but long enough")
    with pytest.raises(TraceError, match="whole Parquet file, got 35 bytes"):
        Trace.load(path)


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape("none.parquet")):
        Trace.load(tmp_path / "none.parquet")


TYPE_WORDS = {
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "bool": pl.Boolean(),
    "string": pl.String(),
    "list of int64": pl.List(pl.Int64),
    "list of int32": pl.List(pl.Int32),
    "list of string": pl.List(pl.String),
}


def documented(heading: str) -> dict[str, tuple[str, str, str]]:
    """Type, nullable and compared of each column in one table of trace_schema.md."""
    room = resources.files(record_room)
    text = (room / "trace_schema.md").read_text(encoding="utf-8")
    part = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \| .+ \|$", part, re.M)
    return {
        name: (dtype, nullable, compared) for name, dtype, nullable, compared in rows
    }


@pytest.mark.parametrize(
    ("heading", "columns"),
    [("Columns", WINDOW_COLUMNS), ("Fields of `layers`", LAYER_COLUMNS)],
    ids=["windows", "layers"],
)
def test_document_and_code_name_the_same_columns(heading: str, columns: Any) -> None:
    words = {True: "yes", False: "no"}
    rows = documented(heading)
    if heading == "Columns":
        assert rows.pop("layers") == ("list of struct", "no", "yes")
    assert {
        name: (TYPE_WORDS[dtype], nullable, compared)
        for name, (dtype, nullable, compared) in rows.items()
    } == {
        name: (c.dtype, words[c.nullable], words[c.compared])
        for name, c in columns.items()
    }
    assert list(rows) == list(columns)


def test_records_and_columns_name_the_same_fields() -> None:
    window_fields = set(WindowRecord.__dataclass_fields__) - {"layers"}
    assert window_fields | {"T"} == set(WINDOW_COLUMNS)
    assert set(LayerRecord.__dataclass_fields__) == set(LAYER_COLUMNS)
