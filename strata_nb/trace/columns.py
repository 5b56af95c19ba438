"""The columns of a trace file. `trace_schema.md` says the same in words."""

from typing import NamedTuple

import polars as pl

VERSION = "1"
# Keys in the Parquet file's own metadata.
VERSION_KEY = "strata_nb.trace.version"
PROVENANCE_KEY = "strata_nb.trace.provenance"


class Column(NamedTuple):
    """One column: its type, may it be null, does `compare` look at it."""

    dtype: pl.DataType
    nullable: bool = False
    compared: bool = True


_INT = pl.Int64()
_MS = Column(pl.Float64(), nullable=True, compared=False)
_COUNT = Column(_INT, nullable=True)
_TOKENS = Column(pl.List(pl.Int64))

WINDOW_COLUMNS: dict[str, Column] = {
    "position": Column(_INT),
    "T": Column(_INT),
    "inputs": _TOKENS,
    "predictions": _TOKENS,
    "emitted": _TOKENS,
    "offered": Column(_INT),
    "accepted": Column(_INT),
    "keep": Column(_INT),
    "forced": Column(pl.Boolean()),
    "stop": Column(pl.String(), nullable=True),
    "rule": Column(pl.String()),
    "drafter": Column(pl.String()),
    "match_length": _COUNT,
    "headless": Column(pl.Boolean()),
    "approximate": Column(pl.List(pl.String)),
    "fold": Column(pl.String(), nullable=True),
    "partial": Column(pl.Boolean(), nullable=True),
    # Warm or not depends on what the process did before, late on the disk's mood.
    "warm": Column(pl.Boolean(), nullable=True, compared=False),
    "draft_ms": _MS,
    "run_ms": _MS,
    "expert_wait_ms": _MS,
    "finish_ms": _MS,
    "commit_ms": _MS,
    "fold_ms": _MS,
}

LAYER_COLUMNS: dict[str, Column] = {
    "layer": Column(_INT),
    "expert_ids": Column(pl.List(pl.Int32)),
    "union_size": Column(_INT),
    "root_only_size": Column(_INT),
    "cold_beyond_root": Column(_INT),
    "cold_beyond_kept": Column(_INT),
    "resident": _COUNT,
    "miss": _COUNT,
    "late": Column(_INT, nullable=True, compared=False),
    "prefetched": _COUNT,
    "evicted": _COUNT,
    "bytes_read": _COUNT,
    "prefetched_bytes": _COUNT,
}


def dtypes(columns: dict[str, Column]) -> dict[str, pl.DataType]:
    """Names and types of `columns`, in order."""
    return {name: column.dtype for name, column in columns.items()}


def schema() -> pl.Schema:
    """Names and types of a trace file: the window columns, then `layers`."""
    layers = pl.List(pl.Struct(dict(dtypes(LAYER_COLUMNS))))
    return pl.Schema({**dtypes(WINDOW_COLUMNS), "layers": layers})


def flat(columns: pl.Schema) -> dict[str, object]:
    """Types by name; the fields of `layers` as well, as `layers.miss` and so on."""
    found: dict[str, object] = dict(columns)
    layers = columns.get("layers")
    inner = layers.inner if isinstance(layers, pl.List) else None
    if isinstance(inner, pl.Struct):
        found["layers"] = "list of struct"
        found |= {f"layers.{field.name}": field.dtype for field in inner.fields}
    return found


def null_counts(frame: pl.DataFrame) -> dict[str, int]:
    """Nulls, by column, where a table in the file's schema must have none."""
    layers = frame["layers"]
    inner = layers.explode(empty_as_null=False).struct.unnest()
    counts = {"layers": layers.null_count()}
    counts |= {
        name: _nulls(frame[name])
        for name, c in WINDOW_COLUMNS.items()
        if not c.nullable
    }
    return counts | {
        f"layers.{name}": _nulls(inner[name])
        for name, c in LAYER_COLUMNS.items()
        if not c.nullable
    }


def _nulls(series: pl.Series) -> int:
    """Nulls in a column, those inside its lists included."""
    count = series.null_count()
    if isinstance(series.dtype, pl.List):
        count += series.explode(empty_as_null=False, keep_nulls=False).null_count()
    return count
