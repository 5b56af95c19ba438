"""One window of a text: a root and drafts, verified, and committed."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from strata_nb.accept import Choice
from strata_nb.draft import NO_DRAFT, Draft
from strata_nb.draft.tokens import checked
from strata_nb.engine import Engine
from strata_nb.policies.length import FREE, Length, Offer, cut_by, tell
from strata_nb.refusals import MAX_ROWS
from strata_nb.trace.quoting import shown
from strata_nb.window import CommitReport, Result


@dataclass(frozen=True)
class How:
    """What the windows of one text have in common.

    Attributes:
        name: who proposes the drafts, for the record.
        who: answers, of several in one, who had the last draft; None: `name` had.
        propose: answers a number of tokens with that many drafts at most; None: no
            drafts.
        choose: answers a draft with the rule that will decide; None is greedy.
        length: how many rows a window has.
        stop_ids: tokens that end the text; None takes the model's.
        cut: answers what a window would emit with the number of tokens to emit, from 1
            on; fewer end the text. None emits all.
    """

    name: str = "none"
    who: Callable[[], str | None] = lambda: None
    propose: Callable[[int], Draft] | None = None
    choose: Callable[[Draft], Choice | None] | None = None
    length: Length = FREE
    stop_ids: Collection[int] | None = None
    cut: Callable[[tuple[int, ...]], int] | None = None


@dataclass(frozen=True)
class Done:
    """One window that was committed.

    Attributes:
        result: what `finish` found.
        report: what the commit moved; its `emitted` is what the text gained.
    """

    result: Result
    report: CommitReport

    @property
    def is_cut(self) -> bool:
        """Whether the text ended before the natural keep."""
        return self.report.keep < self.result.keep


def advance(engine: Engine, root: int, *, left: int, how: How) -> Done | None:
    """Run, finish and commit one window after `root`.

    Args:
        engine: holds everything before `root`.
        root: a token already decided and not yet run.
        left: tokens that may still be emitted, 1 or more.
        how: drafter, rule, length, ends.

    Returns:
        What came of it; None where the context has no cell left.

    Raises:
        StrataError: as `run`, `finish` and `commit` raise.
    """
    ratio = engine.backend.config.indexer_compress_ratio
    most = min(MAX_ROWS, left, engine.context - engine.position)
    if most < 1:
        return None
    rows = how.length.rows(engine.position, most=most, ratio=ratio)
    began = time.perf_counter()
    draft = _proposed(how, rows - 1) if rows > 1 else NO_DRAFT
    offer = _offered(engine, draft, most=rows - 1, ratio=ratio)
    choice = how.choose(draft) if how.choose else None
    blind = _blind(draft, choice, most=rows - 1)
    rows = cut_by(how.length, offer, blind=blind)
    draft_ms = (time.perf_counter() - began) * 1e3 if how.propose else None
    window = engine.run(
        (root, *draft.tokens[: rows - 1]),
        drafter=how.who() or how.name,
        match_length=draft.match_length,
        draft_ms=draft_ms,
    )
    result = engine.finish(
        window,
        stop_ids=how.stop_ids,
        tokens_left=left,
        choose=choice,
    )
    keep = result.keep if how.cut is None else how.cut(result.emitted)
    done = Done(result, engine.commit(window, keep=keep))
    tell(how.length, done.report.record, blind=blind is not None)
    return done


def _blind(draft: Draft, choice: Choice | None, *, most: int) -> int | None:
    """Tokens that a draft was meant to have, if its draws may decide no length."""
    if draft.laws is None or choice is None or choice.rule != "ratio":
        return None
    return min(len(draft.tokens) if draft.planned is None else draft.planned, most)


def _offered(engine: Engine, draft: Draft, *, most: int, ratio: int) -> Offer:
    return Offer(
        position=engine.position,
        tokens=draft.tokens[:most],
        match_length=draft.match_length,
        chances=None if draft.chances is None else draft.chances[:most],
        ratio=ratio,
    )


def _proposed(how: How, most: int) -> Draft:
    draft = NO_DRAFT if how.propose is None else how.propose(most)
    # Drafters are written by anybody: the likeliest mistakes are told in words.
    if not isinstance(draft, Draft):
        raise TypeError(
            f"the drafter {how.name!r} proposed {shown(draft)}, wanted a "
            "`strata_nb.draft.Draft`, such as `Draft((1, 2))`, or `NO_DRAFT`"
        )
    try:
        return replace(draft, tokens=checked(draft.tokens))
    except TypeError as error:
        raise TypeError(
            f"the drafter {how.name!r} proposed tokens {shown(draft.tokens)}, wanted a "
            "tuple of integers"
        ) from error
