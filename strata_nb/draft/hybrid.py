"""Several drafters: the draft that brings most tokens for its price has the window."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from strata_nb.draft.prices import Given, Prices
from strata_nb.draft.protocol import NO_DRAFT, Draft, Drafter, history_of
from strata_nb.draft.rates import Rates
from strata_nb.draft.tokens import alike, checked


@dataclass(frozen=True)
class _Best:
    """The beginning of a draft that brings most, and the rate with what was spent."""

    rate: float
    tokens: int


class Hybrid:
    """Proposes, of several drafters' drafts or none, what brings most for its price.

    The rate of a draft is the tokens to expect of its window, over what the window and
    all drafts that were asked for cost. A draft is cut where a shorter one has a better
    rate. What is expected comes from counts alone: how often the drafts of each drafter
    were accepted so far in this text, place by place, by the length of its match in
    doublings. Before there are counts, a draft's own `chances` stand for them (unless
    it was drawn: its law would suffer), and for one that was not asked for yet what its
    drafter says by an attribute `prior`.

    A drafter is asked if, as it answered so far, the rate with its answer is better
    than without. One that does not pay is asked again now and then, so that its counts
    go on.

    Counts belong to a text: another one begins without.

    Args:
        *drafters: two or more, in order of what a draft costs, the cheapest first.
        prior: acceptance that is assumed before anything was seen, 0 to 1, where
            neither draft nor drafter says one.
        weight: drafts that the assumption counts for, above 0.
        prices: of drafts and rows; those that the drafters say when not given. With
            `Given` the same text has the same drafts, with `Timed` the machine decides.
        retry: the part of a window of one row, per window, that drafters may cost that
            do not pay: one is asked again after `price / retry` windows.

    Raises:
        ValueError: fewer than two drafters, two of one name, or a setting out of its
            range.
    """

    def __init__(
        self,
        *drafters: Drafter,
        prior: float = 0.8,
        weight: float = 2.0,
        prices: Prices | None = None,
        retry: float = 0.01,
    ) -> None:
        if len(drafters) < 2:
            raise ValueError(
                f"got {len(drafters)} drafters, wanted two or more; one needs no hybrid"
            )
        names = [drafter.name for drafter in drafters]
        if len({*names}) < len(names):
            raise ValueError(
                f"two drafters have one name ({', '.join(names)}), wanted different "
                "ones: counts are kept by name"
            )
        for name, value in {"prior": prior, "retry": retry}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"`{name}` is {value}, wanted 0 to 1")
        if not 0 < weight < float("inf"):
            raise ValueError(f"`weight` is {weight}, wanted a number above 0")
        self._drafters = drafters
        self._prior, self._weight, self._retry = prior, weight, retry
        self._prices: Prices = Given() if prices is None else prices
        self._text: list[int] = []
        self._rates: dict[str, Rates] = {}
        # Windows since each was asked, this one too.
        self._waited: dict[str, int] = {}
        self._asked: dict[str, Draft] = {}
        self._chosen: str | None = None
        # Drafts of the window that is going on, and when it was proposed.
        self._proposed: tuple[int, float] | None = None
        self._begin()

    @property
    def name(self) -> str:
        """Those of the drafters, joined."""
        return "+".join(drafter.name for drafter in self._drafters)

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """Those that it asks, in their order."""
        return self._drafters

    @property
    def history(self) -> Sequence[int] | None:
        """The first one's that shows its history; None where none does."""
        shown = (history_of(drafter) for drafter in self._drafters)
        return next((history for history in shown if history is not None), None)

    @property
    def chosen(self) -> str | None:
        """The name of the drafter that had the last draft; None where none had one."""
        return self._chosen

    def rates(self, name: str) -> Rates:
        """What was counted of the drafts of the drafter `name`.

        Raises:
            KeyError: there is no such drafter.
        """
        return self._rates[name]

    def assign(self, tokens: Sequence[int]) -> None:
        """The text is `tokens` now; if it does not go on with the old one, count anew.

        Raises:
            TypeError: text, or something that is no integer; nothing has changed.
        """
        new = list(checked(tokens))
        goes_on = alike(self._text, new) == len(self._text)
        for drafter in self._drafters:
            drafter.assign(new)
        self._text = new
        if goes_on:
            self._forget_window()
        else:
            self._begin()

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` were emitted: all drafts that were asked for are judged by them.

        Raises:
            TypeError: as in `assign`.
        """
        came = checked(tokens)
        if self._proposed is not None:
            drafts, since = self._proposed
            self._prices.ran(drafts, self._prices.now() - since)
        for drafter in self._drafters:
            drafter.append(came)
        for name, draft in self._asked.items():
            self._rates[name].tell(draft.match_length, draft.tokens, came)
        self._asked, self._proposed = {}, None
        self._text += came

    def propose(self, most: int) -> Draft:
        """The beginning of a draft with the best rate, at most `most` tokens."""
        self._forget_window()
        reached: list[list[float]] = []
        spent = 0.0
        for drafter in self._drafters:
            name, price = drafter.name, self._prices.draft(drafter)
            self._waited[name] += 1
            is_due = self._waited[name] * self._retry >= price
            if not (is_due or self._pays(name, reached, spent, price, most)):
                continue
            began = self._prices.now()
            found = drafter.propose(most)
            self._prices.drafted(drafter, self._prices.now() - began)
            self._waited[name] = 0
            spent += price
            self._asked[name] = found
            reached.append(self._reach(name, found))
        draft = self._choose(reached, spent)
        self._proposed = len(draft.tokens), self._prices.now()
        return draft

    def _reach(self, name: str, found: Draft) -> list[float]:
        """What is expected of a draft, whatever tokens were drawn for it."""
        count, chances = len(found.tokens), found.chances
        if found.laws is not None:
            # Nor on where a draw ended the draft.
            count, chances = found.planned or count, None
        return self._rates[name].reach(found.match_length, count, chances)

    def _choose(self, reached: Iterable[Sequence[float]], spent: float) -> Draft:
        """The best beginning of what was asked for; of equal ones the first."""
        best, draft = self._best((), spent), NO_DRAFT
        for (name, found), reach in zip(self._asked.items(), reached, strict=True):
            this = self._best((reach,), spent)
            if this.rate > best.rate:
                best, draft, self._chosen = this, _cut(found, this.tokens), name
        return draft

    def _pays(
        self,
        name: str,
        reached: Sequence[Sequence[float]],
        spent: float,
        price: float,
        most: int,
    ) -> bool:
        """Whether the rate with an answer, as they were so far, is better than now."""
        now = self._best(reached, spent).rate
        paid = spent + price
        # What is there already can be taken in any case.
        kept = self._best(reached, paid).rate
        then = sum(
            share * max(kept, self._best((reach,), paid).rate)
            for share, reach in self._rates[name].answers(most)
        )
        return then > now

    def _best(self, reached: Iterable[Sequence[float]], spent: float) -> _Best:
        """The best rate, of no draft and of beginnings of drafts; the first of equals.

        Args:
            reached: what is expected of the first 0, 1, .. tokens of each draft.
            spent: what was paid for drafts.
        """
        best = _Best(1 / (self._prices.window(0) + spent), 0)
        for reach in reached:
            for tokens, expected in enumerate(reach):
                rate = (1 + expected) / (self._prices.window(tokens) + spent)
                if rate > best.rate:
                    best = _Best(rate, tokens)
        return best

    def _begin(self) -> None:
        """A text of which nothing was counted."""
        priors = {d.name: getattr(d, "prior", self._prior) for d in self._drafters}
        self._rates = {n: Rates(prior, self._weight) for n, prior in priors.items()}
        self._waited = {d.name: 0 for d in self._drafters}
        self._forget_window()

    def _forget_window(self) -> None:
        """Nothing is asked for; what was proposed before came to nothing."""
        self._asked, self._chosen, self._proposed = {}, None, None


def _cut(draft: Draft, tokens: int) -> Draft:
    """The first `tokens` tokens of a draft."""
    return replace(
        draft,
        tokens=draft.tokens[:tokens],
        laws=None if draft.laws is None else draft.laws[:tokens],
        chances=None if draft.chances is None else draft.chances[:tokens],
    )
