"""What a trace does not say, and what is no trace: told, and nothing claimed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slow_traces import HEALTHY, PLANTED, Plan, changed, slow_trace
from strata_nb.slower import Cause, Diagnosis, why_slower
from strata_nb.trace import WindowRecord
from trace_samples import prompt_window


def _lacking(name: str) -> list[WindowRecord]:
    return [changed(r, **{name: None}) for r in slow_trace(PLANTED["prefetch"], seed=0)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("draft_ms", "so a slow drafter cannot be seen; pass `draft_ms=`"),
        ("expert_wait_ms", "though experts were missed; record how long"),
        ("commit_ms", "so dear commits cannot be seen; record it"),
        ("warm", "leave out the first window of each T"),
    ],
)
def test_a_field_that_is_missing_is_named(name: str, words: str) -> None:
    found = why_slower(_lacking(name))
    assert found.verdict != "unknown"
    (line,) = found.missing
    assert line.startswith(f"`{name}` is missing")
    assert words in line
    assert f"not known: {line}" in found.text()


def test_without_times_nothing_is_claimed() -> None:
    found = why_slower(_lacking("run_ms"))
    assert (found.verdict, found.causes, found.speedup) == ("unknown", (), None)
    assert found.missing == (
        "`run_ms` is in no window; record the time of `run` in each of them",
    )
    assert found.text().startswith("it cannot be said whether drafts make this slower")


def test_windows_without_a_time_count_nowhere() -> None:
    trace = slow_trace(HEALTHY, seed=0)
    some = [replace(r, run_ms=None) if n % 5 == 4 else r for n, r in enumerate(trace)]
    found = why_slower(some)
    timed = [r for r in some if r.run_ms is not None]
    (line,) = found.missing
    assert line.startswith("`run_ms` is missing in 42 windows")
    assert replace(found, missing=()) == why_slower(timed)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ([], "`trace` has no window that predicts"),
        ([prompt_window(5)], "`trace` has no window that predicts"),
        (slow_trace(Plan(windows=0), seed=0), "`drafter`: 0 windows asked for drafts"),
        (slow_trace(Plan(windows=3), seed=0), "`drafter`: 3 windows asked for drafts"),
    ],
)
def test_too_little_is_said_to_be(trace: list[WindowRecord], words: str) -> None:
    found = why_slower(trace)
    assert found.verdict == "unknown"
    assert found.missing[0].startswith(words)


def test_drafts_typed_by_hand_have_no_drafter() -> None:
    typed = [
        replace(r, drafter="none", draft_ms=None) if r.T > 1 else r
        for r in slow_trace(PLANTED["rejected"], seed=0)
    ]
    found = why_slower(typed)
    assert found.causes[0].name == "rejected"
    assert found.missing == ()


WRONG: list[tuple[Callable[[], Diagnosis], type[Exception], str]] = [
    (lambda: why_slower([], serial_ms=0), ValueError, "`serial_ms` is 0, wanted more"),
    (lambda: why_slower([], serial_ms=float("nan")), ValueError, "`serial_ms` is nan"),
    (
        lambda: why_slower(_any([1])),
        TypeError,
        "`trace` must hold WindowRecord, got int",
    ),
    (
        lambda: why_slower([], without=_any(["a"])),
        TypeError,
        "`without` must hold WindowRecord, got str; pass `session.trace`",
    ),
]


def _any(records: Sequence[Any]) -> Sequence[Any]:
    return records


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_misuse_is_told(
    call: Callable[[], Diagnosis], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_diagnosis_is_plain_data() -> None:
    found = why_slower(slow_trace(PLANTED["commit"], seed=0))
    assert isinstance(found.causes[0], Cause)
    assert "0x" not in repr(found)
    with pytest.raises(AttributeError):
        found.causes = ()  # type: ignore[misc]
