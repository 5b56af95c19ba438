"""The course of a text: what any length policy would meet at each of its places.

Greedy text does not depend on drafts, nor a row's experts on the rows behind it. So one
window at every place, the root and the drafter's whole draft, tells what a window of
any length there would have accepted and which experts it would have used: policies are
compared afterwards, without the model, exactly. `courses.md` describes the file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.experts.replay import union
from strata_nb.refusals import MAX_ROWS

Routes = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Spot:
    """One place of a text: the root there, and the draft that was proposed.

    Attributes:
        position: the cell of the root.
        root: the token there.
        emits: the token that the model puts behind it.
        draft: what was proposed to follow the root, 7 tokens at most.
        accepted: drafts that were accepted.
        routes: experts of the root's row and of each draft's, [1 + drafts, L, K].
        match_length: tokens of history that the draft rests on; None: nothing matched.
        chances: the drafter's own probability of each draft; None: it says none.

    Raises:
        ValueError: the numbers contradict each other.
    """

    position: int
    root: int
    emits: int
    draft: tuple[int, ...]
    accepted: int
    routes: Routes
    match_length: int | None = None
    chances: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        drafts = len(self.draft)
        chances = self.chances
        for name, wanted, fine in (
            ("draft", f"0 to {MAX_ROWS - 1} tokens", drafts < MAX_ROWS),
            ("accepted", f"0 to {drafts}", 0 <= self.accepted <= drafts),
            ("position", "0 or more", self.position >= 0),
            (
                "routes",
                f"[{1 + drafts}, L, K]",
                self.routes.ndim == 3 and len(self.routes) == 1 + drafts,
            ),
            (
                "chances",
                f"None or {drafts} from 0 to 1",
                chances is None
                or (len(chances) == drafts and all(0 <= c <= 1 for c in chances)),
            ),
        ):
            if not fine:
                got = getattr(self, name)
                shown = getattr(got, "shape", got)
                raise ValueError(f"`{name}` wants {wanted}, got {shown}; record again")

    def unions(self, rows: int) -> dict[int, tuple[int, ...]]:
        """By layer, the experts of a window of the first `rows` rows, as asked for."""
        return {
            layer: union(self.routes[:rows, layer])
            for layer in range(self.routes.shape[1])
        }


@dataclass(frozen=True, eq=False)
class Course:
    """One text, place after place.

    Attributes:
        kind: of its prompt.
        prompt: its number among those of the kind.
        drafter: who proposed the drafts.
        max_new: tokens that the text might have had; fewer where a stop id came.
        spots: one for each token that was emitted.

    Raises:
        ValueError: the places are not those of one text.
    """

    kind: str
    prompt: int
    drafter: str
    max_new: int
    spots: tuple[Spot, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.spots) <= self.max_new:
            raise ValueError(
                f"`spots` wants 1 to `max_new` = {self.max_new} places, got "
                f"{len(self.spots)}; record again"
            )
        for one, two in zip(self.spots, self.spots[1:], strict=False):
            if (one.position + 1, one.emits) != (two.position, two.root):
                raise ValueError(
                    f"the place behind cell {one.position} and token {one.emits} "
                    f"wants them for its own, got cell {two.position} and token "
                    f"{two.root}; record again"
                )
        text = self.tokens
        for at, spot in enumerate(self.spots):
            if spot.draft[: spot.accepted] != text[at : at + spot.accepted]:
                raise ValueError(
                    f"{spot.accepted} accepted drafts at cell {spot.position} want to "
                    f"be the text, got {spot.draft}; record again"
                )
            if at + spot.accepted >= len(text):
                raise ValueError(
                    f"the window at cell {spot.position} wants to end with the text, "
                    f"got {spot.accepted} accepted drafts and a token behind them"
                )

    @property
    def tokens(self) -> tuple[int, ...]:
        """What was emitted."""
        return tuple(spot.emits for spot in self.spots)


@dataclass(frozen=True)
class Prices:
    """What windows cost where they were measured, all experts in memory.

    Attributes:
        window_ms: of a window of 1, 2 … 8 rows.
        draft_ms: of one draft, by drafter.
        layer_ms: what one layer of a one-row window computes.
        expert_bytes: of one expert.

    Raises:
        ValueError: a time that no clock can have shown, or one is missing.
    """

    window_ms: tuple[float, ...]
    layer_ms: float
    draft_ms: Mapping[str, float] = field(default_factory=dict)
    expert_bytes: int = 0

    def __post_init__(self) -> None:
        if len(self.window_ms) != MAX_ROWS:
            raise ValueError(
                f"`window_ms` wants {MAX_ROWS} times, of windows of 1 to {MAX_ROWS} "
                f"rows, got {len(self.window_ms)}; measure each"
            )
        for name, times in (
            ("window_ms", self.window_ms),
            ("layer_ms", (self.layer_ms,)),
            ("draft_ms", tuple(self.draft_ms.values())),
        ):
            least = 0.0 if name == "draft_ms" else math.ulp(0.0)
            if not all(least <= ms < math.inf for ms in times):
                raise ValueError(
                    f"`{name}` wants milliseconds above 0, got {times}; measure again"
                )
        if self.expert_bytes < 0:
            raise ValueError(f"`expert_bytes` is {self.expert_bytes}, wanted 0 or more")


@dataclass(frozen=True, eq=False)
class Recording:
    """Courses of many texts, and what windows cost.

    Attributes:
        courses: in order.
        prices: of windows, drafts and layers.
        provenance: the model, the machine, the command: anything JSON can hold.

    Raises:
        ValueError: a drafter has no price, or two courses are of different models.
    """

    courses: tuple[Course, ...]
    prices: Prices
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in sorted({course.drafter for course in self.courses}):
            if name not in self.prices.draft_ms:
                raise ValueError(
                    f"`draft_ms` wants a time for the drafter {name!r}, got one for "
                    f"{', '.join(self.prices.draft_ms) or 'none'}; measure it"
                )
        shapes = {s.routes.shape[1:] for c in self.courses for s in c.spots}
        if len(shapes) > 1:
            raise ValueError(
                f"`courses` want routes of one model, got [L, K] of {sorted(shapes)}; "
                "keep two recordings"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of prompts, in their order."""
        return tuple(dict.fromkeys(course.kind for course in self.courses))

    def of(self, kind: str, *, drafter: str | None = None) -> Sequence[Course]:
        """The courses of a kind.

        Args:
            kind: of prompts.
            drafter: whose; None: the first there is.

        Raises:
            ValueError: there is none.
        """
        chosen = self.courses[0].drafter if drafter is None else drafter
        found = [c for c in self.courses if (c.kind, c.drafter) == (kind, chosen)]
        if not found:
            there = sorted({(c.kind, c.drafter) for c in self.courses})
            raise ValueError(
                f"no course of kind {kind!r} and drafter {chosen!r}; there are {there}"
            )
        return found


@lru_cache(maxsize=1)
def bundled() -> Recording:
    """The recording that comes with the package: the bundled model on a quiet machine.

    Raises:
        TraceError: the file is damaged.
    """
    from strata_nb.bench.course_file import BUNDLED, load

    return load(BUNDLED)


@lru_cache(maxsize=1)
def held_out() -> Recording:
    """Courses of the prompts that judge: nothing may be tuned on them.

    Of the same model as `bundled()`, and at its prices.

    Raises:
        TraceError: the file is damaged.
    """
    from strata_nb.bench.course_file import HELD_OUT, load

    return load(HELD_OUT)
