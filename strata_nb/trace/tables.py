"""Records to polars tables and back."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import polars as pl

from .columns import LAYER_COLUMNS, WINDOW_COLUMNS, dtypes
from .records import LayerRecord, WindowRecord


def windows_frame(records: Sequence[WindowRecord]) -> pl.DataFrame:
    """One row a window, the columns of `WINDOW_COLUMNS`."""
    return _frame(records, WINDOW_COLUMNS)


def layers_frame(records: Sequence[WindowRecord]) -> pl.DataFrame:
    """One row a window and layer: `window`, `position`, `T`, `keep`, `LAYER_COLUMNS`.

    `window` is the index of the window's record. `expert_ids` is [T, K] row by row.
    """
    owners = [(i, record) for i, record in enumerate(records) for _ in record.layers]
    head = {
        "window": [i for i, _ in owners],
        "position": [record.position for _, record in owners],
        "T": [record.T for _, record in owners],
        "keep": [record.keep for _, record in owners],
    }
    layers = _frame([x for record in records for x in record.layers], LAYER_COLUMNS)
    return pl.DataFrame(head, schema=dict.fromkeys(head, pl.Int64)).hstack(layers)


def to_file_frame(records: Sequence[WindowRecord]) -> pl.DataFrame:
    """One row a window with the layers nested in it, as a trace file has them."""
    layers = layers_frame(records).drop("position", "T", "keep")
    nested = layers.group_by("window", maintain_order=True).agg(
        pl.struct(pl.exclude("window")).alias("layers")
    )
    return (
        windows_frame(records)
        .with_row_index("window")
        .cast({"window": pl.Int64})
        .join(nested, on="window", how="left", maintain_order="left")
        # A window without layers has an empty list, it is not "not measured".
        .with_columns(pl.col("layers").fill_null([]))
        .drop("window")
    )


def from_file_frame(frame: pl.DataFrame) -> list[WindowRecord]:
    """Records of a table that has the file's schema already.

    Raises:
        ValueError: a number that no window can have; window and column are named.
    """
    lengths = frame["layers"].list.len().to_list()
    # Row by row `layers` would become Python dicts of lists: slow for long prompts.
    layers = frame["layers"]
    flat = layers.explode(empty_as_null=False).struct.unnest()
    rows = flat.drop("expert_ids").iter_rows(named=True)
    arrays = _arrays(flat["expert_ids"])
    windows = frame.drop("layers").iter_rows(named=True)
    records = []
    for index, (row, count) in enumerate(zip(windows, lengths, strict=True)):
        own = [(next(rows), next(arrays)) for _ in range(count)]
        try:
            records.append(_record(row, own))
        except ValueError as error:
            raise ValueError(f"window {index}: {error}") from error
    return records


def _frame(records: Iterable[Any], columns: dict[str, Any]) -> pl.DataFrame:
    rows = list(records)
    series = [
        _id_lists([row.expert_ids for row in rows])
        if name == "expert_ids"
        else pl.Series(name, [getattr(row, name) for row in rows], dtype, strict=True)
        for name, dtype in dtypes(columns).items()
    ]
    return pl.DataFrame(series)


def _id_lists(arrays: Sequence[np.ndarray[Any, np.dtype[np.int32]]]) -> pl.Series:
    """A list column of flattened arrays."""
    lists = pl.Series("expert_ids", [a.ravel() for a in arrays], pl.List(pl.Int32))
    # Arrays of one length come out as polars' fixed-size type whatever was asked for.
    return lists.cast(pl.List(pl.Int32))


def _arrays(
    lists: pl.Series,
) -> Iterator[np.ndarray[Any, np.dtype[np.int32]]]:
    """The lists of a column as arrays over one buffer."""
    lengths = lists.list.len()
    values = lists.explode(empty_as_null=False).to_numpy()
    for start, end in pairwise(accumulate(lengths, initial=0)):
        yield values[start:end]


def _record(
    row: dict[str, Any], layers: list[tuple[dict[str, Any], Any]]
) -> WindowRecord:
    rows, keep = row.pop("T"), row["keep"]
    record = WindowRecord(**row)
    if len(record.inputs) != rows:
        raise ValueError(f"`T` must be the length of `inputs`, {record.T}, got {rows}")
    return WindowRecord(
        **row, layers=tuple(_layer(one, ids, rows, keep) for one, ids in layers)
    )


def _layer(row: dict[str, Any], ids: Any, rows: int, keep: int) -> LayerRecord:
    """One layer, its counts checked against its expert ids."""
    if len(ids) % rows:
        raise ValueError(
            f"`expert_ids` of layer {row['layer']} must hold {rows} * K ids, "
            f"got {len(ids)}"
        )
    layer = LayerRecord.from_decisions(row["layer"], ids.reshape(rows, -1), keep)
    given = LayerRecord(**row, expert_ids=layer.expert_ids)
    for name in (
        "union_size",
        "root_only_size",
        "cold_beyond_root",
        "cold_beyond_kept",
    ):
        if getattr(given, name) != getattr(layer, name):
            raise ValueError(
                f"`{name}` of layer {row['layer']} must be {getattr(layer, name)} by "
                f"its `expert_ids`, got {getattr(given, name)}"
            )
    return given
