"""How often a drafter's drafts are accepted, and how often it has one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from strata_nb.policies.acceptance import bucket_of

_UNSEEN = -2
"""Stands for a length of which nothing was counted; `bucket_of` gives no such one."""


@dataclass
class Rates:
    """How often drafts were accepted, at each place behind the accepted ones before it.

    Attributes:
        prior: acceptance that is assumed before anything was seen, 0 to 1.
        weight: drafts that the assumption counts for.
    """

    prior: float
    weight: float
    _told: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _answers: Counter[tuple[int, int]] = field(default_factory=Counter)

    def tell(
        self, match: int | None, offered: Sequence[int], came: Sequence[int]
    ) -> None:
        """`offered` was a draft, `came` is what was emitted.

        What lies behind the first token that differs was never decided on its own, and
        what lies behind the end of `came` not at all: neither counts. No draft at all
        is an answer too.
        """
        kind = bucket_of(match)
        self._answers[kind, len(offered)] += 1
        for place, (draft, token) in enumerate(zip(offered, came, strict=False)):
            counts = self._told.setdefault((kind, place), [0, 0])
            counts[0] += draft == token
            counts[1] += 1
            if draft != token:
                return

    def at(self, match: int | None, place: int) -> float:
        """The acceptance to expect of a draft's token `place`, 0 to 1."""
        return self._at(bucket_of(match), place, self.prior)

    def expected(self, match: int | None, tokens: int) -> float:
        """Tokens of a draft of `tokens` that will be accepted, in the mean."""
        return self.reach(match, tokens)[-1]

    def reach(
        self, match: int | None, tokens: int, chances: Sequence[float] | None = None
    ) -> list[float]:
        """What is expected of a draft's first 0, 1, .. `tokens` tokens.

        Args:
            match: of the draft.
            tokens: of the draft, or fewer.
            chances: the drafter's own, by token; where given they stand for `prior`.
        """
        return self._reach(bucket_of(match), tokens, chances)

    def answers(self, most: int) -> Iterator[tuple[float, list[float]]]:
        """What it may answer: how likely, and what is expected of that, as `reach`.

        As often as it did so far; up to `weight` answers that were not seen yet are
        assumed to be like the longest, and as good as `prior`.

        Args:
            most: tokens of a draft at most.
        """
        seen = sum(self._answers.values())
        whole = max(float(seen), self.weight)
        for (kind, length), count in self._answers.items():
            yield count / whole, self._reach(kind, min(length, most))
        if seen < whole:
            longest = max((length for _, length in self._answers), default=0) or most
            yield 1 - seen / whole, self._reach(_UNSEEN, min(longest, most))

    def _reach(
        self, kind: int, tokens: int, chances: Sequence[float] | None = None
    ) -> list[float]:
        whole, product = [0.0], 1.0
        for place in range(tokens):
            assumed = self.prior if chances is None else chances[place]
            product *= self._at(kind, place, assumed)
            whole.append(whole[-1] + product)
        return whole

    def _at(self, kind: int, place: int, assumed: float) -> float:
        accepted, offered = self._told.get((kind, place), (0, 0))
        return (accepted + assumed * self.weight) / (offered + self.weight)
