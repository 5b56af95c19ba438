"""Generating: windows in a row until a stop id or a limit."""

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from strata_nb import refusals
from strata_nb.accept import Stop
from strata_nb.engine import Engine
from strata_nb.refusals import MAX_ROWS
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
    in decoding row by row.

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
    emitted: list[int] = []
    windows = offered = accepted = 0
    stop: Stop | None = None
    with Undo(engine):
        while stop is None and (left := max_new - len(emitted)) > 0:
            room = min(MAX_ROWS, left, engine.context - engine.position)
            if room < 1:
                break
            text = [root, *emitted]
            offers = islice(drafts(text), room - 1) if drafts else ()
            rows = [text[-1], *offers]
            window = engine.run(rows, drafter="caller" if drafts else "none")
            result = engine.finish(window, stop_ids=stops, tokens_left=left)
            engine.commit(window)
            emitted += result.emitted
            windows, stop = windows + 1, result.stop
            offered, accepted = offered + result.offered, accepted + result.accepted
    return Generated(tuple(emitted), stop or "limit", windows, offered, accepted)
