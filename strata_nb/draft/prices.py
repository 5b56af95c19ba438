"""What drafts and rows cost, in windows of one row: given, or measured on the way."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Protocol

from strata_nb.draft.protocol import Drafter

ROW = 0.2
"""Of a window of one row, that each draft in it adds: seen on the bundled model."""
NEWEST = 16
"""Times that a median is taken over."""


class Prices(Protocol):
    """Prices that a choice of drafters goes by, in windows of one row."""

    def draft(self, drafter: Drafter) -> float:
        """Of asking `drafter` for one draft, whatever it answers."""

    def window(self, drafts: int) -> float:
        """Of a window with so many drafts; 1 without."""

    def now(self) -> float:
        """Seconds, for those who measure."""

    def drafted(self, drafter: Drafter, seconds: float) -> None:
        """It was asked, and that is what it took."""

    def ran(self, drafts: int, seconds: float) -> None:
        """A window with so many drafts was run and committed."""


def price_of(drafter: Drafter) -> float:
    """What a drafter says that a draft of it costs, in windows of one row.

    It says so by an attribute `price`; one that says nothing costs nothing.

    Raises:
        ValueError: it is no number of 0 or more.
    """
    return _number(f"the price of {drafter.name!r}", getattr(drafter, "price", 0.0))


@dataclass(frozen=True)
class Given:
    """Prices that do not change: the same text has the same windows every time.

    Attributes:
        costs: of a draft, by the drafter's name; others cost what they say.
        row: of each draft in a window.

    Raises:
        ValueError: a price is no number of 0 or more.
    """

    costs: Mapping[str, float] = field(default_factory=dict)
    row: float = ROW

    def __post_init__(self) -> None:
        _number("`row`", self.row)
        for name, cost in self.costs.items():
            _number(f"the price of {name!r}", cost)

    def draft(self, drafter: Drafter) -> float:
        """As given, or as the drafter says."""
        found = self.costs.get(drafter.name)
        return price_of(drafter) if found is None else found

    def window(self, drafts: int) -> float:
        """`row` more for each draft."""
        return 1 + self.row * drafts

    def now(self) -> float:
        """Nothing is measured."""
        return 0.0

    def drafted(self, drafter: Drafter, seconds: float) -> None:
        """Nothing is learned."""

    def ran(self, drafts: int, seconds: float) -> None:
        """Nothing is learned."""


@dataclass
class Timed:
    """Prices as this machine has them: which drafter is asked may differ in a rerun.

    A window is what lies between a draft and the tokens that came. Its time is taken
    for a line over the number of drafts. Until a draft was timed it costs what the
    drafter says.

    Attributes:
        clock: seconds.
        row: of each draft in a window, until windows of two widths were seen.
    """

    clock: Callable[[], float] = time.perf_counter
    row: float = ROW
    _drafts: dict[str, deque[float]] = field(default_factory=dict)
    _windows: dict[int, deque[float]] = field(default_factory=dict)
    _line: tuple[float, float] | None = None  # seconds of one row, of each draft

    def draft(self, drafter: Drafter) -> float:
        """The median of the newest times."""
        times = self._drafts.get(drafter.name)
        if not times or self._line is None:
            return price_of(drafter)
        return median(times) / self._line[0]

    def window(self, drafts: int) -> float:
        """On the line."""
        if self._line is None:
            return 1 + self.row * drafts
        one, more = self._line
        return 1 + more / one * drafts

    def now(self) -> float:
        """Of the clock."""
        return self.clock()

    def drafted(self, drafter: Drafter, seconds: float) -> None:
        """One time more."""
        self._drafts.setdefault(drafter.name, deque(maxlen=NEWEST)).append(seconds)

    def ran(self, drafts: int, seconds: float) -> None:
        """One time more; the line is drawn anew."""
        self._windows.setdefault(drafts, deque(maxlen=NEWEST)).append(seconds)
        self._line = _line({n: median(t) for n, t in self._windows.items()}, self.row)


def _line(times: Mapping[int, float], row: float) -> tuple[float, float] | None:
    """Seconds of one row, and of each draft: least squares; None: no time went by."""
    x, y = mean(times), mean(times.values())
    spread = sum((n - x) ** 2 for n in times)
    if spread:
        slope = sum((n - x) * (t - y) for n, t in times.items()) / spread
    else:
        slope = y * row / (1 + row * x)
    # A busy machine can make a wide window look quick; none costs less than one row.
    slope = max(0.0, slope)
    one = y - slope * x
    if one <= 0:
        # Nor is a row free of the first one's cost, however the times lie.
        one, slope = y / (1 + row * x), y * row / (1 + row * x)
    return (one, slope) if one > 0 else None


def _number(what: str, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{what} is {value}, wanted windows of one row, 0 or more")
    return value
