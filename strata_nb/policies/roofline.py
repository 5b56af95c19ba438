"""SpecMoEOff's choice: the draft length with the highest tokens per iteration time."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from strata_nb import theory
from strata_nb.policies.costs import Cost, Costs
from strata_nb.policies.length import Offer, Paid


@dataclass(frozen=True, kw_only=True)
class Operators:
    """Operations of an iteration with offloaded experts, each a line in rows, ms.

    Two micro-batches go through the layers in turn: while one is in attention on the
    CPU the other is in its experts on the GPU, and the next layer's experts are copied
    (papers, 2). Each operation is (fixed, for each row of a window).

    Attributes:
        layers: L, 1 or more.
        attention: of a layer and micro-batch, on the CPU.
        experts: of a layer and micro-batch, on the GPU.
        copy_ms: of a layer's experts, over the link; it does not depend on rows.
        draft_token_ms: of each draft, before the target begins.

    Raises:
        ValueError: a number is out of range.
    """

    layers: int = 1
    attention: tuple[float, float] = (0.0, 1.0)
    experts: tuple[float, float] = (0.0, 1.0)
    copy_ms: float = 0.0
    draft_token_ms: float = 0.0

    def __post_init__(self) -> None:
        if operator.index(self.layers) < 1:
            raise ValueError(f"`layers` is {self.layers}, wanted 1 or more")
        times = (*self.attention, *self.experts, self.copy_ms, self.draft_token_ms)
        if not all(0 <= time < math.inf for time in times):
            raise ValueError(f"times are {times}, wanted 0 or more")

    def iteration_ms(self, drafts: int) -> float:
        """t_iter(k): the longest path through all that k drafts need."""
        rows = drafts + 1
        ms = {"draft": self.draft_token_ms * drafts}
        after: dict[str, list[str]] = {}
        # What the CPU, the GPU and the link did last; each does one thing at a time.
        last = {"cpu": "draft", "gpu": "draft"}
        for layer in range(self.layers):
            copy = f"copy {layer}"
            ms[copy] = self.copy_ms
            # The first copy runs beside drafting, the next one after it.
            after[copy] = [f"copy {layer - 1}"] if layer else []
            for batch in (0, 1):
                attend, compute = f"attend {layer} {batch}", f"experts {layer} {batch}"
                ms[attend] = self.attention[0] + self.attention[1] * rows
                ms[compute] = self.experts[0] + self.experts[1] * rows
                before = f"experts {layer - 1} {batch}" if layer else "draft"
                after[attend] = [before, last["cpu"]]
                after[compute] = [attend, copy, last["gpu"]]
                last = {"cpu": attend, "gpu": compute}
        return theory.longest_path(ms, after)


@dataclass(kw_only=True)
class Roofline:
    """One draft length for all windows, sought anew from time to time.

    After SpecMoEOff (arXiv 2508.21706; papers, 2): throughput(k) = a(k) / t_iter(k)
    for each k, and the best is taken. a(k) is the measured mean of tokens that a window
    with k drafts brings; a window with more drafts tells of all shorter ones. There
    t_iter is a longest path over operations (`Operators`, `theory.longest_path`), and
    also sets batch and micro-batch, which one text does not have. Lossless.

    Attributes:
        iteration: t_iter(k), ms, of 0 and more drafts; None: `costs` are learned.
        every: windows between two searches, 1 or more.
        warm_up: first windows with a draft that are as long as may be, 0 or more; a(k)
            is measured in them.
        decay: what a window counts after another one, above 0 to 1.
        prior: share of the last gain that a further draft brings where none was seen,
            0 to 1.
        plain: no draft at all is a candidate. The paper's grid begins at one: False.
        costs: time of windows by rows, where there is no `iteration`.

    Raises:
        ValueError: a setting out of its range.
    """

    iteration: Callable[[int], float] | None = None
    every: int = 8
    warm_up: int = 4
    decay: float = 0.98
    prior: float = 0.7
    plain: bool = True
    costs: Cost = field(default_factory=Costs)
    # Weight and sum of tokens, by drafts.
    _tokens: dict[int, tuple[float, float]] = field(
        default_factory=dict, init=False, repr=False
    )
    _chosen: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _since: int = field(default=0, init=False, repr=False)
    _drafted: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if operator.index(self.every) < 1:
            raise ValueError(f"`every` is {self.every}, wanted 1 or more windows")
        if operator.index(self.warm_up) < 0:
            raise ValueError(f"`warm_up` is {self.warm_up}, wanted 0 or more windows")
        if not 0 < self.decay <= 1 or not 0 <= self.prior <= 1:
            raise ValueError(
                f"`decay` is {self.decay} and `prior` {self.prior}, wanted 0 to 1, and "
                "a decay above 0"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        return "roofline"

    def gains(self, drafts: int) -> list[float]:
        """a(k), tokens of a window with 0 to `drafts` drafts, the bonus among them."""
        found, more = [1.0], 1.0
        for count in range(1, drafts + 1):
            weight, tokens = self._tokens.get(count, (0.0, 0.0))
            if weight:
                more = max(tokens / weight - found[-1], 0.0)
            else:
                more *= self.prior
            found.append(found[-1] + more)
        return found

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """The best k and the root, as it was found last."""
        if most < 2 or self._drafted < self.warm_up:
            return most
        if most not in self._chosen:
            self._chosen[most] = self._best(most, position)
        return self._chosen[most]

    def cut(self, offer: Offer) -> int:
        """All of it: what was drafted is verified."""
        return 1 + len(offer.tokens)

    def learn(self, paid: Paid) -> None:
        """Take in the window, and search again when it is time."""
        self.costs.learn(paid)
        for count in range(1, paid.rows):
            weight, tokens = self._tokens.get(count, (0.0, 0.0))
            keep = min(paid.keep, count + 1)
            self._tokens[count] = (
                weight * self.decay + 1,
                tokens * self.decay + keep,
            )
        self._since += 1
        self._drafted += paid.rows > 1
        if self._since >= self.every:
            self._since = 0
            self._chosen.clear()

    def _best(self, most: int, position: int) -> int:
        gains, costs = self.gains(most - 1), self._times(most, position)
        if self.plain:
            return theory.best_rows(gains, costs)
        return 1 + theory.best_rows(gains[1:], costs[1:])

    def _times(self, most: int, position: int) -> list[float]:
        if self.iteration is None:
            return self.costs.curve(most, position=position)
        return [self.iteration(drafts) for drafts in range(most)]
