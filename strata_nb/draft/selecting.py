"""A drafter whose draft is chosen among several that it has."""

from collections.abc import Sequence
from typing import Protocol

from strata_nb.draft.protocol import NO_DRAFT, Draft, Drafter, history_of
from strata_nb.draft.tokens import checked
from strata_nb.policies import Offer, Select
from strata_nb.trace import WindowRecord


class Several(Drafter, Protocol):
    """A drafter that can name more drafts than the one it proposes."""

    def candidates(self, most: int) -> Sequence[Draft]:
        """Different drafts of up to `most` tokens, the one it would propose first."""


class Selecting:
    """Proposes the draft that `select` chooses among the drafter's candidates.

    Matches of a suffix index, or paths of a suffix tree. What it chooses by it learns
    from the windows that a session tells it.

    Args:
        drafter: has a method `candidates`, as `SuffixLookup` and `SuffixTrees`.
        select: chooses.

    Raises:
        TypeError: `drafter` has no such method.
    """

    def __init__(self, drafter: Several, select: Select) -> None:
        if not hasattr(drafter, "candidates"):
            raise TypeError(
                f"the drafter {drafter.name!r} has one draft, wanted one with a method "
                "`candidates`, such as `SuffixLookup`"
            )
        self._drafter, self._select = drafter, select
        self._root: int | None = None
        self._tokens = 0

    @property
    def name(self) -> str:
        """The drafter's and the choice's."""
        return f"{self._drafter.name}, {self._select.name}"

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """The one whose drafts these are."""
        return (self._drafter,)

    @property
    def select(self) -> Select:
        """What chooses."""
        return self._select

    @property
    def history(self) -> Sequence[int] | None:
        """The drafter's; None where it shows none."""
        return history_of(self._drafter)

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now; what was learned stays.

        Raises:
            TypeError: text, or something that is no integer; nothing has changed.
        """
        new = checked(tokens)
        self._drafter.assign(new)
        self._root = new[-1] if new else None
        self._tokens = len(new)

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` were emitted.

        Raises:
            TypeError: as in `assign`.
        """
        new = checked(tokens)
        self._drafter.append(new)
        self._root = new[-1] if new else self._root
        self._tokens += len(new)

    def propose(self, most: int) -> Draft:
        """The chosen draft; nothing is chosen where there are fewer than two."""
        drafts = [each for each in self._drafter.candidates(most) if each.tokens]
        if not drafts or self._root is None:
            return NO_DRAFT
        if len(drafts) == 1:
            return drafts[0]
        # The root is the last token, and its cell the one of row 0.
        offers = [
            Offer(self._tokens - 1, each.tokens, each.match_length, each.chances)
            for each in drafts
        ]
        return drafts[self._select.choose(offers, root=self._root)]

    def learn_routes(self, record: WindowRecord) -> None:
        """A window was committed: its experts, and what became of its drafts."""
        self._select.learn(record)
