"""What the slots say in words: sums, one window, and a table of its layers."""

from typing import Any, Final

from strata_nb import WindowRecord
from strata_widgets.panel.control import Cell, Table
from strata_widgets.slots_io.counts import HERE, LATE, READ, Counts, counted, size
from strata_widgets.slots_io.totals import Totals

RUN: Final = "Run a window, and its slots and reads appear here."
RESIDENT: Final = (
    "All experts are in memory. To see slots and reads:",
    "strata_nb.load(..., experts=Streaming(slots=8))",
)
_HEAD: Final = ("layer", "union", HERE, LATE, READ, "read ahead", "evicted", "bytes")


def of_run(totals: Totals, pool: Any) -> str:
    """Sums over all windows, without times."""
    total = Counts(
        **{name: getattr(totals, name) for name in Counts.__dataclass_fields__}
    )
    said = [f"{totals.windows} windows"]
    if totals.measured < totals.windows:
        said[0] += f", slots measured in {totals.measured}"
    if totals.measured:
        said.append(of_counts(total))
        said.append(_wasted(pool))
    elif totals.windows:
        said.append(" ".join(RESIDENT))
    return "; ".join(said)


def of_counts(counts: Counts) -> str:
    """Counts of a window or a run."""
    if counts.wanted is None:
        return "slots not measured"
    said = f"{counts.wanted:,} experts wanted, {counts.resident:,} {HERE}"
    if counts.hit_rate is not None:
        said += f" ({counts.hit_rate:.1%})"
    said += f", {counts.late:,} {LATE}, {counts.miss:,} {READ}"
    more = [
        f"{value:,} {word}"
        for value, word in (
            (counts.prefetched, "read ahead"),
            (counts.evicted, "evicted"),
        )
        if value is not None
    ]
    if counts.bytes_read is not None:
        ahead = counts.prefetched_bytes
        more.append(
            f"{size(counts.bytes_read)} read"
            + ("" if ahead is None else f", {size(ahead)} of it ahead")
        )
    return "; ".join([said, *more])


def of_window(window: int, record: WindowRecord) -> str:
    """One window."""
    return f"window {window}: {of_counts(counted(record.layers))}"


def of_layer(record: WindowRecord, layer: int) -> str:
    """One layer of a window."""
    found = [one for one in record.layers if one.layer == layer]
    if not found:
        return f"layer {layer} is selected, which has no experts here"
    return f"layer {layer}: {of_counts(counted(found))}"


def of_time(wait_ms: float, run_ms: float) -> str:
    """How much of the time of `run` was spent waiting."""
    return f"waited {wait_ms:,.1f} of {run_ms:,.1f} ms ({wait_ms / run_ms:.0%})"


def table(window: int, record: WindowRecord, layer: int | None) -> Table:
    """Each layer of a window; `layer` is marked."""
    rows = []
    for one in record.layers:
        counts = [one.resident, one.late, one.miss, one.prefetched, one.evicted]
        cells: list[Cell] = [
            "not measured" if value is None else value
            for value in (*counts, one.bytes_read)
        ]
        rows.append([one.layer, one.union_size, *cells])
    marked = [at for at, one in enumerate(record.layers) if one.layer == layer]
    caption = f"Layers of window {window}"
    return Table(caption, _HEAD, rows, marked=marked[0] if marked else None)


def _wasted(pool: Any) -> str:
    """What a trace does not know: experts read ahead that nobody wanted in time."""
    if pool is None:
        return "wasted reads ahead not measured (a trace lacks them: give `model=`)"
    total = pool.counters.total
    return (
        f"the model's slots since it was loaded: {total.prefetched:,} read ahead, of "
        f"which {total.wasted:,} wasted; {size(total.bytes_read)} read"
    )
