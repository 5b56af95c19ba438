"""The windows of a trace, their time split so that its parts add up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strata_nb.trace import WindowRecord
from strata_nb.trace.drafts import judged

LEAST = 4
"""Windows below which a mean says nothing."""


@dataclass(frozen=True)
class Spent:
    """One window that predicts and whose `run` was measured; times in ms.

    Attributes:
        record: all else of it.
        target: run and finish, without waits and a lazy fold.
        wait: for experts.
        draft: of the drafter.
        commit: commit and fold.
        accepted: drafts that the rule accepts, whatever the caller then kept.
        offered: drafts that the rule looked at.
        lost: tokens that a keep below the natural one gave up.
    """

    record: WindowRecord
    target: float
    wait: float
    draft: float
    commit: float
    accepted: int
    offered: int
    lost: int

    @property
    def emitted(self) -> int:
        """Tokens."""
        return len(self.record.emitted)

    @property
    def natural(self) -> int:
        """Tokens that a natural keep would have emitted."""
        return self.emitted + self.lost

    @property
    def rows(self) -> int:
        """T."""
        return self.record.T

    @property
    def is_warm(self) -> bool:
        """Not known counts as warm."""
        return self.record.warm is not False

    @property
    def pass_ms(self) -> float:
        """All but the drafter."""
        return self.target + self.wait + self.commit


@dataclass(frozen=True)
class Plain:
    """What a token costs without drafts, ms."""

    target: float
    wait: float
    commit: float
    windows: tuple[Spent, ...] = ()

    @property
    def ms(self) -> float:
        """All of it."""
        return self.target + self.wait + self.commit


def spent(record: WindowRecord) -> Spent | None:
    """The split of a window; None where it predicts nothing or `run` has no time."""
    if record.headless or record.run_ms is None:
        return None
    wait = min(record.expert_wait_ms or 0.0, record.run_ms)
    # An eager fold is part of the commit already, a lazy one of the run.
    fold = record.fold_ms or 0.0 if record.fold == "lazy" else 0.0
    fold = min(fold, record.run_ms - wait)
    offered, accepted = judged(record)
    return Spent(
        record=record,
        target=record.run_ms - wait - fold + (record.finish_ms or 0.0),
        wait=wait,
        draft=record.draft_ms or 0.0,
        commit=(record.commit_ms or 0.0) + fold,
        accepted=accepted,
        offered=offered,
        lost=max(0, accepted + 1 - record.keep) if record.forced else 0,
    )


def was_asked(window: Spent) -> bool:
    """Whether a drafter was asked for this window, or somebody typed drafts."""
    return window.rows > 1 or window.record.drafter != "none"


def one_row(windows: Iterable[Spent]) -> tuple[Spent, ...]:
    """Windows that show plain decoding.

    Those that no drafter was asked for, if there are enough, for drafts leave their
    mark on what is in memory; else all of one row that were warm.
    """
    warm = [w for w in windows if w.rows == 1 and w.is_warm]
    unasked = [w for w in warm if not was_asked(w)]
    return tuple(unasked if len(unasked) >= LEAST else warm)


def plain(
    windows: Sequence[Spent], drafted: Sequence[Spent], *, serial_ms: float | None
) -> Plain | None:
    """What a token costs without drafts; None where nothing tells.

    Args:
        windows: of one row, warm.
        drafted: with drafts.
        serial_ms: what the caller measured, ms; `windows` then only say how it splits.
    """
    if len(windows) >= LEAST:
        count = len(windows)
        found = Plain(
            sum(w.target for w in windows) / count,
            sum(w.wait for w in windows) / count,
            sum(w.commit for w in windows) / count,
            tuple(windows),
        )
        if serial_ms is None:
            return found if found.ms > 0 else None
        scale = serial_ms / found.ms if found.ms > 0 else 1.0
        # Without the windows: the caller's number knows nothing of their context.
        return Plain(found.target * scale, found.wait * scale, found.commit * scale)
    if serial_ms is None:
        return None
    # What the roots alone would have waited for, as far as unions tell.
    waits = [w.wait * _root_share(w.record) for w in drafted]
    wait = min(sum(waits) / len(waits), serial_ms) if waits else 0.0
    return Plain(serial_ms - wait, wait, 0.0)


def _root_share(record: WindowRecord) -> float:
    union = sum(layer.union_size for layer in record.layers)
    return sum(x.root_only_size for x in record.layers) / union if union else 1.0
