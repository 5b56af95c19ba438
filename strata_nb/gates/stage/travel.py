"""Taking an engine along a way, and what is seen of it at the commit and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strata_nb.engine import Engine
from strata_nb.gates.judge.verdict import Observed, RowSeen, judge, see
from strata_nb.gates.records import HEAD_PARTS, PARTS, By, Finding, Moment
from strata_nb.gates.stage.rig import Rig
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.state import Leaves

Windows = Sequence[tuple[Sequence[int], int]]
"""Rows of each window, and how many of them are kept."""


@dataclass(frozen=True)
class Way:
    """What was seen at the start, after the last commit, and after more rows."""

    start: Leaves
    commit: Observed
    after: Observed

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Parts that are not what they were at the start."""
        leaves = self.after.leaves
        moved = {k.part for k, a in leaves.items() if not _same(self.start.get(k), a)}
        return tuple(part for part in (*PARTS, *HEAD_PARTS) if part in moved)


def _same(first: np.ndarray | None, second: np.ndarray) -> bool:
    return first is not None and np.array_equal(first, second)


def travel(
    engine: Engine,
    windows: Windows,
    after: Sequence[int],
    *,
    rig: Rig,
    drafts: int = 0,
) -> Way:
    """Run `windows`, each kept in part by force, then the rows `after` in one window.

    Args:
        engine: it is moved on.
        windows: rows and keep of each.
        after: right rows that follow, all kept.
        rig: says whether decisions have to be seen, or bits tell all.
        drafts: tokens that the draft head drafts before each window; the window's own
            rows do not follow from it.
    """
    start = engine.leaves()
    rows: dict[int, RowSeen] = {}
    for ids, keep in windows:
        if drafts:
            engine.draft(drafts, root=ids[0])
        rows |= see(engine, ids, keep=keep, decisions=not rig.exact)
    commit = Observed(engine.position, engine.leaves(), dict(rows))
    if after:
        rows |= see(engine, after, keep=len(after), decisions=not rig.exact)
    return Way(start, commit, Observed(engine.position, engine.leaves(), rows))


Again = Callable[[Imposed], Way]
"""The same way once more, with decisions imposed."""


def compare(subject: Way, again: Again, *, by: By, rig: Rig) -> list[Finding]:
    """Judge both moments of `subject` against a way of a sound engine.

    Args:
        subject: what was seen of the engine in question.
        again: takes the reference along its way.
        by: "twin" is compared to the bit on every device.
        rig: gives the floor and whether the others are, too.
    """
    exact = rig.exact or by == "twin"
    ratio = rig.model.config.indexer_compress_ratio
    first = again(NOTHING)
    found: list[Finding] = []
    moments: tuple[tuple[Moment, Observed], ...] = (
        ("commit", subject.commit),
        ("after", subject.after),
    )
    for moment, seen in moments:

        def reference(imposed: Imposed, moment: Moment = moment) -> Observed:
            way = first if imposed is NOTHING else again(imposed)
            return way.commit if moment == "commit" else way.after

        judged = judge(
            seen,
            reference(NOTHING) if exact else reference,
            by=by,
            moment=moment,
            ratio=ratio,
            floor=rig.floor,
            exact=exact,
        )
        # The rows before the commit are seen at both moments: told once.
        told = {_place(f) for f in found if f.what in _OF_ROWS}
        found += [f for f in judged if _place(f) not in told]
    return found


_OF_ROWS = ("logits", "token", "experts", "blocks")


def _place(finding: Finding) -> tuple[str, int | None, int | None]:
    return finding.what, finding.layer, finding.cell
