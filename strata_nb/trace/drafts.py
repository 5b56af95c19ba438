"""Running sums of what became of drafts; their number does not grow with the run."""

from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice, takewhile

from strata_nb import theory

from .records import WindowRecord
from .store import Trace
from .summary import NEWEST, Rate


@dataclass
class Place:
    """One draft position, or one range of match lengths.

    Attributes:
        offered: drafts that took part.
        reached: of them, those with all drafts before them accepted.
        accepted: of them.
    """

    offered: int = 0
    reached: int = 0
    accepted: int = 0

    @property
    def chance(self) -> float:
        """Acceptance of those reached; 0 where none was, for none is ever kept then."""
        return self.accepted / self.reached if self.reached else 0.0


class Drafts:
    """What the drafts of windows came to, by position and by how many were offered.

    `places` and `total` count as the record does: a keep below the natural one takes
    the drafts that it gives up out of all counters. Chances, and what is expected of
    them, are of what the rule accepts (`judged`), whoever chose the keep. What windows
    did keep says nothing of the rule where a caller forced it, and is left out of
    `keeps`.
    """

    def __init__(self) -> None:
        self.windows = self.drafted = self.prompts = self.forced = 0
        self.places: list[Place] = []
        self._by_rule: list[Place] = []
        # By drafts offered: windows with a natural keep, and the rows that they kept.
        self.natural: Counter[int] = Counter()
        self.kept: Counter[int] = Counter()

    def add(self, record: WindowRecord) -> None:
        """Take one window in."""
        if record.headless:
            self.prompts += 1
            return
        self.windows += 1
        self.drafted += record.offered > 0
        _count(self.places, Rate(record.offered, record.accepted))
        _count(self._by_rule, judged(record))
        if record.forced:
            self.forced += 1
            return
        self.natural[record.offered] += 1
        self.kept[record.offered] += record.keep

    @property
    def total(self) -> Rate:
        """All drafts together."""
        places = self.places
        return Rate(sum(p.offered for p in places), sum(p.accepted for p in places))

    def chances(self, drafts: int) -> list[float]:
        """Acceptance of the first `drafts` positions, of those that were reached."""
        return [place.chance for place in self._by_rule[:drafts]]

    def expected(self, drafts: int) -> float | None:
        """Rows that the formulas expect of a window with `drafts` drafts.

        None: no window had so many.
        """
        if drafts > len(self._by_rule):
            return None
        return theory.expected_keep(self.chances(drafts))

    def observed(self, drafts: int) -> float | None:
        """Rows kept by windows that offered `drafts` drafts, on average."""
        count = self.natural[drafts]
        return self.kept[drafts] / count if count else None

    def keeps(self) -> tuple[float, float] | None:
        """Expected and observed keep of the windows with drafts, on average."""
        drafted = {n: count for n, count in self.natural.items() if n}
        windows = sum(drafted.values())
        if not windows:
            return None
        expected = sum(count * (self.expected(n) or 0) for n, count in drafted.items())
        return expected / windows, sum(self.kept[n] for n in drafted) / windows


def judged(record: WindowRecord) -> Rate:
    """The drafts of a window as the rule judges them.

    The record of a forced keep has only the drafts that its caller left in. What the
    rule accepts are those up to the first that the prediction before it contradicts,
    as `strata_nb.accept` counts them, which stands above this room.
    """
    if not record.forced:
        return Rate(record.offered, record.accepted)
    pairs = zip(record.predictions, record.inputs[1:], strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Rate(record.T - 1, same)


def _count(places: list[Place], drafts: Rate) -> None:
    while len(places) < drafts.offered:
        places.append(Place())
    for before, place in enumerate(places[: drafts.offered]):
        place.offered += 1
        place.reached += drafts.accepted >= before
        place.accepted += drafts.accepted > before


class Rolling:
    """Acceptance of the newest windows that predict."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, int]] = deque(maxlen=NEWEST)

    def add(self, record: WindowRecord) -> Rate:
        """Take a window that predicts in; the rate with it."""
        self._recent.append((record.offered, record.accepted))
        return self.rate

    @property
    def rate(self) -> Rate:
        """Of the newest windows."""
        recent = self._recent
        return Rate(sum(offered for offered, _ in recent), sum(a for _, a in recent))

    @classmethod
    def before(cls, trace: Trace, window: int) -> "Rolling":
        """What it is just before `window`."""
        made = cls()
        backwards = (trace[at] for at in range(window - 1, -1, -1))
        found = ((r.offered, r.accepted) for r in backwards if not r.headless)
        made._recent.extendleft(islice(found, NEWEST))
        return made
