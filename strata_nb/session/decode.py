"""Generating on an engine: windows in a row until a stop id or a limit."""

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from strata_nb import refusals
from strata_nb.accept import Stop
from strata_nb.draft import Draft
from strata_nb.engine import Engine
from strata_nb.session.window import How, advance
from strata_nb.undo import Undo

Drafts = Callable[[Sequence[int]], Iterable[int]]
"""Proposes the tokens after those emitted so far, the root last."""


@dataclass(frozen=True)
class Generated:
    """A generated text.

    Attributes:
        tokens: emitted tokens; a stop id is the last of them.
        stop: "stop", "limit" (`max_new` or the end of the context).
        windows: windows it took.
        offered: drafts that took part.
        accepted: drafts that were kept.
    """

    tokens: tuple[int, ...]
    stop: Stop
    windows: int
    offered: int
    accepted: int


def generate(
    engine: Engine,
    root: int,
    *,
    max_new: int,
    drafts: Drafts | None = None,
    stop_ids: Collection[int] | None = None,
) -> Generated:
    """Generate greedily after `root`; the text is the same with any drafts or none.

    The last token emitted is not committed: it is the root of whatever comes next, as
    in decoding row by row. A `Session` has drafters, sampling and requests.

    Args:
        engine: holds everything before `root`.
        root: a token already decided and not yet run.
        max_new: tokens to emit at most; 0 does nothing.
        drafts: called with the root and what was emitted since; None offers no drafts.
        stop_ids: tokens that end the text; None takes the model's.

    Raises:
        ValueError: `max_new` is negative; nothing has changed.
        StrataError: as `run`, `finish` and `commit` raise. Whatever is raised, by
            `drafts` or an interrupt too, the engine is then as before the call.
    """
    stops = None if stop_ids is None else refusals.stop_ids(stop_ids)
    if operator.index(max_new) < 0:
        raise ValueError(f"`max_new` is {max_new}, wanted 0 or more tokens")
    text = [root]

    def propose(most: int) -> Draft:
        assert drafts is not None
        return Draft(tuple(islice(drafts(list(text)), most)))

    how = How(
        name="caller" if drafts else "none",
        propose=propose if drafts else None,
        stop_ids=stops,
    )
    windows = offered = accepted = 0
    stop: Stop | None = None
    with Undo(engine):
        while stop is None and (left := max_new + 1 - len(text)) > 0:
            done = advance(engine, text[-1], left=left, how=how)
            if done is None:
                break
            result = done.result
            text += result.emitted
            windows, stop = windows + 1, result.stop
            offered, accepted = offered + result.offered, accepted + result.accepted
    return Generated(tuple(text[1:]), stop or "limit", windows, offered, accepted)
