"""How likely the drafts of an offer are accepted, from what became of earlier ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from strata_nb.policies.length import Offer, Paid

_NO_MATCH: Final = -1
"""Stands for the length of a match where a drafter matches nothing."""
_BINS: Final = 10
"""Ranges of a drafter's own chances, each counted by itself."""


@dataclass
class Beta:
    """Accepted and offered, the older the less: a Beta distribution's two counts.

    Attributes:
        accepted: of those offered.
        offered: all that were decided.
    """

    accepted: float = 0.0
    offered: float = 0.0

    def add(self, accepted: bool, *, decay: float) -> None:
        """One more was decided; those before it count `decay` of what they did."""
        self.accepted = self.accepted * decay + accepted
        self.offered = self.offered * decay + 1

    def mean(self, prior: float, *, weight: float) -> float:
        """The chance, where `prior` is assumed and counts as `weight` drafts."""
        return (self.accepted + prior * weight) / (self.offered + weight)


_NONE: Final = Beta()
"""Nothing was counted."""


@dataclass(kw_only=True)
class Acceptance:
    """Chance of each draft by the length of its match, in doublings, and its place.

    Counts with decay, the rule's "match-length / position bucket". What was seen little
    is held against what is more general: a place of a bucket against its bucket, the
    bucket against all drafts, these against `prior`. What lies behind the first
    mismatch was not decided and counts nowhere.

    A whole draft is judged, also what a window did not verify: the text that came tells
    whether a token would have been accepted. So it costs nothing to learn that drafts
    are good, or no more so.

    Where the drafter says chances of its own (a suffix tree, a draft head), they are
    taken instead, as they turn out: of drafts said to be accepted with about this
    chance, how many were.

    Attributes:
        prior: acceptance that is assumed before anything was seen, 0 to 1.
        weight: drafts that an assumption counts for, above 0.
        decay: what a draft counts after another one of its kind, above 0 to 1.
        calibrate: the drafter's chances are held against what became of them; False
            takes them as they are.

    Raises:
        ValueError: a setting out of its range.
    """

    prior: float = 0.8
    weight: float = 2.0
    decay: float = 0.97
    calibrate: bool = True
    _all: Beta = field(default_factory=Beta, init=False, repr=False)
    _buckets: dict[int, Beta] = field(default_factory=dict, init=False, repr=False)
    _places: dict[tuple[int, int], Beta] = field(
        default_factory=dict, init=False, repr=False
    )
    _said: dict[int, Beta] = field(default_factory=dict, init=False, repr=False)
    _windows: int = field(default=0, init=False, repr=False)
    _told: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    # Drafts that the text has not decided yet, and the cell that it goes on from.
    _open: list["_Open"] = field(default_factory=list, init=False, repr=False)
    _cell: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("prior", self.prior), ("decay", self.decay)):
            if not 0 <= value <= 1:
                raise ValueError(f"`{name}` is {value}, wanted 0 to 1")
        if not self.decay > 0 or not 0 < self.weight < math.inf:
            raise ValueError(
                f"`decay` is {self.decay} and `weight` {self.weight}, wanted numbers "
                "above 0"
            )

    def chances(self, offer: Offer) -> tuple[float, ...]:
        """Chance of each draft of `offer` given those before it, [len(tokens)]."""
        return tuple(mean for mean, _ in self._beliefs(offer))

    def doubts(self, offer: Offer) -> tuple[float, ...]:
        """The same, each less by how uncertain it is: a standard deviation."""
        return tuple(
            max(mean - math.sqrt(mean * (1 - mean) / (seen + self.weight + 1)), 0.0)
            for mean, seen in self._beliefs(offer)
        )

    def ceiling(self, drafts: int) -> tuple[float, ...]:
        """The most to expect of a draft that is not there yet, whatever its match.

        At each place the highest of all kinds of drafts seen, and of a match of a
        length of which nothing was seen; [drafts].
        """
        kinds = [*self._buckets]
        if kinds != [_NO_MATCH]:
            # A drafter that matches nothing has no other kind to wait for.
            kinds.append(_NO_MATCH)
        said = max(
            (self._as_said((at + 0.5) / _BINS)[0] for at in self._said), default=0.0
        )
        found = [[mean for mean, _ in self._at(kind, drafts)] for kind in kinds]
        return tuple(max(said, *column) for column in zip(*found, strict=True))

    def idle(self, match_length: int | None) -> float:
        """Windows since a draft on such a match was decided; inf: none was."""
        told = self._told.get(bucket_of(match_length))
        return math.inf if told is None else self._windows - told

    def offer(self, offer: Offer) -> None:
        """Remember a draft, to be judged by the text."""
        if offer.position != self._cell:
            # Another text, or windows that were not told.
            self._open.clear()
        self._cell = offer.position
        if offer.tokens:
            self._open.append(_Open(offer))

    def learn(self, paid: Paid) -> None:
        """Judge drafts by what a window emitted, or by what it decided.

        Where `paid` does not say what was emitted, the window's own drafts count as far
        as they were decided.
        """
        self._windows += 1
        if not paid.emitted:
            mine = [each for each in self._open if each.offer.position == paid.position]
            said = mine[-1].offer.chances if mine else None
            for place in range(paid.decided):
                chance = said[place] if said is not None else None
                self._count(paid.match_length, place, place < paid.accepted, chance)
            return
        if paid.position != self._cell:
            self._open.clear()
        self._cell = paid.position + len(paid.emitted)
        self._open = [each for each in self._open if self._follows(each, paid.emitted)]

    def _follows(self, draft: "_Open", emitted: Sequence[int]) -> bool:
        """Whether there is more of a draft to judge after what was emitted."""
        offer = draft.offer
        for token in emitted:
            place, right = draft.place, token == offer.tokens[draft.place]
            chance = None if offer.chances is None else offer.chances[place]
            self._count(offer.match_length, place, right, chance)
            draft.place += 1
            if not right or draft.place == len(offer.tokens):
                return False
        return True

    def _count(
        self, match_length: int | None, place: int, right: bool, chance: float | None
    ) -> None:
        bucket = bucket_of(match_length)
        self._told[bucket] = self._windows
        counted = [
            self._all,
            self._buckets.setdefault(bucket, Beta()),
            self._places.setdefault((bucket, place), Beta()),
        ]
        if chance is not None:
            counted.append(self._said.setdefault(_bin(chance), Beta()))
        for beta in counted:
            beta.add(right, decay=self.decay)

    def _beliefs(self, offer: Offer) -> list[tuple[float, float]]:
        """For each draft its chance, and the drafts that it rests on."""
        if offer.chances is not None:
            return [*map(self._as_said, offer.chances)]
        return self._at(bucket_of(offer.match_length), len(offer.tokens))

    def _at(self, bucket: int, places: int) -> list[tuple[float, float]]:
        overall = self._all.mean(self.prior, weight=self.weight)
        alike = self._buckets.get(bucket, _NONE).mean(overall, weight=self.weight)
        found = []
        for place in range(places):
            here = self._places.get((bucket, place), _NONE)
            found.append((here.mean(alike, weight=self.weight), here.offered))
        return found

    def _as_said(self, chance: float) -> tuple[float, float]:
        if not 0 <= chance <= 1:
            raise ValueError(
                f"a drafter says the chance {chance} of a draft, wanted 0 to 1"
            )
        if not self.calibrate:
            return chance, math.inf
        said = self._said.get(_bin(chance), Beta())
        return said.mean(chance, weight=self.weight), said.offered


@dataclass
class _Open:
    """A draft, and how many of its tokens the text has decided."""

    offer: Offer
    place: int = 0


def bucket_of(match_length: int | None) -> int:
    """The length of a match in doublings: 1, 2 to 3, 4 to 7, and so on."""
    return _NO_MATCH if match_length is None else match_length.bit_length()


def _bin(chance: float) -> int:
    return min(int(chance * _BINS), _BINS - 1)
