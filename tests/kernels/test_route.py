"""The router's kernels on the host: reference, policies, each other, and mistakes."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import assert_close
from route_samples import logits_sample, slots_sample
from strata_kernels._prelude import KernelError
from strata_kernels._prelude.host import compiler
from strata_kernels.route import strongest
from strata_kernels.route.launch import (
    CHOOSE,
    FUSED,
    PLAN,
    Routed,
    Rules,
    choose_kernel,
    route_fused,
    route_unfused,
)
from strata_kernels.route.planned import route_reference
from strata_nb.policies.hard_budget import HardBudget
from strata_nb.policies.moce import Moce
from strata_nb.policies.routing import NATURAL, Routing, Seen

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler: the kernels' text cannot be built"
)

ROWS, EXPERTS, TOP_K, SLOTS = 4, 40, 5, 34
RULES: dict[str, tuple[Rules, Routing]] = {
    "natural": (Rules(), NATURAL),
    "bonus": (
        Rules("bonus", 3, 0.85, 0.0, 3, 0.85, 0.0),
        Moce(),
    ),
    "drafts of their own": (
        Rules("bonus", 3, 0.25, 0.5, 0, 2.0, 0.0),
        Moce(3, 0.25, draft_protect=0, draft_bonus=2.0, rank_1_bonus=0.5),
    ),
    "second": (
        Rules("bonus", 1, 0.5, 2.0, 1, 0.5, 2.0),
        Moce(1, 0.5, rank_1_bonus=2.0),
    ),
    "budget": (Rules("budget"), HardBudget()),
    "two anchors": (Rules("budget", anchors=2), HardBudget(anchors=2)),
}
SETTINGS: Any = {"top_k": TOP_K, "renormalise": True}
HOST: Any = {**SETTINGS, "target": "host"}
WINDOWS = [
    pytest.param(0, False, id="first"),
    pytest.param(1, False, id="second"),
    pytest.param(2, True, id="ties"),
    pytest.param(3, False, id="hardly any is ready"),
]


def window_of(seed: int, ties: bool) -> Any:
    logits = logits_sample(ROWS, EXPERTS, seed=seed, ties=ties)
    share = 0.1 if seed == 3 else 0.8
    return logits, slots_sample(EXPERTS, SLOTS, seed=seed, share=share)


def assert_routed(got: Routed, want: Routed) -> None:
    for name, one, other in zip(Routed._fields, got, want, strict=True):
        if name == "weights":
            assert_close(name, one, other, rel=1e-6)
        else:
            assert np.array(one).tolist() == np.array(other).tolist(), name


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("seed", "ties"), WINDOWS)
def test_one_launch_is_three_and_both_are_the_reference(
    rules: str, seed: int, ties: bool
) -> None:
    logits, there = window_of(seed, ties)
    rule, policy = RULES[rules]
    fused = route_fused(logits, rule, there, **HOST)
    unfused = route_unfused(logits, rule, there, **HOST)
    for name, one, other in zip(Routed._fields, fused, unfused, strict=True):
        assert mx.array_equal(one, other), name
    assert_routed(fused, route_reference(logits, rule, there, **SETTINGS))
    assert_policy(fused, logits, np.array(there.ready) != 0, policy)


def assert_policy(got: Routed, logits: mx.array, ready: Any, policy: Routing) -> None:
    seen = Seen(layer=0, resident=ready)
    chosen = policy.choose(logits, top_k=TOP_K, seen=seen)
    assert np.array(got.ids).tolist() == np.array(chosen.ids).tolist()


@pytest.mark.parametrize("rules", ["drafts of their own", "budget"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_logit_that_is_none_reaches_the_weights_of_its_row(
    rules: str, bad: float
) -> None:
    logits, there = window_of(0, False)
    logits[2, 7] = bad
    rule, policy = RULES[rules]
    got = route_fused(logits, rule, there, **HOST)
    assert_policy(got, logits, np.array(there.ready) != 0, policy)
    rows = np.isnan(np.array(got.weights)).all(axis=1)
    assert rows.tolist() == [False, False, True, False]


def test_sums_that_round_to_equals_keep_their_order() -> None:
    logits, there = window_of(0, False)
    low, high = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    assert low + np.float32(0.5) == high + np.float32(0.5)
    logits = mx.full((ROWS, EXPERTS), -1.0)
    logits[:, 3], logits[:, 20] = low.item(), high.item()
    there = there._replace(ready=mx.ones((EXPERTS,), dtype=mx.int32))
    rule = Rules("bonus", bonus=0.5, draft_bonus=0.5)
    one: Any = {**HOST, "top_k": 1}
    assert set(np.array(route_fused(logits, rule, there, **one).ids).flat) == {20}
    lost = FUSED.changed("key_of(lost)", "key_of(0.0f)")
    wrong = route_fused(logits, rule, there, kernel=lost, **one)
    assert set(np.array(wrong.ids).flat) == {3}


def test_no_slot_is_left_when_the_window_holds_them_all() -> None:
    logits = logits_sample(ROWS, EXPERTS, seed=1)
    few = slots_sample(EXPERTS, TOP_K, seed=1)
    got = route_fused(logits, Rules(), few, **HOST)
    assert_routed(got, route_reference(logits, Rules(), few, **SETTINGS))
    size = int(np.array(got.counts)[0])
    assert (np.array(got.slot_of)[:size] == -1).any()


def differing(kernel: Any, *, only: str | None = None) -> set[str]:
    """Outputs of the text that are not the reference's, over rules and windows."""
    found = set()
    for rules in RULES if only is None else (only,):
        for seed, ties in ((0, False), (2, True), (3, False)):
            logits, there = window_of(seed, ties)
            rule = RULES[rules][0]
            got = route_fused(logits, rule, there, kernel=kernel, **HOST)
            want = route_reference(logits, rule, there, **SETTINGS)
            found |= {
                name
                for name, one, other in zip(Routed._fields, got, want, strict=True)
                if name != "weights" and not mx.array_equal(one, other)
            }
    return found


