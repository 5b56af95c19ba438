"""The experiments: what is done to an engine, and with what it is then compared."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from strata_nb.gates.foreign.cases import AFTER
from strata_nb.gates.foreign.driver import Driver, Way
from strata_nb.gates.foreign.rows import Judge, Rows
from strata_nb.gates.records import Case

Experiment: TypeAlias = Callable[[Case, Driver, Rows, Judge], None]


def reset(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """Another text, `rows` of it in one window, then reset and the text itself."""
    driver.start(0)
    other = [(token + 1) % driver.vocabulary for token in reversed(driver.text)]
    driver.feed(other[: _number(case, "rows")])
    driver.start(0)
    first = driver.text[: 2 * AFTER]
    judge.rows(driver.each(first), serial[: len(first)], cell=0)


def widths(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """The text in windows of T rows, against one row at a time."""
    T = _number(case, "T")
    driver.start(0)
    for at in range(0, len(driver.text), T):
        rows = driver.feed(driver.text[at : at + T])
        judge.rows(rows, serial[at : at + T], cell=at, by="serial", moment="commit")


def matters(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """Wrong rows that are kept must show, or no experiment below proves a thing."""
    start, text = _number(case, "start"), driver.text
    right = text[start : start + 4]
    driver.start(start)
    driver.feed(_wrong(right, driver.vocabulary))
    got = driver.feed(right[:1])
    driver.start(start)
    driver.feed(right)
    size = float(np.abs(got - driver.feed(right[:1])).max())
    judge.largest = size
    if size <= judge.bounds.limit:
        judge.rule(
            f"four other tokens before a row change its logits by {size:.1e} only; a "
            "state that they leave behind could not be seen, so the rest proves nothing"
        )


def rejection(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """A window of which `keep` rows are right; back to those; then on greedily."""
    start, T, keep = (_number(case, name) for name in ("start", "T", "keep"))
    plain = driver.plain(start, keep, count=AFTER)
    right = driver.text[start : start + keep]
    # What the text has there is what a good draft would be; these are all others.
    drafts = _wrong(driver.text[start + keep : start + T], driver.vocabulary)
    if case["drafts"] == "equal":
        drafts = drafts[:1] * len(drafts)
    driver.start(start)
    kept = driver.rewound([*right, *drafts], keep, way=_way(case))
    judge.rows(kept, plain.kept, cell=start, moment="commit")
    _follow(driver, judge, plain.tokens, plain.rows, cell=start + keep)


def rounds(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """Windows of T rows, one after another, of which only the root is ever right."""
    start, T, count = (_number(case, name) for name in ("start", "T", "rounds"))
    plain = driver.plain(start, 1, count=count + T)
    roots = (driver.text[start], *plain.tokens)
    want = np.concatenate([plain.kept, plain.rows])
    driver.start(start)
    for i in range(count):
        drafts = _wrong(roots[i + 1 : i + T], driver.vocabulary)
        kept = driver.rewound([roots[i], *drafts], 1, way=_way(case))
        judge.rows(kept, want[i : i + 1], cell=start + i)


def resume(case: Case, driver: Driver, serial: Rows, judge: Judge) -> None:
    """Save, go on, restore, go on otherwise; and restore the same save once more."""
    start = _number(case, "start")
    plain = driver.plain(start, 1, count=AFTER)
    tokens = (driver.text[start], *plain.tokens)
    want = np.concatenate([plain.kept, plain.rows])
    driver.start(start)
    saved = driver.save()
    driver.feed(_wrong(tokens[:5], driver.vocabulary))
    for note in ("", "restored a second time: "):
        if case["empty"]:
            driver.start(0)
        driver.restore(saved)
        _follow(driver, judge, tokens, want, cell=start, note=note)


EXPERIMENTS: Mapping[str, Experiment] = {
    "reset": reset,
    "widths": widths,
    "matters": matters,
    "rejection": rejection,
    "rounds": rounds,
    "resume": resume,
}
"""By the family of the cases that they answer."""


def _follow(
    driver: Driver,
    judge: Judge,
    tokens: Sequence[int],
    want: Rows,
    *,
    cell: int,
    note: str = "",
) -> None:
    """Feed `tokens` one by one, whatever the engine would say, and compare each row."""
    judge.rows(driver.each(tokens), want, cell=cell, note=note)


def _wrong(tokens: Sequence[int], vocabulary: int) -> list[int]:
    """The token after each; no draft is further from being right."""
    return [(token + 1) % vocabulary for token in tokens]


def _number(case: Case, name: str) -> int:
    return int(case[name])


def _way(case: Case) -> Way:
    return cast(Way, case["way"])
