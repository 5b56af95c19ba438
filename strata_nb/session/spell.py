"""Notices when drafts stop being accepted, which speed alone would hide."""

import warnings
from collections import deque

LONG = 50
"""Windows in a row without an accepted draft that are worth a warning."""

PAST = 2000
"""Emitted tokens before a spell that say how good the drafts had been."""


class Spell:
    """Windows in a row whose drafts were all rejected, after better times."""

    def __init__(self) -> None:
        self._row: list[int] = []
        self._past: deque[tuple[int, int]] = deque()
        self._offered = self._accepted = 0

    @property
    def windows(self) -> int:
        """Windows in a row whose drafts were all rejected, up to the last one noted."""
        return len(self._row)

    def note(self, offered: int, accepted: int) -> float | None:
        """Take one window in.

        Args:
            offered: drafts that took part.
            accepted: drafts that were kept.

        Returns:
            The acceptance of the last `PAST` tokens before the spell, just when a spell
            of `LONG` windows is full and that acceptance was above a half; None
            otherwise.
        """
        if offered == 0:
            return None
        if accepted == 0:
            self._row.append(offered)
            was = self._accepted / self._offered if self._offered else 0.0
            return was if self.windows == LONG and was > 0.5 else None
        for rejected in self._row:
            self._remember(rejected, 0)
        self._remember(offered, accepted)
        self._row.clear()
        return None

    def _remember(self, offered: int, accepted: int) -> None:
        self._past.append((offered, accepted))
        self._offered += offered
        self._accepted += accepted
        # A window emits its accepted drafts and one token more.
        while self._accepted + len(self._past) > PAST:
            offered, accepted = self._past.popleft()
            self._offered -= offered
            self._accepted -= accepted


def warn(was: float) -> None:
    """Warn of a spell.

    Args:
        was: the acceptance before it.
    """
    # With no registry, or a second spell would be silent: `warnings.warn` shows the
    # same words of the same line only once in a process.
    warnings.warn_explicit(
        f"no draft was accepted in {LONG} windows, before it was {was:.0%}: either the "
        "text has turned, or the drafter no longer fits; run `strata-nb gate` if you "
        "doubt the engine",
        UserWarning,
        filename=__file__,
        lineno=1,
        module=__name__,
    )
