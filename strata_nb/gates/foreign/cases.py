"""Which questions an engine is asked, by profile."""

from collections.abc import Iterator

from strata_nb.gates.foreign.driver import Way
from strata_nb.gates.records import Case, Profile, Scalar

NAME = "foreign"

WIDTHS = range(1, 9)
"""Rows of a window."""

AFTER = 8
"""Greedy tokens that are compared after going back."""

LEAST = 12
"""Tokens that a prompt has to have, so that windows start at four places."""


def cases(length: int, profile: Profile, *, ways: tuple[Way, ...]) -> list[Case]:
    """The cases for a prompt of `length` tokens, in the order in which they run.

    Args:
        length: tokens, `LEAST` or more.
        profile: how many.
        ways: how the engine can go back, if at all.
    """
    # Every run below begins with a reset: one that fails spoils them all.
    found = [_case("reset", rows=rows) for rows in (1, length)]
    found += [_case("widths", T=T) for T in (*WIDTHS, length)]
    starts = _starts(length, profile)
    found += [_case("matters", start=start) for start in starts]
    for way in ways:
        found += _rejections(way, starts, quick=profile == "quick")
        found += _rounds(way, starts[-1], quick=profile == "quick")
    if "restore" in ways:
        for start in starts:
            found += [_case("resume", start=start, empty=e) for e in (False, True)]
    return found


_QUICK = ((2, 1), (4, 1), (4, 3), (8, 1), (8, 5))


def _rejections(way: Way, starts: tuple[int, ...], *, quick: bool) -> Iterator[Case]:
    every = tuple((T, keep) for T in WIDTHS[1:] for keep in range(1, T + 1))
    for start in starts:
        for T, keep in _QUICK if quick else every:
            for drafts in ("other",) if quick else ("other", "equal"):
                yield _case(
                    "rejection", way=way, start=start, T=T, keep=keep, drafts=drafts
                )


def _rounds(way: Way, start: int, *, quick: bool) -> Iterator[Case]:
    for T in (2, 5, 8) if quick else WIDTHS[1:]:
        count = 6 if quick else 20
        yield _case("rounds", way=way, start=start, T=T, rounds=count)


def _starts(length: int, profile: Profile) -> tuple[int, ...]:
    """Cells at which windows start: the last ones that leave room for eight rows."""
    last = length - max(WIDTHS)
    if profile == "exhaustive":
        return tuple(range(last + 1))
    return (last - 3, last) if profile == "quick" else (0, *range(last - 3, last + 1))


def _case(family: str, **params: Scalar) -> Case:
    # No part can be seen from outside; one engine runs them all.
    return Case(NAME, family, tuple(params.items()), touches=(), group=NAME)
