"""What a trace adds up to: acceptance, tokens per window, latency, unions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .columns import LAYER_COLUMNS
from .records import LayerRecord, WindowRecord

NEWEST = 32
"""Windows that a rolling acceptance looks back on."""

MEASURED = tuple(name for name, column in LAYER_COLUMNS.items() if column.nullable)


class Rate(NamedTuple):
    """Drafts offered and accepted."""

    offered: int
    accepted: int

    @property
    def rate(self) -> float | None:
        """Share accepted, 0 to 1; None when nothing was offered."""
        return self.accepted / self.offered if self.offered else None


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of all drafts together and of each draft position.

    Attributes:
        total: all drafts.
        positions: draft 1 first; a draft counts as accepted with all before it.
        windows: windows that predict something.
        drafted: those of them that had at least one draft.
    """

    total: Rate
    positions: tuple[Rate, ...]
    windows: int
    drafted: int

    @property
    def coverage(self) -> float | None:
        """Share of windows with a draft, 0 to 1; None without windows."""
        return self.drafted / self.windows if self.windows else None


@dataclass(frozen=True)
class Latency:
    """Time of windows in ms, `Trace`'s `total_ms`."""

    windows: int
    mean_ms: float
    median_ms: float
    p95_ms: float


def predicting(trace: Iterable[WindowRecord]) -> list[WindowRecord]:
    """The windows that predict something: all but the headless ones."""
    return [record for record in trace if not record.headless]


def acceptance(trace: Iterable[WindowRecord]) -> Acceptance:
    """How many drafts were offered and accepted, in all and by position."""
    records = predicting(trace)
    longest = max((record.offered for record in records), default=0)
    return Acceptance(
        total=_rate(records),
        positions=tuple(
            Rate(
                sum(record.offered > i for record in records),
                sum(record.accepted > i for record in records),
            )
            for i in range(longest)
        ),
        windows=len(records),
        drafted=sum(record.offered > 0 for record in records),
    )


def rolling_acceptance(
    trace: Iterable[WindowRecord], *, windows: int = NEWEST
) -> list[float | None]:
    """Share of drafts accepted in the last `windows` windows, one value a window.

    Headless windows have no value. None: no draft was offered in these windows.

    Raises:
        ValueError: `windows` is under 1.
    """
    if windows < 1:
        raise ValueError(f"`windows` must be 1 or more, got {windows}")
    records = predicting(trace)
    return [
        _rate(records[max(0, end - windows) : end]).rate
        for end in range(1, len(records) + 1)
    ]


def tokens_per_window(trace: Iterable[WindowRecord]) -> float | None:
    """Mean tokens emitted by a window that predicts; None without such windows."""
    records = predicting(trace)
    if not records:
        return None
    return sum(len(record.emitted) for record in records) / len(records)


def row_counts(trace: Iterable[WindowRecord]) -> dict[int, int]:
    """How many windows that predict had T rows, by T."""
    return dict(sorted(Counter(record.T for record in predicting(trace)).items()))


def latency(
    trace: Iterable[WindowRecord], *, warm: bool | None = None
) -> Latency | None:
    """Time of the windows that predict and were measured; None when none was.

    Args:
        trace: the windows.
        warm: True: only warm windows, False: only those that built something first.
    """
    times = [
        record.total_ms
        for record in predicting(trace)
        if record.total_ms is not None and warm in (None, record.warm)
    ]
    if not times:
        return None
    median, p95 = np.percentile(times, (50, 95))
    return Latency(len(times), float(np.mean(times)), float(median), float(p95))


def tokens_per_s(trace: Iterable[WindowRecord]) -> float | None:
    """Tokens emitted per second over the windows whose time is known; None without."""
    timed = [(len(r.emitted), r.total_ms) for r in predicting(trace) if r.total_ms]
    total_ms = sum(time for _, time in timed)
    return 1000 * sum(count for count, _ in timed) / total_ms if total_ms else None


def expert_totals(trace: Iterable[WindowRecord]) -> dict[str, int]:
    """Sums over all windows and layers of the counts that were measured everywhere."""
    return layer_totals(layer for record in trace for layer in record.layers)


def layer_totals(layers: Iterable[LayerRecord]) -> dict[str, int]:
    """Sums over `layers` of the counts that were measured in each of them."""
    listed = list(layers)
    totals: dict[str, int] = {}
    for name in MEASURED if listed else ():
        counts = [getattr(layer, name) for layer in listed]
        if None not in counts:
            totals[name] = sum(counts)
    return totals


def mean_union(trace: Iterable[WindowRecord]) -> float | None:
    """Mean union size of a layer in a window that predicts; None without layers."""
    sizes = [x.union_size for record in predicting(trace) for x in record.layers]
    return sum(sizes) / len(sizes) if sizes else None


def _rate(records: Iterable[WindowRecord]) -> Rate:
    records = list(records)
    return Rate(
        sum(record.offered for record in records),
        sum(record.accepted for record in records),
    )
