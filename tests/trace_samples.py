"""Windows for the tests of the record and of what is drawn from it."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from strata_nb.trace import (
    LayerDecisions,
    LayerRecord,
    WindowRecord,
    window_record,
)
from strata_nb.trace.columns import VERSION_KEY, WINDOW_COLUMNS
from strata_nb.trace.seal import SEAL_KEY, UNSEALED, sealed

IDS = np.array([[3, 1], [1, 2], [7, 9]])


def window(**changes: Any) -> WindowRecord:
    """A window of three rows and one layer, one of two drafts accepted."""
    fields: dict[str, Any] = {
        "position": 5,
        "inputs": (10, 11, 12),
        "predictions": (11, 40, 41),
        "emitted": (11, 40),
        "offered": 2,
        "accepted": 1,
        "keep": 2,
        "rule": "greedy",
        "drafter": "hand",
        "decisions": [None, LayerDecisions(IDS)],
    }
    return window_record(**(fields | changes))


def plain(drafts: int, right: int, **changes: Any) -> WindowRecord:
    """A window without layers: `drafts` offered, `right` of them accepted."""
    rows = drafts + 1
    fields: dict[str, Any] = {
        "inputs": [1] * rows,
        "predictions": [1] * rows,
        "emitted": [1] * (right + 1),
        "offered": drafts,
        "accepted": right,
        "keep": right + 1,
        "decisions": [],
    }
    return window(**(fields | changes))


def measured_window() -> WindowRecord:
    """A window that has a value in every field."""
    counts = ("resident", "miss", "late", "prefetched", "evicted")
    measured: dict[str, Any] = dict.fromkeys(counts, np.int64(2))
    layer = LayerRecord.from_decisions(
        3, IDS, 2, **measured, bytes_read=1 << 40, prefetched_bytes=0
    )
    record = WindowRecord(
        position=1 << 33,
        inputs=(10, 11, 12),
        predictions=(11, 40, 41),
        emitted=(11, 40),
        offered=2,
        accepted=1,
        keep=2,
        forced=True,
        stop="limit",
        rule="ratio",
        drafter='Größe "✓", 草稿',
        match_length=4,
        approximate=("MoCE", "ü"),
        fold="lazy",
        partial=False,
        warm=True,
        draft_ms=0.1,
        run_ms=1e-9,
        expert_wait_ms=0,
        finish_ms=3.3,
        commit_ms=4.4,
        fold_ms=5.5,
        layers=(layer,),
    )
    assert None not in [getattr(record, name) for name in WINDOW_COLUMNS]
    return record


def prompt_window(rows: int) -> WindowRecord:
    """A headless window with two layers of eight experts a row."""
    ids = np.arange(rows * 8).reshape(rows, 8) % 128
    return window_record(
        position=0,
        inputs=range(rows),
        keep=rows,
        headless=True,
        decisions=[LayerDecisions(ids), LayerDecisions(ids + 1)],
    )


def write_sealed(path: Path, frame: pl.DataFrame, **metadata: str) -> None:
    """Any table as a trace file with a right sum: it is parsed without a trial."""
    buffer = io.BytesIO()
    own = {VERSION_KEY: "1", SEAL_KEY: UNSEALED}
    frame.write_parquet(buffer, metadata=own | metadata)
    path.write_bytes(sealed(buffer.getvalue()))
