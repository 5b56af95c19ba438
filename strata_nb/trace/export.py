"""A trace in other formats: JSON with everything, CSV with one of its two tables."""

import json
import os
from pathlib import Path

import polars as pl

from strata_nb.files import write_text

from .columns import VERSION
from .store import Trace
from .tables import to_file_frame


def export(trace: Trace, path: str | os.PathLike[str], *, layers: bool = False) -> None:
    """Write `trace` in the format that the name of `path` asks for.

    `.parquet` is the trace file itself; `.json` holds all of it, columns named as in
    trace_schema.md; `.csv` holds one row a window, lists as JSON text.

    Args:
        trace: what to write.
        path: the file, replaced whole if there is one.
        layers: CSV only: one row a window and layer instead.

    Raises:
        ValueError: another suffix, or `layers` for another format than CSV.
        OSError: the folder or disk does not take it.
    """
    suffix = Path(path).suffix.lower()
    if layers and suffix != ".csv":
        raise ValueError(f"layers are a table of their own in .csv only, got {suffix}")
    if suffix == ".parquet":
        trace.save(path)
    elif suffix == ".json":
        write_text(path, _json(trace))
    elif suffix == ".csv":
        write_text(path, _csv(trace.layers_frame() if layers else trace.frame()))
    else:
        raise ValueError(
            f"a trace becomes .parquet, .json or .csv, got {suffix or 'no suffix'} in "
            f"{Path(path).name}; choose one of these endings"
        )


def _json(trace: Trace) -> str:
    whole = {
        "version": VERSION,
        "provenance": trace.provenance,
        "windows": to_file_frame(list(trace)).to_dicts(),
    }
    return json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(frame: pl.DataFrame) -> str:
    """The table with its lists as JSON text, which CSV has no form for."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    texts = [
        pl.Series(
            name,
            [
                json.dumps(values, ensure_ascii=False)
                for values in frame[name].to_list()
            ],
            pl.String,
        )
        for name in lists
    ]
    return frame.with_columns(texts).write_csv()
