"""The file of a recording: one Parquet table, one row a place; see `courses.md`."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from strata_nb.bench.courses import Course, Prices, Recording, Spot
from strata_nb.errors import TraceError
from strata_nb.files import write_bytes
from strata_nb.trace.quoting import escaped, shown
from strata_nb.trace.seal import SEAL_KEY, UNSEALED, check, sealed

BUNDLED = Path(__file__).parents[1] / "data" / "courses" / "strata-tiny.parquet"
HELD_OUT = BUNDLED.with_name("held_out.parquet")
VERSION = "1"
VERSION_KEY = "strata_nb.courses.version"
ABOUT_KEY = "strata_nb.courses.about"

SCHEMA = pl.Schema(
    {
        "kind": pl.String(),
        "prompt": pl.UInt16(),
        "drafter": pl.String(),
        "max_new": pl.UInt16(),
        "position": pl.UInt32(),
        "root": pl.UInt32(),
        "emits": pl.UInt32(),
        "draft": pl.List(pl.UInt32),
        "accepted": pl.UInt8(),
        "match_length": pl.UInt32(),
        "chances": pl.List(pl.Float64),
        "routes": pl.List(pl.UInt16),
    }
)
_NULLABLE = ("match_length", "chances")
_COURSE = ("kind", "prompt", "drafter", "max_new")


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write one file; an older one at `path` is replaced whole or kept.

    Raises:
        ValueError: there is no course in it.
        TypeError: `provenance` holds what JSON cannot.
        OSError: the folder or disk does not take it.
    """
    if not recording.courses:
        raise ValueError("a recording wants one course or more, got none; record one")
    prices = recording.prices
    _, layers, experts = recording.courses[0].spots[0].routes.shape
    about = {
        "layers": layers,
        "experts_per_row": experts,
        "window_ms": list(prices.window_ms),
        "layer_ms": prices.layer_ms,
        "draft_ms": dict(prices.draft_ms),
        "expert_bytes": prices.expert_bytes,
        "provenance": dict(recording.provenance),
    }
    frame = pl.DataFrame(list(_rows(recording)), schema=SCHEMA, orient="row")
    buffer = io.BytesIO()
    metadata = {
        VERSION_KEY: VERSION,
        ABOUT_KEY: json.dumps(about, sort_keys=True, allow_nan=False),
        SEAL_KEY: UNSEALED,
    }
    frame.write_parquet(
        buffer, metadata=metadata, compression="zstd", compression_level=19
    )
    write_bytes(path, sealed(buffer.getvalue()))


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a file of this version.

    Raises:
        TraceError: it is no recording, a damaged one, of another version, or what it
            holds contradicts itself.
        OSError: there is no such file.
    """
    name = escaped(Path(path).name)
    data = Path(path).read_bytes()
    check(data, name)
    try:
        frame, metadata = pl.read_parquet(data), pl.read_parquet_metadata(data)
    # A damaged page can make polars panic, and its panic is no `Exception`.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = escaped("".join(str(error).splitlines()[:1]))
        raise TraceError(
            f"{name} wants to be a whole Parquet file, got {len(data)} bytes that "
            f"polars cannot read ({why}); copy or record it again"
        ) from error
    _check(frame, metadata, name)
    try:
        return _recording(frame, json.loads(metadata[ABOUT_KEY]))
    except (KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else escaped(str(error))
        raise TraceError(
            f"{name} contradicts itself: {what[:300]}; record it again"
        ) from error


def _check(frame: pl.DataFrame, metadata: dict[str, str], name: str) -> None:
    if metadata.get(VERSION_KEY) != VERSION or ABOUT_KEY not in metadata:
        raise TraceError(
            f"{name} wants `{VERSION_KEY}` = {VERSION} and `{ABOUT_KEY}` in its "
            f"metadata, got {shown(metadata.get(VERSION_KEY))}; it is no recording of "
            "courses, or another release wrote it: use that release"
        )
    if frame.schema != SCHEMA:
        wanted, got = dict(SCHEMA), dict(frame.schema)
        differ = [c for c in {**wanted, **got} if wanted.get(c) != got.get(c)]
        raise TraceError(
            f"{name} wants the columns of courses.md in their order, got others for "
            f"{escaped(', '.join(differ) or 'their order')}; record it again"
        )
    nulls = [c for c in SCHEMA if c not in _NULLABLE and frame[c].null_count()]
    if nulls or not len(frame):
        raise TraceError(
            f"{name} wants a value in every row of {', '.join(nulls) or 'a table'}, "
            "got none; record it again"
        )


def _rows(recording: Recording) -> Iterator[tuple[Any, ...]]:
    for course in recording.courses:
        for spot in course.spots:
            yield (
                course.kind,
                course.prompt,
                course.drafter,
                course.max_new,
                spot.position,
                spot.root,
                spot.emits,
                list(spot.draft),
                spot.accepted,
                spot.match_length,
                None if spot.chances is None else list(spot.chances),
                spot.routes.ravel().tolist(),
            )


def _recording(frame: pl.DataFrame, about: dict[str, Any]) -> Recording:
    shape = (-1, int(about["layers"]), int(about["experts_per_row"]))
    courses = [
        Course(
            *(str(key[0]), int(key[1]), str(key[2]), int(key[3])),
            spots=tuple(_spot(row, shape) for row in part.iter_rows(named=True)),
        )
        for key, part in frame.group_by(_COURSE, maintain_order=True)
    ]
    prices = Prices(
        window_ms=tuple(map(float, about["window_ms"])),
        layer_ms=float(about["layer_ms"]),
        draft_ms={str(k): float(v) for k, v in about["draft_ms"].items()},
        expert_bytes=int(about["expert_bytes"]),
    )
    return Recording(tuple(courses), prices, dict(about["provenance"]))


def _spot(row: dict[str, Any], shape: tuple[int, int, int]) -> Spot:
    chances = row["chances"]
    return Spot(
        position=row["position"],
        root=row["root"],
        emits=row["emits"],
        draft=tuple(row["draft"]),
        accepted=row["accepted"],
        routes=np.asarray(row["routes"], np.uint16).reshape(shape),
        match_length=row["match_length"],
        chances=None if chances is None else tuple(chances),
    )
