"""What a window of so many rows costs: learned from those before it, or given."""

import math
import operator
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from strata_nb.policies.length import Paid

_NEWEST: Final = 16
"""Windows of a length, or a context, that are remembered."""
_WAITS: Final = 64
"""Windows whose waits are remembered."""
_QUICK: Final = 0.94
"""What a window counts for the level of cold experts, one row later."""
_SLOW: Final = 0.98
"""What it counts for that of its length, a window of this length later."""
_WILDEST: Final = 3.0
"""Times of what is expected that a window's cold experts count as, at most."""


class Cost(Protocol):
    """Says what windows cost, ms; it has seen those before, and none that comes."""

    def curve(self, most: int, *, position: int) -> list[float]:
        """Predicted time of windows of 1 to `most` rows at cell `position`, ms > 0.

        Without what the drafter takes. Only their ratios mean something before a window
        was timed.
        """

    def learn(self, paid: Paid) -> None:
        """Take in what a window cost."""

    def seen(self, rows: int) -> int:
        """Windows of `rows` rows that were timed; what was given needs none."""


@dataclass(frozen=True)
class CostTable:
    """Costs that are given: measured beforehand, as the papers' profiles are.

    Attributes:
        ms: of windows of 1, 2, ... rows, all experts in memory, each above 0. More rows
            go on as the last two do.
        load_ms: of one expert that is in no slot.
        colds: experts in no slot of windows of 1, 2, ... rows, as many as `ms` or none.

    Raises:
        ValueError: a number is out of range, or there is none.
    """

    ms: tuple[float, ...]
    load_ms: float = field(default=0.0, kw_only=True)
    colds: tuple[float, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not self.ms or not all(0 < ms < math.inf for ms in self.ms):
            raise ValueError(f"`ms` is {self.ms}, wanted one or more, each above 0")
        if not all(0 <= n < math.inf for n in (self.load_ms, *self.colds)):
            raise ValueError(
                f"`load_ms` is {self.load_ms} and `colds` {self.colds}, wanted numbers "
                "of 0 or more"
            )
        if self.colds and len(self.colds) != len(self.ms):
            raise ValueError(
                f"`colds` has {len(self.colds)} entries and `ms` {len(self.ms)}, "
                "wanted one of each for 1, 2, ... rows"
            )

    def curve(self, most: int, *, position: int) -> list[float]:
        """Those of the table."""
        colds = self.colds or (0.0,) * len(self.ms)
        whole = [
            ms + self.load_ms * cold for ms, cold in zip(self.ms, colds, strict=True)
        ]
        slope = max(whole[-1] - whole[-2], 0.0) if len(whole) > 1 else 0.0
        further = range(1, most - len(whole) + 1)
        return [*whole[:most], *(whole[-1] + slope * more for more in further)]

    def learn(self, paid: Paid) -> None:
        """Nothing."""

    def seen(self, rows: int) -> int:
        """More than anybody asks for."""
        return _NEWEST


@dataclass(kw_only=True)
class Costs:
    """Costs of windows by their rows, learned while they run.

    ms(T) = f(T) + miss_ms * miss(T) + late_ms * late(T). f is the time without waits
    for experts: a line through the medians of the lengths seen, and the more a length
    was seen, its own median; so a length that is dearer than the next longer one is
    found. An expert that was on its way costs the wait that remains, late_ms, another
    one a whole read, miss_ms: both from what windows waited for so many of each. Of
    cold(T) experts in no slot a share is late, as of such windows so far. cold(T) is a
    level times a power of T, for rows that are right would have asked for theirs one
    after the other, less what they share. The level is that of the newest windows,
    whatever their lengths: it moves with the text much more than lengths differ. What a
    length found more or less than that is learned slowly.
    All is multiplied by what windows of about this context took against this.

    A window with something to build or compile counts apart: what it took more is
    divided by the windows that a length is expected to have.

    Attributes:
        price: of a further row, in windows of one row, before two lengths were seen.
        power: of the rows, that cold experts grow with.
        firm: windows of a length that this counts as; their cold experts vary much.
        sure: windows after which a length's own median counts as much as the line.
        horizon: windows that share what the first one took more.

    Raises:
        ValueError: a setting out of its range.
    """

    price: float = 0.25
    power: float = 0.7
    firm: float = 64.0
    sure: float = 1.0
    horizon: int = 64
    _times: dict[int, "_Newest"] = field(default_factory=dict, init=False, repr=False)
    _contexts: dict[int, "_Newest"] = field(
        default_factory=dict, init=False, repr=False
    )
    # Misses, late experts and the wait for both; by rows, late and cold experts.
    _waits: deque[tuple[int, int, float]] = field(
        default_factory=lambda: deque(maxlen=_WAITS), init=False, repr=False
    )
    _late: dict[int, tuple[float, float]] = field(
        default_factory=dict, init=False, repr=False
    )
    _built: "_Newest" = field(
        default_factory=lambda: _Newest(_NEWEST), init=False, repr=False
    )
    # What is fitted to them: asked for several times a window, it changes once.
    _line: tuple[float, float] = field(default=(1.0, 0.0), init=False, repr=False)
    # Cold experts: their level and its weight; by rows, what was found of what was
    # expected, and its weight.
    _level: tuple[float, float] = field(default=(0.0, 0.0), init=False, repr=False)
    _found: dict[int, tuple[float, float]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        numbers = {"price": self.price, "power": self.power, "sure": self.sure}
        for name, value in numbers.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` is {value}, wanted 0 or more")
        if not 0 < self.firm < math.inf:
            raise ValueError(f"`firm` is {self.firm}, wanted more than 0")
        if operator.index(self.horizon) < 1:
            raise ValueError(f"`horizon` is {self.horizon}, wanted 1 or more windows")
        self._line = self._fitted_line()

    def curve(self, most: int, *, position: int) -> list[float]:
        """Predicted time of windows of 1 to `most` rows, ms.

        Before anything was timed, in windows of one row.
        """
        scale = self._scale(position)
        miss_ms, late_ms = _read_ms(self._waits)
        built = self._built.mean / self.horizon
        found = []
        for rows in range(1, most + 1):
            late = self._late_share(rows)
            read_ms = miss_ms * (1 - late) + late_ms * late
            ms = scale * self._compute(rows) + read_ms * self.cold(rows)
            found.append(ms if rows in self._times else ms + built)
        return found

    def cold(self, rows: int) -> float:
        """Experts that a window of `rows` rows is expected to find in no slot."""
        found, expected = self._found.get(rows, (0.0, 0.0))
        return self._lawful(rows) * (found + self.firm) / (expected + self.firm)

    def _lawful(self, rows: int) -> float:
        """The same by the level alone."""
        level, weight = self._level
        lawful: float = level * rows**self.power
        return lawful / weight if weight else 0.0

    def _late_share(self, rows: int) -> float:
        """Of the cold experts of `rows` rows, those that are on their way already."""
        late = math.fsum(late for late, _ in self._late.values())
        cold = math.fsum(cold for _, cold in self._late.values())
        overall = late / cold if cold else 0.0
        late, cold = self._late.get(rows, (0.0, 0.0))
        return (late + overall * self.firm) / (cold + self.firm)

    def _find(self, rows: int, cold: int) -> None:
        lawful = self._lawful(rows)
        if lawful:
            found, expected = (_SLOW * part for part in self._found.get(rows, (0, 0)))
            # One text after another may begin with slots that are of no use.
            ratio = min(cold / lawful, _WILDEST)
            self._found[rows] = found + ratio, expected + 1
        level, weight = (_QUICK**rows * part for part in self._level)
        self._level = level + rows * cold / rows**self.power, weight + rows

    def learn(self, paid: Paid) -> None:
        """Take in what a window cost; one without a time says nothing of it."""
        if paid.cold or paid.wait_ms or self._waits:
            self._waits.append((paid.cold - paid.late, paid.late, paid.wait_ms))
            late, cold = (_SLOW * n for n in self._late.get(paid.rows, (0, 0)))
            self._late[paid.rows] = late + paid.late, cold + paid.cold
            self._find(paid.rows, paid.cold)
        ms = paid.ms - paid.wait_ms - paid.draft_ms
        if not ms > 0:
            return
        expected = self._compute(paid.rows) if self._times else None
        if not paid.warm:
            if expected is not None:
                self._built.add(max(ms - expected * self._scale(paid.position), 0.0))
            return
        if expected is not None:
            bucket = paid.position.bit_length()
            self._contexts.setdefault(bucket, _Newest(_NEWEST)).add(ms / expected)
        times = self._times.setdefault(paid.rows, _Newest(_NEWEST))
        times.add(ms / self._scale(paid.position))
        self._line = self._fitted_line()

    def seen(self, rows: int) -> int:
        """Warm windows of `rows` rows that were timed, of the newest."""
        return len(self._times.get(rows, ()))

    def _compute(self, rows: int) -> float:
        """The time without waits, f(T), in no context."""
        base, slope = self._line
        straight = base + slope * (rows - 1)
        times = self._times.get(rows)
        if times is None:
            return straight
        own = len(times) / (len(times) + self.sure)
        return own * times.median + (1 - own) * straight

    def _scale(self, position: int) -> float:
        seen = self._contexts.get(position.bit_length())
        if seen is None:
            return 1.0
        own = len(seen) / (len(seen) + 4)
        return own * seen.median + 1 - own

    def _fitted_line(self) -> tuple[float, float]:
        """The line of f: time of one row, and of each further one.

        Least squares through the medians; that a further row costs `price` counts as
        one window of two rows.
        """
        if not self._times:
            return 1.0, self.price
        points = [(n - 1.0, t.median, len(t)) for n, t in sorted(self._times.items())]
        one = next((ms for x, ms, _ in points if x == 0), None)
        if one is None:
            one = min(ms / (1 + self.price * x) for x, ms, _ in points)
        base, slope = _fit(points, slope=self.price * one, weight=1.0)
        # A steep line through long windows alone may start below nothing.
        return (base, slope) if base > 0 else (one, slope)


def _read_ms(waits: Collection[tuple[int, int, float]]) -> tuple[float, float]:
    """What is waited for an expert: one nobody asked for before, and one on its way.

    Least squares through windows of misses, late experts and the wait for both. That
    half of a read remains for a late one counts as one expert in one window.
    """
    misses, lates, ms = (
        [math.fsum(part) for part in zip(*waits, strict=True)] if waits else (0, 0, 0)
    )
    if not lates:
        whole = ms / misses if misses else 0.0
        return whole, whole / 2
    aa = math.fsum(m * m for m, _, _ in waits) + 0.25
    ab = math.fsum(m * n for m, n, _ in waits) - 0.5
    bb = math.fsum(n * n for _, n, _ in waits) + 1.0
    am = math.fsum(m * w for m, _, w in waits)
    bm = math.fsum(n * w for _, n, w in waits)
    whole = max((am * bb - bm * ab) / (aa * bb - ab * ab), 0.0)
    left = max((bm - ab * whole) / bb, 0.0)
    # One that is on its way is never waited for longer than one that is not.
    return (whole, left) if left <= whole else 2 * (ms / (misses + lates),)


def _fit(
    points: Sequence[tuple[float, float, int]], *, slope: float, weight: float
) -> tuple[float, float]:
    """A line through points that count by their third number: at 0, and its slope.

    It does not fall.

    Args:
        points: one or more.
        slope: that is assumed.
        weight: of it, in squares of x.
    """
    whole = sum(n for *_, n in points)
    x_mean = sum(n * x for x, _, n in points) / whole
    y_mean = sum(n * y for _, y, n in points) / whole
    spread = sum(n * (x - x_mean) ** 2 for x, _, n in points) + weight
    along = sum(n * (x - x_mean) * (y - y_mean) for x, y, n in points)
    found = max((along + weight * slope) / spread, 0.0)
    return y_mean - found * x_mean, found


class _Newest:
    """The newest of some numbers, their mean and median; 0 of none."""

    def __init__(self, most: int) -> None:
        self._values: deque[float] = deque(maxlen=most)
        self.mean = self.median = 0.0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        """One more; the oldest makes room."""
        self._values.append(value)
        ordered = sorted(self._values)
        self.mean = math.fsum(ordered) / len(ordered)
        self.median = (
            ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
        ) / 2
