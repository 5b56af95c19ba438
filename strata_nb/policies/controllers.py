"""How many rows pay: what a draft is expected to bring against what it costs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from strata_nb import theory
from strata_nb.policies.acceptance import Acceptance
from strata_nb.policies.costs import Cost, Costs
from strata_nb.policies.length import Offer, Paid

At: TypeAlias = Literal["window", "throughput"]

_ENOUGH: Final = 2
"""Times of a length after which nothing is tried to learn more of it."""
_HOPE: Final = 0.2
"""How much cheaper a length may turn out that is hardly known."""
_IDLE: Final = 32
"""Windows after which a kind of drafts that did not pay may be tried again."""
_CHEAP: Final = 0.01
"""Of a window of one row, that drafting may take to be next to nothing."""
_FORGET: Final = 0.97
"""What a window counts for the throughput after another one."""


@dataclass
class Purse:
    """What may be lost, in windows of one row, so that a guess cannot cost much.

    Two accounts. *Plain*: a window may have so many rows as would lose no more than
    this against plain decoding, with every chance less by its uncertainty; what drafts
    do gain is added, what they lose taken off, so that a bad beginning costs `grant`
    and a share of all, whatever was assumed. *Trial*: a length that does not look best
    may be tried for what it is expected to lose.

    Attributes:
        grant: plain, at first.
        share: of the time that passes, added to plain.
        trials: of the time that passes, added to trial.
        most: that either holds at most.
    """

    grant: float = 0.5
    share: float = 0.005
    trials: float = 0.02
    most: float = 8.0
    plain: float = field(init=False)
    trial: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        numbers = {"grant": self.grant, "share": self.share, "trials": self.trials}
        for name, value in {**numbers, "most": self.most}.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` is {value}, wanted 0 or more windows")
        self.plain = self.grant

    def pass_by(self, windows: float, *, gained: float, tried: float) -> None:
        """A window has been.

        Args:
            windows: the time that it took, in windows of one row.
            gained: of such, against plain decoding; below 0: lost.
            tried: of such, that it was expected to lose, as a trial.
        """
        self.plain = min(self.plain + self.share * windows + gained, self.most)
        self.trial = min(self.trial + self.trials * windows - tried, self.most)


@dataclass(kw_only=True)
class _Controller(ABC):
    """What the two rules share; they differ in `_best`.

    Attributes:
        acceptance: chance of each draft.
        costs: time of each length.
        purse: what may be lost while it learns; see `Purse`.
    """

    acceptance: Acceptance = field(default_factory=Acceptance)
    costs: Cost = field(default_factory=Costs)
    purse: Purse = field(default_factory=Purse)
    # Whether a drafter was asked for this window, and the tokens that it had.
    _drafting: bool = field(default=False, init=False, repr=False)
    _offered: int = field(default=0, init=False, repr=False)
    # What the window is expected to lose that was cut to try its length.
    _tried: float = field(default=0.0, init=False, repr=False)
    # What the drafter took, and for how many tokens.
    _draft_ms: float = field(default=0.0, init=False, repr=False)
    _drafted: float = field(default=0.0, init=False, repr=False)
    # Rows and milliseconds, the older the less.
    _kept: float = field(default=0.0, init=False, repr=False)
    _spent: float = field(default=0.0, init=False, repr=False)

    @property
    @abstractmethod
    def name(self) -> str:
        """For records and reports."""

    @abstractmethod
    def _best(self, keeps: Sequence[float], costs: Sequence[float]) -> int:
        """Rows that pay most by this rule."""

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """The most that a draft could turn out to deserve; 1 asks for none.

        All there is room for where drafting costs next to nothing: then a draft that is
        not verified still shows what drafts are worth. Before it is known what drafting
        costs, one token.
        """
        self._tried, self._drafting = 0.0, most > 1
        if most == 1 or not self._drafted:
            return min(most, 2)
        each = self._draft_ms / self._drafted
        curve = self.costs.curve(most, position=position)
        if each * (most - 1) <= _CHEAP * curve[0]:
            return most
        costs = [ms + each * drafts for drafts, ms in enumerate(curve)]
        keeps = theory.keeps(self.acceptance.ceiling(most - 1))
        able, best = self._within(keeps, keeps, costs)
        tried = self._trial(keeps, costs, able, best=best, idle=math.inf)
        found = max(best, tried[1]) if tried else best
        self._drafting = found > 1
        return found

    def cut(self, offer: Offer) -> int:
        """Rows for this draft, by its own chances; nothing was read for it yet."""
        self.acceptance.offer(offer)
        self._offered = len(offer.tokens)
        if not offer.tokens:
            return 1
        costs = self.costs.curve(1 + len(offer.tokens), position=offer.position)
        keeps = theory.keeps(self.acceptance.chances(offer))
        doubts = theory.keeps(self.acceptance.doubts(offer))
        able, best = self._within(keeps, doubts, costs)
        idle = self.acceptance.idle(offer.match_length)
        tried = self._trial(keeps, costs, able, best=best, idle=idle)
        if tried is None:
            return best
        self._tried, rows = tried
        return rows

    def learn(self, paid: Paid) -> None:
        """Take in what the window came to."""
        if self._drafting:
            self._draft_ms = self._draft_ms * _FORGET + paid.draft_ms
            self._drafted = self._drafted * _FORGET + max(self._offered, 1)
        self._drafting, self._offered = False, 0
        self.acceptance.learn(paid)
        self.costs.learn(paid)
        if paid.ms > 0:
            (one,) = self.costs.curve(1, position=paid.position)
            gained = paid.keep - paid.ms / one if paid.rows > 1 else 0.0
            self.purse.pass_by(paid.ms / one, gained=gained, tried=self._tried)
            self._kept = self._kept * _FORGET + paid.keep
            self._spent = self._spent * _FORGET + paid.ms
        self._tried = 0.0

    def _within(
        self, keeps: Sequence[float], doubts: Sequence[float], costs: Sequence[float]
    ) -> tuple[list[int], int]:
        """The lengths that the purse can pay, and the best of them."""
        room = max(self.purse.plain, 0.0)
        # Costs need not rise with rows, so there may be gaps.
        able = [
            rows
            for rows, (keep, ms) in enumerate(zip(doubts, costs, strict=True), 1)
            if rows == 1 or ms / costs[0] - keep <= room
        ]
        at = self._best([keeps[n - 1] for n in able], [costs[n - 1] for n in able])
        return able, able[at - 1]

    def _trial(
        self,
        keeps: Sequence[float],
        costs: Sequence[float],
        able: Sequence[int],
        *,
        best: int,
        idle: float,
    ) -> tuple[float, int] | None:
        """What a length of which too little is known may lose, and the length.

        The one that is expected to lose least, the shortest of equals; None: all are
        known, or the purse cannot pay for one.
        """
        worth = costs[best - 1] / keeps[best - 1]
        found = []
        for rows in able:
            loss = max((costs[rows - 1] - worth * keeps[rows - 1]) / costs[0], 0.0)
            hoped = costs[rows - 1] * (1 - _HOPE) < worth * keeps[rows - 1]
            fresh = self.costs.seen(rows) < _ENOUGH and hoped
            fresh = fresh or (best == 1 and idle >= _IDLE)
            if rows not in (1, best) and fresh and loss <= self.purse.trial:
                found.append((loss, rows))
        return min(found, default=None)


@dataclass(kw_only=True)
class BestRatio(_Controller):
    """The length with the highest E[keep] / C; of equals the shortest.

    The rule's controller: chances by match length and place, or the drafter's own;
    costs by length, context, cold experts and their lateness, of drafting and of what
    has to be built, all from windows that have been. T = 1 is always a candidate.
    """

    @property
    def name(self) -> str:
        """For records and reports."""
        return "best ratio"

    def _best(self, keeps: Sequence[float], costs: Sequence[float]) -> int:
        return theory.best_rows(keeps, costs)


@dataclass(kw_only=True)
class Marginal(_Controller):
    """One row more as long as it brings more than it costs.

    The rule: dE / dC > E / C. It stops at the first row that does not pay, though a
    later one might where costs are not convex (`theory.rules_agree`). T = 1 is always a
    candidate.

    Attributes:
        at: what a row is held against: "window", the E / C of the window as it is;
            "throughput", the rows kept for each millisecond of late, other windows
            without drafts among them.

    Raises:
        ValueError: `at` is neither.
    """

    at: At = "window"

    def __post_init__(self) -> None:
        if self.at not in get_args(At):
            raise ValueError(
                f"`at` is {self.at!r}, wanted {' or '.join(map(repr, get_args(At)))}"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"marginal, at the {self.at}"

    def _best(self, keeps: Sequence[float], costs: Sequence[float]) -> int:
        if self.at == "window" or not self._spent:
            return theory.marginal_rows(keeps, costs)
        return theory.marginal_rows_at(keeps, costs, rate=self._kept / self._spent)
