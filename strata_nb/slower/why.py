"""The question: reads a trace, holds it against the formulas, ranks the causes."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from strata_nb.trace import WindowRecord
from strata_nb.trace.summary import predicting

from . import causes
from .account import Account, account, chances, expected_keep
from .diagnosis import Cause, Diagnosis, Share, Verdict
from .windows import LEAST, Plain, Spent, one_row, plain, spent, was_asked

FASTER: Final = 1.05
"""From here on drafts pay."""
SLOWER: Final = 0.95
NAMED: Final = 0.05
"""A cause is named from this share of a token without drafts on."""
LOUD: Final = 0.15
"""The same where drafts pay: who is not slower is told of large losses alone."""


def why_slower(
    trace: Iterable[WindowRecord],
    *,
    serial_ms: float | None = None,
    without: Iterable[WindowRecord] | None = None,
) -> Diagnosis:
    """Say whether drafts made a text slower, and by what, the largest cause first.

    Plain decoding is what windows of one row show: those of `without`, or those of
    `trace` that were warm. A cause's share is what an emitted token would take less
    if the cause were gone: all of a drafter's time, of waits and commits what is beyond
    plain decoding, of rows what they cost beyond what they bring. Shares need not add
    up to all that was lost. A cause is named from 5 % of a token without drafts on, and
    where drafts pay (5 % or more) from 15 % on. The same trace gives the same answer.

    Args:
        trace: windows, prompts among them or not, with their times.
        serial_ms: of a token without drafts, ms, where you measured it.
        without: the trace of a text decoded without drafts, on the same machine.

    Returns:
        What was found. Where the trace lacks what is needed the verdict is "unknown",
        and `missing` says which field and what to do.

    Raises:
        TypeError: `trace` or `without` holds something that is no `WindowRecord`.
        ValueError: `serial_ms` is not above 0.
    """
    if serial_ms is not None and not 0 < serial_ms < math.inf:
        raise ValueError(
            f"`serial_ms` is {serial_ms}, wanted more than 0; leave it out to take the "
            "windows of one row"
        )
    records = _checked("trace", trace)
    windows = [w for w in map(spent, records) if w is not None]
    beside = _checked("without", without or ())
    others = [w for w in map(spent, beside) if w is not None]
    asked = [w for w in windows if was_asked(w) and w.emitted]
    missing = _untold(records, asked)
    drafted = [w for w in asked if w.rows > 1]
    base = plain(one_row(others or windows), drafted, serial_ms=serial_ms)
    missing += _needed(records, asked, base)
    if base is None or len(asked) < LEAST:
        return Diagnosis(
            verdict="unknown",
            windows=len(asked),
            drafted=len(drafted),
            tokens=sum(w.emitted for w in asked),
            serial_ms=base.ms if base else None,
            missing=tuple(missing),
        )
    return _diagnosis(account(asked, base), missing)


def _diagnosis(found: Account, missing: Sequence[str]) -> Diagnosis:
    drafted, serial_ms = found.drafted, found.plain.ms
    speedup = serial_ms / found.token_ms
    verdict: Verdict = "even"
    if speedup >= FASTER:
        verdict = "faster"
    elif speedup < SLOWER:
        verdict = "slower"
    known: dict[str, float] = {}
    if drafted:
        keep = expected_keep(drafted)
        times = [w.pass_ms + w.draft for w in drafted]
        further = sum(w.pass_ms - serial_ms for w in drafted)
        emitted = sum(w.emitted for w in drafted)
        known = {
            "drafted_tokens_per_s": 1e3 * emitted / sum(times),
            "window_ms": sum(times) / len(times),
            "break_even_ms": serial_ms * keep,
            "row_ms": further / sum(w.rows - 1 for w in drafted),
            "expected_keep": keep,
            "observed_keep": emitted / len(drafted),
        }
    return Diagnosis(
        verdict=verdict,
        speedup=speedup,
        windows=len(found.asked),
        drafted=len(drafted),
        tokens=found.tokens,
        serial_ms=serial_ms,
        token_ms=found.token_ms,
        plain_tokens_per_s=1e3 / serial_ms,
        acceptance=chances(drafted),
        shares=_shares(found),
        causes=_causes(found, pays=verdict == "faster"),
        missing=tuple(missing),
        **known,
    )


def _shares(found: Account) -> tuple[Share, ...]:
    built = sum(map(sum, found.building)) / found.tokens
    return (
        Share("target", found.per_token("target"), found.plain.target),
        Share("waits", found.per_token("wait"), found.plain.wait),
        Share("drafter", found.per_token("draft"), 0.0),
        Share("commit", found.per_token("commit"), found.plain.commit),
        Share("building", built, 0.0),
    )


def _causes(found: Account, *, pays: bool) -> tuple[Cause, ...]:
    least = (LOUD if pays else NAMED) * found.plain.ms
    named = [
        cause
        for finder in causes.FINDERS
        for cause in finder(found)
        if cause.share_ms >= least
    ]
    # Where drafts do not pay, having hardly any is a reason, however small its share.
    named += [c for c in causes.few(found) if c.share_ms >= least or not pays]
    # Sorting keeps the order of equals, so that nothing depends on chance.
    return tuple(sorted(named, key=lambda cause: -cause.share_ms))


def _checked(name: str, records: Iterable[WindowRecord]) -> list[WindowRecord]:
    found = list(records)
    for record in found:
        if not isinstance(record, WindowRecord):
            raise TypeError(
                f"`{name}` must hold WindowRecord, got {type(record).__name__}; pass "
                "`session.trace`, `engine.trace` or `Trace.load(path)`"
            )
    return found


def _needed(
    records: Sequence[WindowRecord], asked: Sequence[Spent], base: Plain | None
) -> list[str]:
    """What a verdict cannot do without."""
    found = predicting(records)
    timed = sum(record.run_ms is not None for record in found)
    if not found:
        return ["`trace` has no window that predicts; decode something and pass it"]
    if not timed:
        return ["`run_ms` is in no window; record the time of `run` in each of them"]
    if len(asked) < LEAST:
        return [
            f"`drafter`: {len(asked)} windows asked for drafts and have `run_ms` and "
            f"tokens, wanted {LEAST}; decode more of the text with a drafter"
        ]
    if base is None:
        return [
            f"`serial_ms`: fewer than {LEAST} warm windows have one row; pass "
            "`serial_ms=`, or `without=` a trace decoded without drafts"
        ]
    return []


def _untold(records: Sequence[WindowRecord], asked: Sequence[Spent]) -> list[str]:
    """Fields without which some causes cannot be seen."""
    found = []
    kept = [w.record for w in asked]
    untimed = sum(r.run_ms is None for r in records if not r.headless)
    if asked and untimed:
        found.append(
            f"`run_ms` is missing in {untimed} windows, which count nowhere; record it "
            "in all of them"
        )
    if any(r.drafter != "none" and r.draft_ms is None for r in kept):
        found.append(
            "`draft_ms` is missing, so a slow drafter cannot be seen; pass `draft_ms=` "
            "to `engine.run`"
        )
    if any(layer.miss for r in kept if r.expert_wait_ms is None for layer in r.layers):
        found.append(
            "`expert_wait_ms` is missing though experts were missed; record how long "
            "layers waited for them"
        )
    if any(r.commit_ms is None for r in kept):
        found.append(
            "`commit_ms` is missing, so dear commits cannot be seen; record it"
        )
    if any(r.warm is None for r in kept):
        found.append(
            "`warm` is missing, so windows that built something cannot be told apart; "
            "record it, or leave out the first window of each T"
        )
    return found
