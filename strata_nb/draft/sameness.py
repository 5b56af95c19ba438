"""Notices a draft head that says the same whatever the text: one that is misread."""

import warnings
from collections.abc import Sequence

ENOUGH = 100
"""Drafts that are looked at together."""
DISTINCT = 5
"""Different tokens that a sound head has in so many drafts of ordinary text."""


class Sameness:
    """The tokens of drafts, and how often the first of one was right.

    A head that was converted or is read wrongly raises no error: its drafts are one
    token for ever, or a few, and none is accepted. Where the text itself is one token,
    they are right, and nothing is wrong.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._drafts = self._right = 0

    def note(self, draft: Sequence[int], came: Sequence[int]) -> str | None:
        """Take a draft in, and what was emitted in its place.

        Returns:
            What is odd, with every `ENOUGH`th draft; None: nothing, or it is too early.
        """
        if not draft or not came:
            return None
        self._seen |= {*draft}
        self._drafts += 1
        self._right += draft[0] == came[0]
        if self._drafts < ENOUGH:
            return None
        distinct, right = len(self._seen), self._right / self._drafts
        self._seen, self._drafts, self._right = set(), 0, 0
        if distinct >= DISTINCT or right > 0.5:
            return None
        tokens = "1 token" if distinct == 1 else f"{distinct} different tokens"
        return (
            f"{ENOUGH} drafts of the draft head have only {tokens}, and {right:.0%} of "
            "them began rightly: it was converted or is read wrongly; convert it "
            "again, try `Mtp(norm=...)`, or leave the head off"
        )


def warn(what: str) -> None:
    """Warn of a head that says the same."""
    # With no registry, or the same words of another head would be silent.
    warnings.warn_explicit(
        what, UserWarning, filename=__file__, lineno=1, module=__name__
    )
