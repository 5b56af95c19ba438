"""Verification without the weakest experts of a row (approximate)."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.policies.choosing import Array, order_of, scores_of, shares_of
from strata_nb.policies.routing import NATURAL, Chosen, Seen
from strata_nb.trace import LayerDecisions

Ratio: TypeAlias = Literal["tail", "pairwise"]
Thresholds: TypeAlias = tuple[tuple[float, ...], ...]

# A ratio that equals its threshold on paper is not below it; router logits are float32.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class SkipTail:
    """A row whose last experts weigh little enough does without them.

    After sparse computation in verification (arXiv 2512.21911): the m weakest of a
    row's K experts are left out where what they weigh is less than beta_m, the median
    of many rows; the largest such m counts. A row decides by its own weights alone, so
    that what is rejected changes nothing of what is kept. Rows of a prompt use all.

    Attributes:
        beta: thresholds of each layer for m = 1, 2, ...: [L][M], M below K, as
            `calibrated` measures them.
        ratio: what is compared with them, of which there are two accounts. "tail": the
            weight of the m weakest, of all K; "pairwise": the strongest of the m
            weakest, of the strongest of all.
        drafts_only: the root uses all its experts, and so does a window of one row.
        keep_mass: whether those that are left carry the weight of all K; None: as the
            model's router does, which renormalises or not.
        lossless: it is not.

    Raises:
        ValueError: a threshold or `ratio` out of range. `choose` raises it when `beta`
            does not go with the model.
        TypeError: a switch of another kind.
    """

    beta: Thresholds
    ratio: Ratio = "tail"
    drafts_only: bool = False
    keep_mass: bool | None = None
    lossless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        beta = tuple(tuple(float(b) for b in layer) for layer in self.beta)
        object.__setattr__(self, "beta", beta)
        if not beta or not all(
            layer and all(0 <= b <= 1 for b in layer) for layer in beta
        ):
            raise ValueError(
                "`beta` wants one threshold or more for each layer, from 0 to 1, got "
                f"{_shown(beta)}; `calibrated` measures them"
            )
        if self.ratio not in get_args(Ratio):
            raise ValueError(f"`ratio` is {self.ratio!r}, wanted 'tail' or 'pairwise'")
        if not isinstance(self.drafts_only, bool):
            raise TypeError(
                f"`drafts_only` must be True or False, got {self.drafts_only!r}"
            )
        if not isinstance(self.keep_mass, bool | None):
            raise TypeError(
                f"`keep_mass` must be True, False or None, got {self.keep_mass!r}"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        said = [f"up to {max(map(len, self.beta))} by {self.ratio}"]
        if self.drafts_only:
            said.append("drafts only")
        if self.keep_mass is not None:
            said.append("mass kept" if self.keep_mass else "mass lost")
        return f"skip({', '.join(said)}), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """K experts of each row, [T, K]; the places of those left out are unused.

        Raises:
            ValueError: there are no thresholds for the layer, or as many as experts.
        """
        if seen.layer >= len(self.beta) or len(self.beta[seen.layer]) >= top_k:
            raise ValueError(
                f"`beta` has thresholds for {_shown(self.beta)}, but layer "
                f"{seen.layer} of this model uses {top_k} experts a row; wanted some "
                "for every layer, fewer than that; calibrate with this model"
            )
        scores = None if seen.headless else scores_of(logits)
        if scores is None:
            return NATURAL.choose(logits, top_k=top_k, seen=seen)
        ids = order_of(scores)[:, :top_k]
        weights = np.take_along_axis(shares_of(scores), ids, axis=1)
        skipped = skips(weights, self.beta[seen.layer], ratio=self.ratio)
        if self.drafts_only:
            skipped[0] = 0
        used = np.arange(top_k) < top_k - skipped[:, None]
        chosen = Chosen.of_record(np.where(used, ids, -1))
        return replace(chosen, keep_mass=self.keep_mass)


def skips(
    weights: npt.NDArray[Any], beta: Sequence[float], *, ratio: Ratio = "tail"
) -> npt.NDArray[np.int64]:
    """How many of its weakest experts each row leaves out, [T].

    Args:
        weights: of a row's experts, the strongest first, [T, K].
        beta: thresholds for m = 1, 2, ...
        ratio: what is compared with them.
    """
    found = ratios(weights, most=len(beta), ratio=ratio)
    fits = found < np.asarray(beta) - _ROUNDING
    # The largest m that fits, whatever the smaller ones say.
    most: npt.NDArray[np.int64] = np.where(
        fits.any(axis=1), fits.shape[1] - np.argmax(fits[:, ::-1], axis=1), 0
    )
    return most


def ratios(weights: npt.NDArray[Any], *, most: int, ratio: Ratio = "tail") -> Array:
    """What the m weakest of a row weigh, for m = 1 to `most`, [T, M].

    Args:
        weights: of a row's experts, the strongest first, [T, K].
        most: M, below K.
        ratio: "tail": of all K; "pairwise": the strongest of them, of the strongest.
    """
    wide = np.asarray(weights, np.float64)
    weakest = wide[:, ::-1][:, :most]
    if ratio == "pairwise":
        pairs: Array = weakest / wide[:, :1]
        return pairs
    tails: Array = np.cumsum(weakest, axis=1) / wide.sum(axis=1, keepdims=True)
    return tails


def medians(
    weights: npt.NDArray[Any], *, most: int, ratio: Ratio = "tail"
) -> tuple[float, ...]:
    """Thresholds of one layer: for each m about half of these rows are below it, [M].

    Args:
        weights: of a row's experts, the strongest first, [n, K].
        most: largest m, below K.
        ratio: what will be compared with them.
    """
    return tuple(np.median(ratios(weights, most=most, ratio=ratio), axis=0).tolist())


def calibrated(
    windows: Iterable[Sequence[LayerDecisions]],
    *,
    top_k: int,
    most: int = 3,
    ratio: Ratio = "tail",
) -> Thresholds:
    """Thresholds of each layer, from what naturally routed windows decided.

    Args:
        windows: what each layer decided, as `window.layers` says; router logits in it.
        top_k: experts of a row, K.
        most: largest m; K - 1 where that is less.
        ratio: what will be compared with them.

    Returns:
        [L][M], as `SkipTail` takes them.

    Raises:
        ValueError: no windows, no router logits, `most` is below 1, or K below 2.
    """
    if operator.index(most) < 1 or operator.index(top_k) < 2:
        raise ValueError(
            f"`most` is {most} of {top_k} experts, wanted 1 or more to leave out of 2 "
            "or more"
        )
    by_layer = list(zip(*windows, strict=True))
    if not by_layer:
        raise ValueError("no windows to calibrate with; run some, naturally routed")
    found = []
    for number, layers in enumerate(by_layer):
        logits = [decided.router_logits for decided in layers]
        if any(one is None for one in logits):
            raise ValueError(
                f"layer {number} kept no router logits; calibrate with windows of an "
                "engine, which keeps them"
            )
        scores = np.concatenate([np.asarray(one, np.float64) for one in logits])
        weights = -np.sort(-shares_of(scores), axis=1)[:, :top_k]
        found.append(medians(weights, most=min(most, top_k - 1), ratio=ratio))
    return tuple(found)


def _shown(beta: Sequence[Sequence[float]]) -> str:
    most = max(map(len, beta), default=0)
    return f"{len(beta)} layers and up to {most} experts"
