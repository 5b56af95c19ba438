"""Traces with one thing wrong, or several: windows as a clock would have seen them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strata_nb.trace import LayerRecord, WindowRecord

LAYERS = 4
CHOSEN = 8


@dataclass(frozen=True)
class Plan:
    """What windows cost and how their drafts fare; times in ms.

    Attributes:
        windows: that a drafter is asked for.
        rows: T of those in which it finds something.
        found: share of them.
        acceptance: of each draft, if all before were accepted.
        turned: the same from the first third of the windows on; None: as before.
        target: of a window of one row.
        row: what a further row adds.
        draft: of the drafter.
        commit: of a window without drafts.
        commit_more: what it takes more with drafts; all of it a fold if `fold`.
        fold: of a window with drafts, within its commit.
        wait: for experts, without drafts.
        wait_more: what it waits more with drafts.
        late: whether that is for reads ahead, and not for misses.
        kept: rows that the caller keeps at most; None: as many as the rule.
        building: added to every `every`th window with drafts.
        every: see `building`.
        cell: ms that a row takes more for each cell of context.
        start: cell of the first window with a drafter; plain windows begin at 0.
        apart: cells between windows, beside what they commit.
        plain: windows in front that no drafter was asked for.
    """

    windows: int = 200
    rows: int = 4
    found: float = 0.8
    acceptance: tuple[float, ...] = (0.85,) * 7
    turned: tuple[float, ...] | None = None
    target: float = 40.0
    row: float = 5.0
    draft: float = 0.05
    commit: float = 0.6
    commit_more: float = 0.0
    wait: float = 0.0
    wait_more: float = 0.0
    late: bool = False
    kept: int | None = None
    building: float = 0.0
    every: int = 2
    cell: float = 0.0
    start: int = 40
    apart: int = 0
    plain: int = 12


HEALTHY = Plan()

PLANTED = {
    "rejected": Plan(acceptance=(0.1,) * 7, row=12),
    "too_long": Plan(rows=8, acceptance=(0.9,) + (0.05,) * 6, row=9),
    "dear_rows": Plan(row=46, acceptance=(0.9,) * 7),
    "spell": Plan(windows=300, row=15, acceptance=(0.9,) * 7, turned=(0.02,) * 7),
    "drafter": Plan(draft=70),
    "cold_experts": Plan(wait=4, wait_more=130),
    "prefetch": Plan(wait=4, wait_more=130, late=True),
    "commit": Plan(commit_more=110),
    "forced_keep": Plan(kept=1),
    "not_warm": Plan(building=220),
    "long_context": Plan(cell=0.002, start=2000, apart=100, acceptance=(0.6,) * 7),
    "few_drafts": Plan(found=0.02),
}


def slow_trace(plan: Plan, *, seed: int) -> list[WindowRecord]:
    """Windows after `plan`, with the noise of a machine that does other things too."""
    rng = np.random.default_rng(seed)
    records = []
    position = 0
    for _ in range(plan.plain):
        records.append(_window(plan, rng, position, 1, 0, asked=False))
        position += 1
    position = max(position, plan.start)
    drafted = 0
    for number in range(plan.windows):
        chances = plan.acceptance
        if plan.turned is not None and number >= plan.windows // 3:
            chances = plan.turned
        rows = plan.rows if rng.random() < plan.found else 1
        fates = rng.random(rows - 1) < chances[: rows - 1]
        right = int(np.cumprod(fates).sum())
        drafted += rows > 1
        cold = rows > 1 and plan.building > 0 and drafted % plan.every == 0
        record = _window(plan, rng, position, rows, right, cold=bool(cold))
        records.append(record)
        position += record.keep + plan.apart
    return records


def changed(record: WindowRecord, **to: Any) -> WindowRecord:
    """`record` with other fields."""
    return replace(record, **to)


def _window(
    plan: Plan,
    rng: np.random.Generator,
    position: int,
    rows: int,
    right: int,
    *,
    asked: bool = True,
    cold: bool = False,
) -> WindowRecord:
    drafts = rows > 1
    keep = right + 1
    forced = plan.kept is not None and keep > plan.kept
    if forced and plan.kept is not None:
        keep = plan.kept
    wait = _noisy(rng, plan.wait + (plan.wait_more if drafts else 0.0))
    target = plan.target + plan.row * (rows - 1) + plan.cell * rows * position
    commit = plan.commit + (plan.commit_more if drafts else 0.0)
    # The rule's own predictions: right up to the first that is not.
    inputs = (1,) * rows
    predictions = tuple(1 if row < right else 2 for row in range(rows))
    return WindowRecord(
        position=position,
        inputs=inputs,
        predictions=predictions,
        emitted=predictions[:keep],
        keep=keep,
        forced=forced,
        offered=keep - 1 if forced else rows - 1,
        accepted=min(right, keep - 1),
        rule="greedy",
        drafter="lookup" if asked else "none",
        match_length=5 if drafts else None,
        fold="eager",
        partial=False,
        warm=not cold,
        draft_ms=_noisy(rng, plan.draft) if asked else None,
        run_ms=_noisy(rng, target) + wait + (plan.building if cold else 0.0),
        expert_wait_ms=wait if plan.wait + plan.wait_more else None,
        finish_ms=_noisy(rng, 0.2),
        commit_ms=_noisy(rng, commit),
        fold_ms=_noisy(rng, plan.commit_more) if drafts and plan.commit_more else None,
        layers=tuple(_layers(plan, rng, rows, keep)),
    )


def _noisy(rng: np.random.Generator, ms: float) -> float:
    """A time with 6 % of noise, and now and then far too long."""
    busy = 1.5 if rng.random() < 0.03 else 1.0
    return float(ms * busy * np.exp(rng.normal(0, 0.06)))


def _layers(
    plan: Plan, rng: np.random.Generator, rows: int, keep: int
) -> Sequence[LayerRecord]:
    if not plan.wait + plan.wait_more:
        return ()  # all in memory, and of no interest
    found = []
    for layer in range(LAYERS):
        ids = rng.integers(0, 128, (rows, CHOSEN))
        union = len(set(ids.ravel().tolist()))
        ahead = plan.late and rows > 1
        miss = 1 if rows == 1 or ahead else union // 2
        late = union // 2 - 1 if ahead else 0
        measured: dict[str, int | None] = {
            "resident": union - miss - late,
            "miss": miss,
            "late": late,
            "prefetched": 2 * union if ahead else 0,
            "evicted": miss + (2 * union if ahead else 0),
        }
        found.append(LayerRecord.from_decisions(layer, ids, keep, **measured))
    return found
