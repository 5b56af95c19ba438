"""MoCE: experts that are ready in a slot compete with a bonus (approximate)."""

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from strata_nb.policies.choosing import (
    Ids,
    chosen_of,
    order_of,
    scores_of,
)
from strata_nb.policies.routing import NATURAL, Chosen, Seen

LARGEST_BONUS = 20.0

_VARIABLES = {
    "STRATA_METAL_MOCE_PROTECT": "protect",
    "STRATA_METAL_MOCE_BONUS": "bonus",
    "STRATA_METAL_SPEC_MOCE_PROTECT": "draft_protect",
    "STRATA_METAL_SPEC_MOCE_BONUS": "draft_bonus",
}
_PREFIXES = ("STRATA_METAL_MOCE_", "STRATA_METAL_SPEC_MOCE_")


@dataclass(frozen=True)
class Moce:
    """The strongest `protect` of a row, then the best of `share * exp(bonus)`.

    After the routing of strata's Metal kernels: what is protected is so before any
    bonus; the bonus is for experts that were ready when the window began; weights are
    the natural ones of what was chosen, so no bonus enters them. With all experts in
    memory or ready, this is the natural choice.

    Rows 1 .. of a window are drafts and may have numbers of their own: an experiment
    (1 and 1.2 are candidates that nobody has measured), active only while `bonus` is
    above 0. The root keeps the base numbers, and so do all rows of a prompt.

    A finite bonus bounds no misses: a strong enough logit still takes a cold expert,
    and what is protected is read whatever it costs. `HardBudget` bounds them.

    Attributes:
        protect: strongest experts of a row that are chosen in any case, 0 or more.
        bonus: added to the logits of ready experts, 0 to 20; 0 turns everything off.
        draft_protect: of draft rows; None: as `protect`.
        draft_bonus: of draft rows, 0 to 20; None: as `bonus`.
        rank_1_bonus: an intermediate bonus for a row's second-strongest expert, cold
            or not, where it is not protected; 0 to 20. Numbers for draft rows switch it
            off there, lest they protect less and it more.
        lossless: it is not.

    Raises:
        TypeError: a number of another kind.
        ValueError: a number out of range.
    """

    protect: int = 3
    bonus: float = 0.85
    draft_protect: int | None = None
    draft_bonus: float | None = None
    rank_1_bonus: float = 0.0
    lossless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name in ("protect", "draft_protect"):
            _check_protect(name, getattr(self, name))
        for name in ("bonus", "draft_bonus", "rank_1_bonus"):
            _check_bonus(name, getattr(self, name))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Moce":
        """The policy that strata's variables ask for; base MoCE is off without a bonus.

        STRATA_METAL_MOCE_PROTECT, STRATA_METAL_MOCE_BONUS, and of draft rows
        STRATA_METAL_SPEC_MOCE_PROTECT and STRATA_METAL_SPEC_MOCE_BONUS. What is read
        ahead (STRATA_METAL_SPEC_ROOT_PREFETCH) is no matter of routing.

        Args:
            environ: such as `os.environ`.

        Raises:
            ValueError: a variable is malformed, out of range or unknown; the message
                names it.
        """
        given = {n: v for n, v in sorted(environ.items()) if n.startswith(_PREFIXES)}
        found: dict[str, Any] = {"bonus": 0.0}
        for name, text in given.items():
            if name not in _VARIABLES:
                raise ValueError(
                    f"{name} is not known here, wanted {', '.join(_VARIABLES)}; unset "
                    "it, or build `Moce(...)` by hand"
                )
            whole = name.endswith("_PROTECT")
            found[_VARIABLES[name]] = (_whole if whole else _bonus)(name, text)
        return cls(**found)

    @property
    def has_draft_numbers(self) -> bool:
        """Whether draft rows have numbers of their own."""
        return self.draft_protect is not None or self.draft_bonus is not None

    @property
    def name(self) -> str:
        """For records and reports."""
        said = f"protect {self.protect}, bonus {self.bonus:g}"
        if self.rank_1_bonus:
            said += f", rank 1 {self.rank_1_bonus:g}"
        if self.has_draft_numbers:
            protect, bonus = self._of_drafts()
            said += f"; drafts: protect {protect}, bonus {bonus:g}"
        return f"moce({said}), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """K experts of each row, [T, K]."""
        scores = None if seen.resident is None else scores_of(logits)
        if scores is None or seen.resident is None or self.bonus == 0:
            return NATURAL.choose(logits, top_k=top_k, seen=seen)
        count = len(scores)
        others = self.has_draft_numbers and not seen.headless
        drafts = (np.arange(count) > 0) & others
        of_drafts = self._of_drafts()
        protect = np.where(drafts, of_drafts[0], self.protect)[:, None]
        bonus = np.where(drafts, of_drafts[1], self.bonus)[:, None]
        # Factors on shares are sums on logits, in which equals stay equal.
        raised = np.where(seen.resident, scores + bonus, scores)
        rank = np.argsort(order_of(scores), axis=1)
        second = (rank == 1) & ~drafts[:, None]
        raised = np.where(
            second, np.maximum(raised, scores + self.rank_1_bonus), raised
        )
        raised[rank < np.minimum(protect, top_k)] = np.inf
        return chosen_of(_by_rank(order_of(raised)[:, :top_k], rank))

    def _of_drafts(self) -> tuple[int, float]:
        """`protect` and `bonus` of draft rows."""
        protect, bonus = self.draft_protect, self.draft_bonus
        return (
            self.protect if protect is None else protect,
            self.bonus if bonus is None else bonus,
        )


def _by_rank(ids: Ids, rank: Ids) -> Ids:
    """The experts of each row in the order of their natural ranks."""
    places = np.argsort(np.take_along_axis(rank, ids, axis=1), axis=1)
    sorted_ids: Ids = np.take_along_axis(ids, places, axis=1)
    return sorted_ids


def _check_protect(name: str, value: int | None) -> None:
    if value is None and name.startswith("draft"):
        return
    if value is None or isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}")
    if operator.index(value) < 0:
        raise ValueError(f"`{name}` is {value}, wanted 0 or more experts")


def _check_bonus(name: str, value: float | None) -> None:
    if value is None and name.startswith("draft"):
        return
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        raise TypeError(f"`{name}` must be a number, got {value!r}")
    if not _in_range(value):
        raise ValueError(
            f"`{name}` is {value}, wanted a finite number from 0 to {LARGEST_BONUS:g}"
        )


def _in_range(bonus: float) -> bool:
    return math.isfinite(bonus) and 0 <= bonus <= LARGEST_BONUS


def _whole(name: str, text: str) -> int:
    """What a variable says; Python would take underscores and spaces as well."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ValueError(
            f"{name} is {text!r}, wanted a whole number from 0 on; correct or unset it"
        )
    return int(text)


def _bonus(name: str, text: str) -> float:
    pattern = r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
    if not re.fullmatch(pattern, text, re.ASCII) or not _in_range(float(text)):
        raise ValueError(
            f"{name} is {text!r}, wanted a number from 0 to {LARGEST_BONUS:g}; correct "
            "or unset it"
        )
    return float(text)
