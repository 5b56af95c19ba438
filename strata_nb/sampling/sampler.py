"""The choice of a session: adjustments, a law, a rule, and the history they need."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from strata_nb.accept import Choice, Rule
from strata_nb.sampling.adjust import Adjustment
from strata_nb.sampling.draws import Stream, uniform
from strata_nb.sampling.law import best, law
from strata_nb.sampling.rules import EQUALITY, RATIO, SamplingRule
from strata_nb.sampling.settings import Sampling

_ROUNDED = 1e-2
"""How far the sum of a law may be from 1."""


class Sampler:
    """Chooses tokens by settings; it knows what was emitted, and nothing rejected.

    Args:
        sampling: temperature, limits, seed, rule.
        adjustments: change logits before, in this order.
        rule: stands in for the rule that `sampling` names.
    """

    def __init__(
        self,
        sampling: Sampling,
        adjustments: Sequence[Adjustment] = (),
        *,
        rule: SamplingRule | None = None,
    ) -> None:
        self.sampling, self.adjustments = sampling, tuple(adjustments)
        own = RATIO if sampling.rule == "ratio" else EQUALITY
        self._rule: SamplingRule = rule or own

    def assign(self, prompt: Sequence[int], emitted: Sequence[int] = ()) -> None:
        """The history is `prompt` and `emitted` now."""
        for adjustment in self.adjustments:
            adjustment.assign(prompt, emitted)

    def append(self, emitted: Sequence[int]) -> None:
        """More was emitted."""
        for adjustment in self.adjustments:
            adjustment.append(emitted)

    def choice(self, drafts: np.ndarray | None = None) -> Choice:
        """The choice for one window.

        Args:
            drafts: the law of each draft, [T - 1, V]; None: they were certain.
        """
        return _Choice(self, drafts)

    @property
    def rule(self) -> Rule:
        """For records."""
        return "greedy" if self.sampling.temperature == 0 else self._rule.name

    def choose(
        self,
        inputs: Sequence[int],
        logits: np.ndarray,
        drafts: np.ndarray | None,
        *,
        start: int,
    ) -> list[int]:
        """A token for each row.

        Args:
            inputs: root and drafts, T tokens.
            logits: float64 [T, V].
            drafts: laws of the drafts, or None.
            start: the cell of row 0.

        Raises:
            ValueError: no token is left for a row, or `drafts` is no law for each
                draft.
        """
        _check(drafts, inputs[1:], logits.shape[1])
        for adjustment in self.adjustments:
            shape = logits.shape
            logits = np.asarray(adjustment.adjust(inputs, logits))
            if logits.shape != shape:
                raise ValueError(
                    f"{type(adjustment).__name__}.adjust answered logits of shape "
                    f"{logits.shape}, wanted {shape}: the ones it was given, changed"
                )
        if self.sampling.temperature == 0:
            for values in logits:
                best(values)
            # The lowest index on a tie.
            return [int(token) for token in logits.argmax(axis=1)]
        found = []
        for row, values in enumerate(logits):
            is_last = row + 1 == len(inputs)
            found.append(
                self._rule.token(
                    law(values, self.sampling),
                    None if is_last else inputs[row + 1],
                    None if is_last or drafts is None else drafts[row],
                    partial(self._number, start + row),
                )
            )
        return found

    def _number(self, position: int, stream: Stream) -> float:
        return uniform(self.sampling.seed, stream, position)


@dataclass(frozen=True)
class _Choice:
    """A sampler and the laws of one window's drafts."""

    sampler: Sampler
    drafts: np.ndarray | None

    @property
    def rule(self) -> Rule:
        return self.sampler.rule

    def __call__(
        self, inputs: Sequence[int], logits: np.ndarray, *, start: int
    ) -> Sequence[int]:
        return self.sampler.choose(inputs, logits, self.drafts, start=start)


def _check(laws: np.ndarray | None, drafts: Sequence[int], vocabulary: int) -> None:
    """Refuse what is no law: with it, tokens would quietly have another law too."""
    if laws is None:
        return
    shape, count = np.shape(laws), len(drafts)
    # More are left over where the end of the text has cut the drafts.
    if len(shape) != 2 or shape[0] < count or shape[1] != vocabulary:
        raise ValueError(
            f"laws of drafts have shape {shape}, wanted ({count}, {vocabulary})"
            ": one for each draft, or None for drafts that were certain"
        )
    for row, draft in enumerate(drafts):
        drawn_from = np.asarray(laws[row], np.float64)
        least, total = float(drawn_from.min()), float(drawn_from.sum())
        # Comparisons that NaN fails. Sums in half precision are off by a little.
        if not (least >= 0 and abs(total - 1) < _ROUNDED and drawn_from[draft] > 0):
            raise ValueError(
                f"the law of draft {row} has a least probability of {least:.3g}, a sum "
                f"of {total:.3g} and {float(drawn_from[draft]):.3g} for its own token "
                f"{draft}; wanted 0 or more, 1 and above 0: the law it was drawn from, "
                "or None for drafts that were certain"
            )
