"""Spells of rejections: by the session's own rule, and where they are."""

from dataclasses import dataclass

from strata_nb import WindowRecord
from strata_nb.session.spell import Spell


@dataclass
class Rejected:
    """A spell of rejections.

    Attributes:
        since: its first window.
        windows: with drafts, in it so far.
        last: its last one so far.
        was: acceptance before it, 0 to 1.
    """

    since: int
    windows: int
    last: int
    was: float


class Spells:
    """Finds spells by the session's own rule, and says where they are."""

    def __init__(self) -> None:
        self._rule = Spell()
        self._since = 0
        self.now: Rejected | None = None
        self.before: Rejected | None = None
        self.ended = 0

    def add(self, window: int, record: WindowRecord) -> None:
        """Take one window in."""
        if not record.offered:
            return
        was = self._rule.note(record.offered, record.accepted)
        if record.accepted:
            if self.now is not None:
                self.before, self.now = self.now, None
                self.ended += 1
            return
        windows = self._rule.windows
        if windows == 1:
            self._since = window
        if was is not None:
            self.now = Rejected(self._since, windows, window, was)
        elif self.now is not None:
            self.now.windows, self.now.last = windows, window
