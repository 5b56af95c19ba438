"""Defects of sampling, to be used instead of a sound sampler."""

from collections.abc import Sequence

import numpy as np

from strata_nb.faults.policy import MakeSampler, PolicyFault
from strata_nb.sampling import (
    Adjustment,
    Draws,
    Penalties,
    Sampler,
    Sampling,
    SamplingRule,
    Stream,
    draw,
)
from strata_nb.sampling.rules import Equality, Ratio


class ArgmaxCompared(Equality):
    """Accepts a draft that is the likeliest token, whatever the temperature."""

    def token(
        self, p: np.ndarray, draft: int | None, q: np.ndarray | None, draws: Draws
    ) -> int:
        """The draft where it is the likeliest, else a draw."""
        return draft if draft == int(p.argmax()) else draw(p, draws("target"))


class NoResidual(Ratio):
    """Draws from the whole law where it rejects: perhaps the draft again."""

    def left_over(self, p: np.ndarray, draft: int, q: np.ndarray | None) -> np.ndarray:
        """Everything."""
        return p


class OtherTemperature(Ratio):
    """Compares with the drafter's law at half the temperature it drew at."""

    def token(
        self, p: np.ndarray, draft: int | None, q: np.ndarray | None, draws: Draws
    ) -> int:
        """As the sound rule, with a law that the draft was not drawn from."""
        sharper = None if q is None else q**2 / (q**2).sum()
        return super().token(p, draft, sharper, draws)


class OneNumberForTwo(Sampler):
    """Has one random number for each two rows."""

    def _number(self, position: int, stream: Stream) -> float:
        return super()._number(position // 2, stream)


class OncePerWindow(Penalties):
    """Counts at the start of a window, for all of its rows."""

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Every row as if it were the first."""
        rows = [super(OncePerWindow, self).adjust([0], row[None]) for row in logits]
        return np.concatenate(rows)


def _ruled(rule: SamplingRule) -> MakeSampler:
    return lambda sampling, adjustments: Sampler(sampling, adjustments, rule=rule)


def _careless(sampling: Sampling, adjustments: Sequence[Adjustment]) -> Sampler:
    wrong = [
        OncePerWindow.like(adjustment)
        if isinstance(adjustment, Penalties)
        else adjustment
        for adjustment in adjustments
    ]
    return Sampler(sampling, wrong)


FAULTS = (
    PolicyFault(
        name="sampling_argmax",
        part="sampler",
        what="at a temperature above 0 a draft is accepted when it is the "
        "likeliest token, and not when it is what the model draws",
        shows="as soon as a draft is the likeliest token: it comes too often",
        report="https://github.com/lablup/mlxcel/issues/902",
        families=("choices",),
        sampler=_ruled(ArgmaxCompared()),
    ),
    PolicyFault(
        name="sampling_no_residual",
        part="sampler",
        what="behind a rejected draft the token is drawn from the whole law and "
        "not from what the draft's law left over",
        shows="under the ratio rule, wherever drafts are rejected",
        report="https://github.com/SafeAILab/EAGLE/issues/329",
        families=("law",),
        sampler=_ruled(NoResidual()),
    ),
    PolicyFault(
        name="sampling_other_temperature",
        part="sampler",
        what="drafts are drawn at one temperature and compared at another",
        shows="under the ratio rule, with drafts that were drawn",
        report="https://github.com/z-lab/dflash/issues/74",
        families=("law",),
        sampler=_ruled(OtherTemperature()),
    ),
    PolicyFault(
        name="sampling_one_number",
        part="sampler",
        what="two rows decide by the same random number",
        shows="in pairs of tokens; each token alone has the right law",
        report="https://github.com/local-inference-lab/vllm/pull/209",
        families=("choices", "law"),
        sampler=OneNumberForTwo,
    ),
    PolicyFault(
        name="penalties_once_per_window",
        part="penalties",
        what="all rows of a window are penalised by the counts of its start",
        shows="in windows that accept a draft",
        report="https://github.com/sgl-project/sglang/issues/33643",
        families=("choices",),
        sampler=_careless,
    ),
)