@pytest.mark.parametrize(
    ("old", "new", "shows"),
    [
        pytest.param("level && other < best", "level && other > best", "ids", id="tie"),
        pytest.param(
            "settings[row == 0 ? 2 : 5]",
            "settings[2]",
            "ids",
            id="root's bonus for all",
        ),
        pytest.param(
            "settings[row == 0 ? 1 : 4]", "settings[4]", "ids", id="root as a draft"
        ),
        pytest.param("r < anchors", "r <= anchors", "ids", id="an anchor too many"),
        pytest.param("size < least", "size <= least", "ids", id="a spare too many"),
        pytest.param(
            "at < SLOTS && !kept", "at < SLOTS", "slot_of", id="a member's slot taken"
        ),
    ],
)
def test_a_mistake_in_the_fused_text_shows(old: str, new: str, shows: str) -> None:
    assert shows in differing(FUSED.changed(old, new))


@pytest.mark.parametrize(
    "barrier",
    [
        "BARRIER();  // the root is complete",
        "BARRIER();  // all rows are complete",
        "BARRIER();  // the union is complete",
        "BARRIER();  // positions are written",
    ],
)
def test_each_barrier_is_needed(barrier: str) -> None:
    # The first: drafts that read the root's experts before these are complete. (One
    # more lies between lanes of one simdgroup that shuffle in between: the host takes
    # a shuffle for a meeting of the lanes, and cannot tell.)
    with pytest.raises(KernelError, match="depends on the order of threads"):
        differing(FUSED.changed(barrier, ""), only="budget")


def test_a_shuffle_that_some_lanes_skip_is_found() -> None:
    old = "is_mine(expert, lane) && size < least"
    skips = FUSED.changed(old, "is_mine(expert, lane) && lanes_add(size) < least")
    with pytest.raises(KernelError, match="lanes part"):
        differing(skips, only="budget")


def test_one_router_changed_and_not_the_other_shows() -> None:
    logits, there = window_of(0, False)
    rule = RULES["drafts of their own"][0]
    changed = CHOOSE.changed("settings[row == 0 ? 2 : 5]", "settings[2]")
    fused = route_fused(logits, rule, there, **HOST)
    other = route_unfused(logits, rule, there, choose=changed, **HOST)
    assert not mx.array_equal(fused.ids, other.ids)
    assert mx.array_equal(fused.ids[0], other.ids[0])


def test_a_wrong_plan_shows_though_the_choice_is_right() -> None:
    logits, there = window_of(0, False)
    changed = PLAN.changed("at < SLOTS && !kept", "at < SLOTS")
    fused = route_fused(logits, Rules(), there, **HOST)
    other = route_unfused(logits, Rules(), there, plan=changed, **HOST)
    assert mx.array_equal(fused.ids, other.ids)
    assert not mx.array_equal(fused.slot_of, other.slot_of)


@pytest.mark.parametrize("renormalise", [True, False])
def test_rows_of_a_prompt_are_chosen_naturally(renormalise: bool) -> None:
    logits = logits_sample(11, EXPERTS, seed=5, ties=True)
    settings: Any = {**HOST, "renormalise": renormalise}
    ids, weights = choose_kernel(logits, **settings)
    assert mx.array_equal(ids, strongest(logits, top_k=TOP_K))
    want = mx.take_along_axis(mx.softmax(logits, axis=-1), ids, axis=-1)
    if renormalise:
        want = want / want.sum(axis=-1, keepdims=True)
    assert_close("weights", weights, want, rel=1e-6)


def test_rules_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="'hard', wanted one of natural, bonus, bud"):
        Rules("hard")  # type: ignore[arg-type]
