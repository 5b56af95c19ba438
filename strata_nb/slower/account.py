"""The account of a trace: what a token costs, by kind, and what rows cost by T."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strata_nb import theory

from .windows import LEAST, Plain, Spent, was_asked

_SURE = 5.0
"""Standard errors by which a time must grow with the context before it is believed."""
_ENOUGH = 16
_LONG = 512
"""Cells that a context must grow by before its length can be a reason."""
_STEADY = 0.25
"""Share of the slope that each half of the context must show by itself."""


@dataclass(frozen=True)
class Prices:
    """A time by T, ms."""

    at: dict[int, float]

    def __call__(self, rows: int) -> float:
        """Of `rows`; between widths that were measured, on the line between them."""
        return float(np.interp(rows, list(self.at), list(self.at.values())))


class Built(NamedTuple):
    """What a window took more than a warm one, ms."""

    target: float
    commit: float


@dataclass(frozen=True)
class Account:
    """The windows with drafts of a trace, and what they cost; times in ms.

    Attributes:
        asked: windows that a drafter was asked for.
        plain: a token without drafts.
        building: of each of `asked`; 0 of a warm one.
        slope: ms that a row's time grows by for each cell of context; 0: not surely.
        first: the shortest context.
        prices: of the target by T, without what building and the context added.
    """

    asked: tuple[Spent, ...]
    plain: Plain
    building: tuple[Built, ...]
    slope: float
    first: int
    prices: Prices

    @property
    def drafted(self) -> tuple[Spent, ...]:
        """Those with drafts."""
        return tuple(w for w in self.asked if w.rows > 1)

    @property
    def tokens(self) -> int:
        """Emitted."""
        return sum(w.emitted for w in self.asked)

    @property
    def total_ms(self) -> float:
        """Of all windows asked, the drafter included."""
        return sum(w.pass_ms + w.draft for w in self.asked)

    @property
    def token_ms(self) -> float:
        """Of an emitted token."""
        return self.total_ms / self.tokens

    @property
    def plain_target(self) -> float:
        """Of a token without drafts, at the shortest context."""
        return self.prices(1)

    @property
    def context_ms(self) -> float:
        """What the context adds to an emitted token, less what it adds without."""
        grown = (_grown(w, self.slope, self.first) for w in self.asked)
        return sum(grown) / self.tokens - (self.plain.target - self.plain_target)

    def per_token(self, kind: str) -> float:
        """Time of one kind of an emitted token, without what was building.

        Args:
            kind: "target", "wait", "draft" or "commit".
        """
        whole = sum(getattr(w, kind) for w in self.asked)
        if kind in ("target", "commit"):
            whole -= sum(getattr(built, kind) for built in self.building)
        return float(whole / self.tokens)


def account(asked: Sequence[Spent], plain: Plain) -> Account:
    """Add up the windows of `asked`.

    Args:
        asked: windows that a drafter was asked for; they emit something.
        plain: a token without drafts.
    """
    warm = [w for w in asked if w.is_warm]
    # Waits are left out: they are counted as waits, whenever they are.
    target = _usual(warm, "target", plain.target)
    commit = _usual(warm, "commit", plain.commit)
    building = tuple(
        Built(0.0, 0.0)
        if w.is_warm
        else Built(max(0, w.target - target(w.rows)), max(0, w.commit - commit(w.rows)))
        for w in asked
    )
    everyone = [*warm, *(w for w in plain.windows if not was_asked(w))]
    first = min(w.record.position for w in [*plain.windows, *asked])
    slope = _slope(everyone)
    grown = [_grown(w, slope, first) for w in plain.windows]
    least = plain.target - (sum(grown) / len(grown) if grown else 0.0)
    at = {1: max(least, 0.0)}
    counts = Counter(w.rows for w in asked if w.rows > 1)
    # A width that only the end of a text had says nothing of its price.
    often = [rows for rows, count in counts.items() if count >= LEAST]
    for rows in sorted(often or counts):
        # Where all were building, what is left of them is the best there is.
        pairs = [(w, b) for w, b in zip(asked, building, strict=True) if w.rows == rows]
        pairs = [(w, b) for w, b in pairs if w.is_warm] or pairs
        times = [w.target - b.target - _grown(w, slope, first) for w, b in pairs]
        # Several rows are no less work than one; a clock that says so was disturbed.
        at[rows] = max(at[1], sum(times) / len(times))
    return Account(tuple(asked), plain, building, slope, first, Prices(at))


def _grown(window: Spent, slope: float, first: int) -> float:
    """What the context added to the time of a window, ms."""
    return slope * window.rows * (window.record.position - first)


def chances(windows: Iterable[Spent]) -> tuple[float, ...]:
    """Acceptance of each draft position, given that all before were accepted."""
    # Not `trace.summary.acceptance`: a forced keep hides there what the rule accepts.
    windows = list(windows)
    longest = max((w.offered for w in windows), default=0)
    found = []
    for place in range(longest):
        reached = [w for w in windows if w.offered > place and w.accepted >= place]
        taken = sum(w.accepted > place for w in reached)
        found.append(taken / len(reached) if reached else 0.0)
    return tuple(found)


def expected_keep(windows: Sequence[Spent]) -> float:
    """Rows that the formulas expect these windows to keep, on average."""
    found = chances(windows)
    keeps = [theory.expected_keep(found[: w.offered]) for w in windows]
    return sum(keeps) / len(keeps)


def cut_ms(windows: Sequence[Spent], prices: Prices, *, drafts: int) -> float:
    """Time of the target for a token, ms, had windows had at most so many drafts."""
    time = sum(prices(min(w.rows, drafts + 1)) for w in windows)
    # A record made elsewhere may have accepted more than it emitted.
    kept = (max(1, w.natural - max(0, w.accepted - drafts)) for w in windows)
    return time / sum(kept)


def trials(window: Spent) -> int:
    """Drafts that were compared: the accepted ones and the first that was not."""
    return window.accepted + (window.accepted < window.offered)


def turning_point(windows: Sequence[Spent]) -> tuple[int, float]:
    """Where acceptance changes most: a number of windows, and how sure that is.

    Returns:
        The windows before it, and the logarithm of how much likelier the drafts' fates
        are with two acceptances than with one; 0 and 0 for too few windows.
    """
    best = (0, 0.0)
    least = 2 * LEAST
    taken = np.cumsum([0, *(w.accepted for w in windows)])
    tried = np.cumsum([0, *(trials(w) for w in windows)])
    whole = _likelihood(int(taken[-1]), int(tried[-1]))
    for at in range(least, len(windows) - least + 1):
        before = _likelihood(int(taken[at]), int(tried[at]))
        after = _likelihood(int(taken[-1] - taken[at]), int(tried[-1] - tried[at]))
        if before + after - whole > best[1]:
            best = (at, before + after - whole)
    return best


def _likelihood(taken: int, tried: int) -> float:
    """Logarithm of the likelihood of the likeliest acceptance."""
    missed = tried - taken
    return sum(n * math.log(n / tried) for n in (taken, missed) if n)


def _usual(windows: Iterable[Spent], kind: str, plain: float) -> Prices:
    """Mean time of `kind` by T, that of one row being `plain`."""
    by_rows: dict[int, list[float]] = {}
    for window in windows:
        by_rows.setdefault(window.rows, []).append(getattr(window, kind))
    means = {rows: sum(times) / len(times) for rows, times in by_rows.items()}
    return Prices(dict(sorted((means | {1: plain}).items())))


def _slope(windows: Sequence[Spent]) -> float:
    """Time that a row takes more for each cell before it, ms; 0 where not sure.

    A machine that was busy for a while is no slope: both halves must rise.
    """
    places = sorted(w.record.position for w in windows)
    if len(windows) < _ENOUGH or places[-1] - places[0] < _LONG:
        return 0.0
    slope, error = _fitted(windows)
    middle = places[len(places) // 2]
    halves = (
        _fitted([w for w in windows if w.record.position < middle])[0],
        _fitted([w for w in windows if w.record.position >= middle])[0],
    )
    sure = slope > _SURE * error and min(halves) > _STEADY * slope
    return slope if sure else 0.0


def _fitted(windows: Sequence[Spent]) -> tuple[float, float]:
    """Slope of the target's time over rows times cells, and its standard error, ms.

    Windows are compared with those of the same T alone, so that longer ones at a later
    place do not look like a slope.
    """
    by_rows: dict[int, list[Spent]] = {}
    for window in windows:
        by_rows.setdefault(window.rows, []).append(window)
    places: list[float] = []
    times: list[float] = []
    for rows, group in by_rows.items():
        cells = np.array([w.record.position for w in group], float) * rows
        target = np.array([w.target for w in group])
        places += (cells - cells.mean()).tolist()
        times += (target - target.mean()).tolist()
    free = len(windows) - len(by_rows) - 1
    x, y = np.array(places), np.array(times)
    spread = float(x @ x) if len(x) else 0.0
    if free < 1 or spread == 0:
        return 0.0, math.inf
    slope = float(x @ y) / spread
    left = y - slope * x
    return slope, math.sqrt(float(left @ left) / free / spread)
