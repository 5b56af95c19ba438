"""How many rows a window has."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from strata_nb.trace import WindowRecord


@dataclass(frozen=True)
class Offer:
    """A draft that is there, before anything is run or read for it.

    Attributes:
        position: the cell of row 0.
        tokens: the draft.
        match_length: tokens of history that it rests on; None where nothing matched.
        chances: [len(tokens)], the drafter's own probability of each token given those
            before it; None where it says none.
        ratio: cells a block, R.
    """

    position: int
    tokens: tuple[int, ...]
    match_length: int | None = None
    chances: tuple[float, ...] | None = None
    ratio: int = 4


@dataclass(frozen=True)
class Paid:
    """What a window cost and gave, as a length policy learns it.

    Attributes:
        rows: T.
        keep: rows that were kept, 1 to T.
        match_length: of its draft, as in `Offer`.
        position: the cell of its row 0.
        ms: all that it took: drafting, run, wait for experts, finish, commit, fold.
        warm: whether a window of this shape had been run before; a first one may
            include compilation.
        cold: experts of its rows that were in no slot when their layer asked, over all
            layers; 0 where all are in memory.
        late: of those, the ones that were on their way already.
        decided: drafts that were accepted or rejected on their own: those accepted,
            and the first mismatch.
        wait_ms: of `ms`, what layers waited for experts.
        draft_ms: of `ms`, what the drafter took.
        emitted: what the text gained; it also tells of drafts that were not verified.
    """

    rows: int
    keep: int
    match_length: int | None
    position: int
    ms: float
    warm: bool = True
    cold: int = 0
    late: int = 0
    decided: int = 0
    wait_ms: float = 0.0
    draft_ms: float = 0.0
    emitted: tuple[int, ...] = ()

    @property
    def accepted(self) -> int:
        """Drafts that were accepted, of those decided."""
        return min(self.keep - 1, self.decided)


def paid_for(record: WindowRecord) -> Paid:
    """What the window of `record` cost and gave; a time that is missing counts 0."""
    late = sum(layer.late or 0 for layer in record.layers)
    # Whatever the rule, the drafts behind the first mismatch were not decided.
    mismatch = record.accepted < record.offered and record.keep > record.accepted
    return Paid(
        rows=record.T,
        keep=record.keep,
        match_length=record.match_length,
        position=record.position,
        ms=record.total_ms or 0.0,
        warm=record.warm is not False,
        cold=sum(layer.miss or 0 for layer in record.layers) + late,
        late=late,
        decided=record.accepted + mismatch,
        wait_ms=record.expert_wait_ms or 0.0,
        draft_ms=record.draft_ms or 0.0,
        emitted=record.emitted,
    )


class Length(Protocol):
    """Decides how many rows a window may have; fewer rows, the same text.

    A policy may also have the methods `cut(offer) -> int`, which answers a draft with
    the rows of its window, 1 to 1 + len(tokens), and `learn(paid)`, which is told what
    each window came to. It never sees what comes, nor, under the rule "ratio", tokens
    that were drawn (`cut_by`).
    """

    @property
    def name(self) -> str:
        """For records and reports."""

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """Rows of the window that starts at `position`, 1 to `most`.

        Args:
            position: the cell of row 0.
            most: rows that limits, context and engine leave room for, 1 or more.
            ratio: cells a block, R.
        """


@dataclass(frozen=True)
class Free:
    """As many rows as there is room for."""

    name: str = "free"

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """`most`."""
        return most


@dataclass(frozen=True)
class Fixed:
    """At most `most_rows` rows, whatever a window costs or brings.

    Attributes:
        most_rows: T, 1 or more; 1 is plain decoding, and no drafter is asked.

    Raises:
        ValueError: it is below 1.
    """

    most_rows: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.most_rows, bool) or operator.index(self.most_rows) < 1:
            raise ValueError(f"`most_rows` is {self.most_rows}, wanted 1 or more rows")

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"fixed {self.most_rows}"

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """`most_rows`, as far as there is room."""
        return min(most, self.most_rows)


@dataclass(frozen=True)
class Contained:
    """No window passes the end of a block: T <= R - position mod R.

    The remedy for an indexer tail that is written in place; a sound tail needs none.
    """

    name: str = "contained"

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """Rows up to the end of the block that `position` lies in."""
        return min(most, ratio - position % ratio)


UNKNOWN: Final = -1
"""Stands for a token that a length policy may not see."""


def cut_by(length: Length, offer: Offer, *, blind: int | None = None) -> int:
    """Rows of the window that verifies `offer`, as `length` wants them.

    Under the rule "ratio" a token that was drawn has the model's law only if it is
    verified whatever it is: a policy that drops what looks unlikely would let it come
    too seldom. So there it is asked about tokens that it does not see, and about as
    many of them as there would be had no draw ended the draft.

    Args:
        length: the policy.
        offer: the draft.
        blind: tokens that a drawn draft was meant to have; None: it may be looked at.

    Raises:
        ValueError: it answers with less than the root or more than there is.
    """
    asked: Callable[[Offer], int] | None = getattr(length, "cut", None)
    there = 1 + len(offer.tokens)
    if blind is not None:
        hidden = (UNKNOWN,) * max(blind, len(offer.tokens))
        offer = Offer(offer.position, hidden, ratio=offer.ratio)
    whole = 1 + len(offer.tokens)
    rows = whole if asked is None else asked(offer)
    if not 1 <= rows <= whole:
        raise ValueError(
            f"the length policy {length.name!r} wants {rows} rows, wanted 1 to "
            f"{whole}: the root and what was drafted"
        )
    return min(rows, there)


def tell(length: Length, record: WindowRecord, *, blind: bool = False) -> None:
    """Let `length` learn from a committed window, if it does.

    Args:
        length: the policy.
        record: of the window.
        blind: it saw no token of the draft, so that what was emitted tells it nothing:
            it learns what the window decided.
    """
    learn: Callable[[Paid], None] | None = getattr(length, "learn", None)
    if learn is not None:
        paid = paid_for(record)
        learn(replace(paid, emitted=()) if blind else paid)


FREE = Free()
CONTAINED = Contained()
