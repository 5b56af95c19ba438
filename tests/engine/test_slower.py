"""Why drafts make a text slower: what was planted is named first, nothing else is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slow_traces import HEALTHY, PLANTED, Plan, changed, slow_trace
from strata_nb import theory
from strata_nb.slower import why_slower
from strata_nb.trace import Trace
from strata_nb.trace.records import TIMES
from trace_samples import prompt_window

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_is_named_and_nothing_else(name: str, seed: int) -> None:
    found = why_slower(slow_trace(PLANTED[name], seed=seed))
    assert [c.name for c in found.causes] == [name], found
    if name != "few_drafts":
        assert found.verdict == "slower", found


HEALTHY_PLANS = {
    "plain": HEALTHY,
    "long windows that are kept": Plan(rows=8, acceptance=(0.95,) * 7),
    "all windows with drafts": Plan(found=1),
    "a third without": Plan(found=0.66),
    "waits as before": Plan(wait=30),
    "commits as before": Plan(commit=40),
    "a long context, the same without": Plan(
        cell=0.0005, start=0, apart=40, plain=0, found=0.5, row=2
    ),
    "one window that was compiled": Plan(building=200, every=160),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALTHY_PLANS)
def test_nothing_is_named_where_nothing_is_wrong(name: str, seed: int) -> None:
    found = why_slower(slow_trace(HEALTHY_PLANS[name], seed=seed))
    assert found.verdict == "faster", found
    assert found.causes == (), found
    assert found.missing == ()
    assert found.speedup is not None
    assert str(found).startswith(f"you are not slower: {found.speedup:.2f}x\n")


PAIRS = [
    ("drafter", "rejected", Plan(draft=70, acceptance=(0.3,) * 7, row=12)),
    ("rejected", "drafter", Plan(draft=8, acceptance=(0.1,) * 7, row=14)),
    ("cold_experts", "commit", Plan(wait=4, wait_more=130, commit_more=60)),
    ("commit", "cold_experts", Plan(wait=4, wait_more=50, commit_more=130)),
    ("not_warm", "drafter", Plan(building=250, draft=25)),
    ("drafter", "not_warm", Plan(building=60, draft=60)),
    ("forced_keep", "drafter", Plan(kept=1, draft=10)),
    ("drafter", "forced_keep", Plan(kept=2, draft=150)),
    (
        "too_long",
        "drafter",
        Plan(rows=8, acceptance=(0.9, *[0.05] * 6), draft=12, row=9),
    ),
    (
        "drafter",
        "too_long",
        Plan(rows=8, acceptance=(0.9, *[0.05] * 6), draft=90, row=9),
    ),
    (
        "long_context",
        "commit",
        Plan(cell=0.002, start=2000, apart=100, acceptance=(0.6,) * 7, commit_more=30),
    ),
    (
        "commit",
        "long_context",
        Plan(
            cell=0.0008, start=2000, apart=100, acceptance=(0.6,) * 7, commit_more=200
        ),
    ),
    ("spell", "drafter", Plan(windows=300, row=15, turned=(0.02,) * 7, draft=6)),
    ("drafter", "spell", Plan(windows=300, row=15, turned=(0.02,) * 7, draft=60)),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("first", "second", "plan"), PAIRS)
def test_of_two_the_larger_comes_first(
    first: str, second: str, plan: Plan, seed: int
) -> None:
    found = why_slower(slow_trace(plan, seed=seed))
    assert [c.name for c in found.causes] == [first, second], found
    shares = [c.share_ms for c in found.causes]
    assert shares == sorted(shares, reverse=True)


def _without(plan: Plan, name: str) -> Plan:
    plain: dict[str, Any] = {name: getattr(HEALTHY, name)}
    return replace(plan, **plain)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("drafter", "draft"),
        ("cold_experts", "wait_more"),
        ("prefetch", "wait_more"),
        ("commit", "commit_more"),
        ("not_warm", "building"),
        ("forced_keep", "kept"),
    ],
)
def test_a_share_is_what_a_token_takes_less_without(name: str, field: str) -> None:
    plan = PLANTED[name]
    with_it = why_slower(slow_trace(plan, seed=3))
    mended = why_slower(slow_trace(_without(plan, field), seed=3))
    assert with_it.token_ms is not None
    assert mended.token_ms is not None
    less = with_it.token_ms - mended.token_ms
    assert with_it.causes[0].share_ms == pytest.approx(less, rel=0.12)


def test_the_shares_add_up() -> None:
    for plan in PLANTED.values():
        found = why_slower(slow_trace(plan, seed=1))
        assert sum(s.now_ms for s in found.shares) == pytest.approx(found.token_ms)
        assert sum(s.plain_ms for s in found.shares) == pytest.approx(found.serial_ms)


def test_the_numbers_are_the_trace_s() -> None:
    plan = Plan(found=1, windows=400, acceptance=(0.8, 0.5, 0.9))
    trace = slow_trace(plan, seed=2)
    found = why_slower(trace)
    drafted = [r for r in trace if r.T > 1]
    assert (found.windows, found.drafted) == (400, 400)
    assert found.tokens == sum(len(r.emitted) for r in drafted)
    assert found.acceptance == pytest.approx((0.8, 0.5, 0.9), abs=0.1)
    total = sum(r.total_ms or 0.0 for r in drafted)
    assert found.window_ms == pytest.approx(total / 400)
    assert found.token_ms == pytest.approx(total / found.tokens)
    plain = [r.total_ms or 0.0 for r in trace if r.drafter == "none"]
    assert found.serial_ms == pytest.approx(sum(plain) / len(plain))
    assert found.plain_tokens_per_s == pytest.approx(1e3 * len(plain) / sum(plain))
    assert found.drafted_tokens_per_s == pytest.approx(1e3 * found.tokens / total)
    assert found.observed_keep == pytest.approx(found.tokens / 400)
    assert found.expected_keep == pytest.approx(theory.expected_keep(found.acceptance))
    assert found.expected_keep == pytest.approx(found.observed_keep)
    assert found.break_even_ms == pytest.approx(
        theory.break_even_ms(found.serial_ms or 0, found.acceptance)
    )
    assert found.row_ms == pytest.approx(plan.row, abs=1)


def test_a_forced_keep_is_less_than_expected() -> None:
    found = why_slower(slow_trace(Plan(kept=1), seed=0))
    assert found.observed_keep == 1
    assert found.expected_keep == pytest.approx(3.2, abs=0.2)


def test_what_is_told_in_words() -> None:
    text = why_slower(slow_trace(PLANTED["rejected"], seed=0)).text()
    assert text.startswith("you are slower with drafts: 0.6")
    assert "1. rejected: " in text
    assert "needed to break even with 3 drafts 5" in text
    assert "Ask for a longer match before drafting" in text


@pytest.mark.parametrize("name", PLANTED)
def test_each_cause_has_numbers_and_two_sentences(name: str) -> None:
    cause = why_slower(slow_trace(PLANTED[name], seed=0)).causes[0]
    assert cause.share_ms >= 0
    assert len(cause.numbers) >= 2
    assert all(n.value == n.value and n.name for n in cause.numbers)
    for sentence in (cause.what, cause.advice):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert sentence.count(". ") == 0


def test_a_faster_trace_is_told_of_large_losses_alone() -> None:
    plan = Plan(draft=30)
    found = why_slower(slow_trace(plan, seed=0))
    assert found.verdict == "faster"
    assert [c.name for c in found.causes] == ["drafter"]
    assert "what still costs most follows" in found.text()
    small = why_slower(slow_trace(replace(plan, draft=8), seed=0))
    assert small.causes == ()


def test_a_cause_below_its_threshold_is_not_named() -> None:
    # 0.1 accepted and rows at 5 ms: rejections lose about a quarter, the drafter 2 %.
    found = why_slower(slow_trace(Plan(acceptance=(0.1,) * 7, row=7, draft=1), seed=0))
    assert [c.name for c in found.causes] == ["rejected"]
    drafter = {s.name: s.now_ms for s in found.shares}["drafter"]
    assert 0 < drafter < 0.05 * (found.serial_ms or 0)


def test_a_drafter_that_finds_nothing_and_is_slow_is_slow_first() -> None:
    found = why_slower(slow_trace(Plan(found=0.0, draft=12), seed=0))
    assert [c.name for c in found.causes] == ["drafter", "few_drafts"]
    assert found.drafted == 0
    assert found.window_ms is None


def test_a_lazy_fold_is_found_inside_the_run() -> None:
    eager = slow_trace(PLANTED["commit"], seed=0)
    lazy = [
        replace(
            r,
            fold="lazy",
            run_ms=(r.run_ms or 0) + (r.fold_ms or 0),
            commit_ms=(r.commit_ms or 0) - (r.fold_ms or 0),
        )
        if r.fold_ms is not None and (r.commit_ms or 0) >= r.fold_ms
        else r
        for r in eager
    ]
    assert lazy != eager
    found, before = why_slower(lazy), why_slower(eager)
    assert [c.name for c in found.causes] == ["commit"]
    assert found.causes[0].share_ms == pytest.approx(before.causes[0].share_ms)


def test_a_context_that_plain_decoding_has_too_is_blamed_for_the_rest() -> None:
    plan = Plan(cell=0.002, start=0, plain=0, apart=100, acceptance=(0.6,) * 7)
    trace = slow_trace(plan, seed=0)
    found = why_slower(trace)
    assert [c.name for c in found.causes] == ["long_context"]
    alone = [r.position for r in trace if r.T == 1]
    cells = sum(r.T * r.position for r in trace) / found.tokens
    share = plan.cell * (cells - sum(alone) / len(alone))
    assert found.causes[0].share_ms == pytest.approx(share, rel=0.15)


@pytest.mark.parametrize(("before", "after"), [(0.02, 0.35), (0.35, 0.02)])
def test_rejections_throughout_are_no_spell(before: float, after: float) -> None:
    plan = Plan(windows=300, row=16, acceptance=(before,) * 7, turned=(after,) * 7)
    found = why_slower(slow_trace(plan, seed=0))
    assert [c.name for c in found.causes] == ["rejected"]


def test_a_busy_while_is_no_long_context() -> None:
    trace = slow_trace(Plan(start=0, apart=20, acceptance=(0.2,) * 7), seed=4)
    late = len(trace) * 2 // 3
    busy = [
        replace(r, run_ms=1.5 * (r.run_ms or 0)) if at >= late else r
        for at, r in enumerate(trace)
    ]
    assert "long_context" not in [c.name for c in why_slower(busy).causes]


def test_widths_that_few_windows_had_advise_nothing() -> None:
    trace = slow_trace(Plan(acceptance=(0.0,) * 7, rows=8, row=5), seed=0)
    found = why_slower(trace)
    assert [c.name for c in found.causes] == ["rejected"]
    # The last windows of a text have fewer rows, and the clock was kind to them.
    end = slow_trace(
        Plan(windows=3, plain=0, acceptance=(0.0,) * 7, rows=2, found=1, target=9),
        seed=0,
    )
    assert [c.name for c in why_slower([*trace, *end]).causes] == ["rejected"]
    some = slow_trace(Plan(acceptance=(0.3, *[0.0] * 6), rows=8, row=20), seed=0)
    assert [c.name for c in why_slower([*some, *end]).causes] == ["rejected"]
    # Nor do many windows that seem to cost less than one row.
    many = slow_trace(
        Plan(windows=30, plain=0, acceptance=(0.0,) * 7, rows=2, found=1, target=9),
        seed=0,
    )
    assert [c.name for c in why_slower([*trace, *many]).causes] == ["rejected"]


def test_what_the_caller_measured_counts() -> None:
    trace = [r for r in slow_trace(Plan(found=1), seed=0) if r.drafter != "none"]
    found = why_slower(trace)
    assert found.verdict == "unknown"
    assert found.causes == ()
    assert "`serial_ms`: fewer than 4 warm windows have one row" in found.text()
    fast, slow = why_slower(trace, serial_ms=40), why_slower(trace, serial_ms=10)
    assert fast.verdict == "faster"
    assert fast.speedup == pytest.approx(4 * (slow.speedup or 0))
    # A window of 55 ms: against 10 ms a token not even drafts always right would pay.
    assert [c.name for c in slow.causes] == ["dear_rows"]


def test_waits_that_roots_have_too_are_not_blamed() -> None:
    trace = slow_trace(Plan(found=1, wait=40, wait_more=20), seed=0)
    drafted = [r for r in trace if r.drafter != "none"]
    assert why_slower(drafted, serial_ms=80).causes == ()


def test_a_trace_without_drafts_may_stand_beside() -> None:
    trace = slow_trace(PLANTED["drafter"], seed=0)
    drafted = [r for r in trace if r.drafter != "none" and r.T > 1]
    beside = [r for r in trace if r.drafter == "none"]
    found = why_slower(drafted, without=Trace(beside))
    assert found.causes[0].name == "drafter"
    plain = [r.total_ms or 0.0 for r in beside]
    assert found.serial_ms == pytest.approx(sum(plain) / len(plain))


@pytest.mark.parametrize("name", PLANTED)
def test_the_same_trace_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    trace = Trace(slow_trace(PLANTED[name], seed=0))
    found = why_slower(trace)
    trace.save(tmp_path / "slow.parquet")
    again = why_slower(Trace.load(tmp_path / "slow.parquet"))
    assert again == found
    assert again.text() == found.text()
    assert why_slower([prompt_window(9), *trace]) == found


@given(st.sampled_from(sorted(PLANTED)), st.floats(0.01, 1000), st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_a_slower_clock_changes_no_cause(name: str, times: float, seed: int) -> None:
    trace = slow_trace(PLANTED[name], seed=seed)
    found = why_slower(trace)
    slowed = why_slower(
        changed(r, **{t: times * v for t in TIMES if (v := getattr(r, t)) is not None})
        for r in trace
    )
    assert [c.name for c in slowed.causes] == [c.name for c in found.causes]
    assert slowed.speedup == pytest.approx(found.speedup)
    for one, other in zip(slowed.causes, found.causes, strict=True):
        assert one.share_ms == pytest.approx(times * other.share_ms)
