"""MoE-SpeQ's governor: how long the next draft is, before it is made."""

import math
import operator
from dataclasses import dataclass, field

from strata_nb import theory
from strata_nb.policies.costs import Cost, Costs
from strata_nb.policies.length import Offer, Paid


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Times that were measured beforehand, each a line, ms; k is a number of drafts.

    Attributes:
        draft_ms: T_base of drafting.
        draft_token_ms: T_tok of drafting; T_draft(k) = T_base + k T_tok.
        init_ms: T_init, the first reads, which run beside drafting.
        verify_ms: T_verify of no row.
        verify_row_ms: T_verify of each row; k drafts are k + 1 rows.
        read_ms: overhead of reading experts.
        read_draft_ms: of the experts that each draft brings and that are in no slot.

    Raises:
        ValueError: a time is below 0, or a window takes none.
    """

    draft_ms: float = 0.0
    draft_token_ms: float = 0.0
    init_ms: float = 0.0
    verify_ms: float = 0.0
    verify_row_ms: float = 1.0
    read_ms: float = 0.0
    read_draft_ms: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` is {value}, wanted 0 or more")
        if not self.verify_ms + self.verify_row_ms > 0:
            raise ValueError("a window takes no time; give `verify_row_ms`")

    def cycle_ms(self, drafts: int) -> float:
        """T_cycle(k); of no draft, T_verify alone."""
        verify = self.verify_ms + self.verify_row_ms * (drafts + 1)
        if not drafts:
            return verify
        return theory.cycle_ms(
            draft_ms=self.draft_ms + self.draft_token_ms * drafts,
            init_ms=self.init_ms,
            new_ms=self.read_ms + self.read_draft_ms * drafts,
            verify_ms=verify,
        )


@dataclass(kw_only=True)
class Governor:
    """Drafts as many tokens as are accepted fastest: argmax of k_accept / T_cycle.

    After MoE-SpeQ (arXiv 2511.14102; papers, 4). The acceptance p_j of each place is
    measured in a warm-up and then a moving average. T_cycle comes from a profile as
    there, or is learned: then drafting and verifying add up, and the cold experts are
    those of `costs`. The first numbers, the rate of the average and the bounds are not
    published. Lossless.

    Attributes:
        profile: measured beforehand; None: `costs` and the drafter's time are learned.
        k_min: drafts at least, 1 or more.
        k_slo: drafts at most, by a bound on latency; None: none.
        rate: what a new draft counts in the average, above 0 to 1.
        prior: acceptance of a place before anything was seen, 0 to 1.
        warm_up: first windows with a draft that are as long as may be, 0 or more.
        plain: no draft at all is a candidate, by the tokens that a window emits. The
            paper never chooses it: False.
        costs: time of windows by rows, where there is no profile.

    Raises:
        ValueError: a setting out of its range.
    """

    profile: Profile | None = None
    k_min: int = 1
    k_slo: int | None = None
    rate: float = 0.1
    prior: float = 0.8
    warm_up: int = 4
    plain: bool = True
    costs: Cost = field(default_factory=Costs)
    _places: list[float] = field(default_factory=list, init=False, repr=False)
    _offered: int = field(default=0, init=False, repr=False)
    _drafted: int = field(default=0, init=False, repr=False)
    # The drafter's time of a token, a moving average.
    _token_ms: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("k_min", self.k_min), ("k_slo", self.k_slo)):
            if least is not None and operator.index(least) < 1:
                raise ValueError(f"`{name}` is {least}, wanted 1 or more drafts")
        if operator.index(self.warm_up) < 0:
            raise ValueError(f"`warm_up` is {self.warm_up}, wanted 0 or more windows")
        if not 0 < self.rate <= 1 or not 0 <= self.prior <= 1:
            raise ValueError(
                f"`rate` is {self.rate} and `prior` {self.prior}, wanted 0 to 1, and "
                "a rate above 0"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        return "governor"

    def chances(self, drafts: int) -> list[float]:
        """p_j of the first `drafts` places."""
        further = drafts - len(self._places)
        return self._places[:drafts] + [self.prior] * further

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """k* and the root, as far as there is room."""
        self._offered = 0
        drafts = most - 1 if self.k_slo is None else min(most - 1, self.k_slo)
        if drafts < 1:
            return 1
        if self._drafted < self.warm_up:
            return 1 + drafts
        plain, *cycles = self._cycles(drafts, position)
        accepted = theory.expected_accepted(self.chances(drafts))
        best = theory.best_draft(accepted, cycles, least=self.k_min)
        if self.plain and (1 + accepted[best - 1]) * plain <= cycles[best - 1]:
            return 1
        return 1 + best

    def cut(self, offer: Offer) -> int:
        """All of it: what was drafted is verified."""
        self._offered = len(offer.tokens)
        return 1 + len(offer.tokens)

    def learn(self, paid: Paid) -> None:
        """Move the averages."""
        self.costs.learn(paid)
        if self._offered:
            each = paid.draft_ms / self._offered
            before = each if self._token_ms is None else self._token_ms
            self._token_ms = before + self.rate * (each - before)
        self._drafted += paid.rows > 1
        for place in range(paid.decided):
            if place == len(self._places):
                self._places.append(self.prior)
            accepted = place < paid.accepted
            self._places[place] += self.rate * (accepted - self._places[place])

    def _cycles(self, drafts: int, position: int) -> list[float]:
        """T_cycle of 0 to `drafts` drafts."""
        if self.profile is not None:
            return [self.profile.cycle_ms(count) for count in range(drafts + 1)]
        each = self._token_ms or 0.0
        curve = self.costs.curve(drafts + 1, position=position)
        return [ms + each * count for count, ms in enumerate(curve)]
