"""Recordings made by hand: a text, drafts and routes that tests choose."""

from collections.abc import Sequence

import numpy as np

from strata_nb.bench.courses import Course, Prices, Recording, Spot

PRICES = Prices(
    window_ms=(10.0, 12.0, 13.0, 16.0, 17.0, 18.0, 19.0, 20.0),
    layer_ms=5.0,
    draft_ms={"by hand": 0.5},
    expert_bytes=100,
)
"""Of a model of two layers."""


def course(
    accepted: Sequence[int],
    *,
    drafts: int = 3,
    kind: str = "code",
    max_new: int | None = None,
    experts: int = 8,
) -> Course:
    """A text of one token for each entry of `accepted`, its places 5, 6, 7 …

    Drafts are the text as far as they are accepted, and 999 after that. Row r of the
    text uses experts r and r + 1 of each of two layers, a wrong draft the last two.
    """
    count = len(accepted)
    text = [100 + at for at in range(count + 1)]
    spots = []
    for at, right in enumerate(accepted):
        offered = min(drafts, (max_new or count) - at - 1)
        right = min(right, offered)
        draft = [*text[at + 1 : at + 1 + right], *[999] * (offered - right)]
        rows = [at + row if row <= right else experts - 2 for row in range(1 + offered)]
        ids = [[row % experts, (row + 1) % experts] for row in rows]
        spots.append(
            Spot(
                position=5 + at,
                root=text[at],
                emits=text[at + 1],
                draft=tuple(draft),
                accepted=right,
                routes=np.array([[pair, pair] for pair in ids], np.uint16),
                match_length=4 if draft else None,
                chances=tuple(0.5 for _ in draft),
            )
        )
    return Course(kind, 0, "by hand", max_new or count, tuple(spots))


def recording(*courses: Course) -> Recording:
    """With `PRICES`."""
    return Recording(courses, PRICES, {"by": "hand"})
