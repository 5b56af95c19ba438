"""A scripted target: logits are a function of the tokens; windows without an engine."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from strata_nb.accept import accept
from strata_nb.draft import Draft
from strata_nb.sampling import Sampler

Target = Callable[[Sequence[int]], np.ndarray]


class Proposes(Protocol):
    """All that a window asks of a drafter."""

    def __call__(self, text: Sequence[int], most: int) -> Draft:
        """Drafts after `text`."""


def no_drafts(text: Sequence[int], most: int) -> Draft:
    return Draft()


def generated(
    target: Target,
    sampler: Sampler,
    prompt: Sequence[int],
    count: int,
    *,
    width: int = 1,
    propose: Proposes = no_drafts,
    stop_ids: Sequence[int] = (),
    tally: dict[str, int] | None = None,
) -> list[int]:
    """`count` tokens after `prompt`, in windows of at most `width` rows."""
    sampler.assign(prompt)
    text, stop = list(prompt), None
    while stop is None and (left := count - (len(text) - len(prompt))) > 0:
        draft = propose(text, min(width, left) - 1) if width > 1 else Draft()
        rows = [text[-1], *draft.tokens]
        logits = np.stack([target([*text, *rows[1 : i + 1]]) for i in range(len(rows))])
        choice = sampler.choice(draft.laws)
        chosen = choice(rows, logits, start=len(text) - 1)
        found = accept(rows, chosen, stop_ids=stop_ids, tokens_left=left)
        emitted = chosen[: found.accepted + 1]
        sampler.append(emitted)
        text += emitted
        stop = found.stop
        if tally is not None:
            tally["windows"] = tally.get("windows", 0) + 1
            tally["offered"] = tally.get("offered", 0) + found.offered
            tally["accepted"] = tally.get("accepted", 0) + found.accepted
    return text[len(prompt) :]
