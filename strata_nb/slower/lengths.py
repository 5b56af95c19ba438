"""What windows of each length cost and brought; bounded, however long the run is."""

import bisect
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Final

from strata_nb import theory
from strata_nb.trace import WindowRecord
from strata_nb.trace.drafts import Drafts

from .windows import LEAST

MOST: Final = 512
"""Times of a length that are remembered, the newest."""


class Times:
    """The newest times of one kind, ms, in order."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, ms: float) -> None:
        """Take one time in; the oldest goes when there are too many."""
        if len(self._newest) == MOST:
            del self._sorted[bisect.bisect_left(self._sorted, self._newest.popleft())]
        self._newest.append(ms)
        bisect.insort(self._sorted, ms)

    def at(self, share: float) -> float:
        """The time that `share` of all do not exceed, 0.5 the median."""
        place = share * (len(self._sorted) - 1)
        low = int(place)
        high = min(low + 1, len(self._sorted) - 1)
        rest = place - low
        return (1 - rest) * self._sorted[low] + rest * self._sorted[high]


@dataclass(frozen=True)
class Length:
    """What windows of one length cost and bring; None is "not known".

    Attributes:
        rows: T.
        windows: with a time, warm.
        times: of the whole window, ms.
        keep: E[keep] by the acceptances measured, of what the rule accepts.
        even_ms: time in which it is as fast as decoding without drafts.
        gain: tokens that each row brings beyond the next shorter length measured.
        cost_ms: what each such row costs.
        price: the same in tokens that are decoded without drafts in that time.
        observed: tokens emitted a second.
        expected: E[keep] / C a second, where C is the median of `times`.
    """

    rows: int
    windows: int
    times: Times
    keep: float | None
    even_ms: float | None
    gain: float | None
    cost_ms: float | None
    price: float | None
    observed: float
    expected: float | None


class Costs:
    """Sums by length, and the newest times of each."""

    def __init__(self) -> None:
        self.drafts = Drafts()
        # Of all windows that predict: the same from run to run.
        self.windows: Counter[int] = Counter()
        self.tokens: Counter[int] = Counter()
        self.untimed = self.cold = 0
        # Of those that are warm and have a time.
        self.times: dict[int, Times] = {}
        self.plain = Times()
        self._ms: defaultdict[int, float] = defaultdict(float)
        self._emitted: Counter[int] = Counter()

    def add(self, record: WindowRecord) -> None:
        """Take one window in."""
        self.drafts.add(record)
        if record.headless:
            return
        rows, emitted = record.T, len(record.emitted)
        self.windows[rows] += 1
        self.tokens[rows] += emitted
        ms = time_of(record)
        if ms is None:
            self.untimed += 1
        elif record.warm is False:
            self.cold += 1
        else:
            self.times.setdefault(rows, Times()).add(ms)
            self._ms[rows] += ms
            self._emitted[rows] += emitted
            # Who decodes without drafts asks no drafter.
            if rows == 1 and ms > (record.draft_ms or 0.0):
                self.plain.add(ms - (record.draft_ms or 0.0))

    def serial_ms(self, given: float | None) -> float | None:
        """Time of a token without drafts: `given`, or that of windows of one row.

        `one_row`, which the diagnosis rests on, prefers those that no drafter was asked
        for. Here all that are warm count, one alone too,
        each without its drafter's time; and it is the median of the newest.
        """
        if given is not None:
            return given
        return self.plain.at(0.5) if len(self.plain) else None

    def lengths(self, serial_ms: float | None) -> list[Length]:
        """Each length with a time, the shortest first."""
        found: list[Length] = []
        # Plain decoding is what a second row is held against, whoever measured it.
        before = None if serial_ms is None else (1, serial_ms, 1.0)
        for rows, times in sorted(self.times.items()):
            length = self._length(rows, times, serial_ms, before)
            found.append(length)
            if rows > 1 and length.keep is not None:
                before = (rows, times.at(0.5), length.keep)
        return found

    def _length(
        self,
        rows: int,
        times: Times,
        serial_ms: float | None,
        before: tuple[int, float, float] | None,
    ) -> Length:
        cost, keep = times.at(0.5), self.drafts.expected(rows - 1)
        even = gain = added = price = None
        if serial_ms is not None and keep is not None:
            even = theory.break_even_ms(serial_ms, self.drafts.chances(rows - 1))
        if before is not None and rows > 1:
            shorter, cost_before, keep_before = before
            added = (cost - cost_before) / (rows - shorter)
            gain = None if keep is None else (keep - keep_before) / (rows - shorter)
            price = added / serial_ms if serial_ms else None
        return Length(
            rows=rows,
            windows=len(times),
            times=times,
            keep=keep,
            even_ms=even,
            gain=gain,
            cost_ms=added,
            price=price,
            observed=1e3 * self._emitted[rows] / self._ms[rows],
            expected=None if keep is None else 1e3 * keep / cost,
        )


@dataclass(frozen=True)
class Choice:
    """Which length pays most.

    Attributes:
        best: T with the highest E[keep] / C.
        marginal: T at which one stops who adds a row while it pays.
        keep: E[keep] of the best.
        cost_ms: C of the best.
    """

    best: int
    marginal: int
    keep: float
    cost_ms: float


def choice(lengths: list[Length], serial_ms: float | None) -> Choice | None:
    """Return the length that pays most of those measured often enough.

    None: fewer than two lengths were.
    """
    curves = {
        length.rows: (length.keep, length.times.at(0.5))
        for length in lengths
        if length.keep is not None and length.windows >= LEAST
    }
    if serial_ms is not None:
        curves[1] = (1.0, serial_ms)
    if len(curves) < 2:
        return None
    rows = sorted(curves)
    keeps, costs = zip(*(curves[n] for n in rows), strict=True)
    best = rows[theory.best_rows(keeps, costs) - 1]
    marginal = rows[theory.marginal_rows(keeps, costs) - 1]
    return Choice(best, marginal, *curves[best])


def time_of(record: WindowRecord) -> float | None:
    """Time of a window, ms; None where it was not measured, or is none."""
    return record.total_ms or None
