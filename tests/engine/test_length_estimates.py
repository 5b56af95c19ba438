"""What length policies estimate: the chances of drafts, and what windows cost."""

import math

import pytest

from strata_nb.policies import Acceptance, Costs, CostTable, Offer, Paid


def test_chances_shrink_to_what_is_more_general() -> None:
    model = Acceptance(prior=0.5, weight=2, decay=1)
    offer = Offer(0, (1, 2), 6)
    assert model.chances(offer) == (0.5, 0.5)
    # One draft of such a match was right, then one was wrong: all 1 of 2.
    model.offer(offer)
    model.learn(Paid(3, 2, 6, 0, 1.0, decided=2, emitted=(1, 9)))
    # All: (1 + 1) / 4; the bucket the same; place 0: (1 + 1) / 3, place 1: 1 / 3.
    assert model.chances(offer) == pytest.approx((2 / 3, 1 / 3))
    # Of another length only the whole is known.
    assert model.chances(Offer(0, (1,), 30)) == pytest.approx((0.5,))
    assert model.ceiling(2) == pytest.approx((2 / 3, 0.5))
    # So it is where what was emitted is not told.
    blind = Acceptance(prior=0.5, weight=2, decay=1)
    blind.learn(Paid(3, 2, 6, 0, 1.0, decided=2))
    assert blind.chances(offer) == model.chances(offer)


def test_a_draft_is_judged_by_the_text_that_came_later() -> None:
    model = Acceptance(prior=0.5, weight=2, decay=1)
    model.offer(Offer(10, (1, 2, 3, 4), 6))
    for at, token in ((10, 1), (11, 2), (12, 9)):
        model.learn(Paid(1, 1, 6, at, 1.0, emitted=(token,)))
    first, second, third, fourth = model.chances(Offer(0, (1, 2, 3, 4), 6))
    assert first == second > fourth > third
    # Of a text that begins elsewhere nothing is known.
    model.offer(Offer(20, (5,), 60))
    model.learn(Paid(1, 1, None, 40, 1.0, emitted=(5,)))
    model.offer(Offer(50, (5,), 60))
    model.offer(Offer(70, (5,), 6))
    model.learn(Paid(1, 1, None, 70, 1.0, emitted=(5,)))
    assert (model.idle(60), model.idle(6)) == (math.inf, 0)


def test_what_was_seen_little_is_doubted_more() -> None:
    model, offer = Acceptance(prior=0.6, decay=1), Offer(0, (1,), 6)
    (before,), (mean,) = model.doubts(offer), model.chances(offer)
    # A Beta of 0.6 and weight 2 deviates by the root of 0.24 / 3.
    assert mean - before == pytest.approx(math.sqrt(0.24 / 3))
    for at in range(60):
        model.learn(Paid(2, 2 - at % 2, 6, at, 1.0, decided=1))
    (after,), (mean,) = model.doubts(offer), model.chances(offer)
    assert mean - after == pytest.approx(math.sqrt(mean * (1 - mean) / 63))


def test_what_a_drafter_says_is_held_against_what_became_of_it() -> None:
    model, plain = Acceptance(weight=2, decay=1), Acceptance(calibrate=False)
    offer = Offer(0, (1,), None, (0.92,))
    assert model.chances(offer) == plain.chances(offer) == pytest.approx((0.92,))
    for _ in range(6):
        for each in (model, plain):
            each.offer(offer)
            each.learn(Paid(2, 1, None, 0, 1.0, decided=1, emitted=(7,)))
    assert model.chances(offer) == pytest.approx((2 * 0.92 / 8,))
    assert plain.chances(offer) == (0.92,)
    with pytest.raises(ValueError, match="a drafter says the chance nan of a draft"):
        model.chances(Offer(0, (1,), None, (math.nan,)))


def test_old_drafts_count_less() -> None:
    model = Acceptance(decay=0.5, weight=0.01)
    for keep in (1, 1, 1, 2, 2, 2, 2):
        model.learn(Paid(2, keep, 4, 0, 1.0, decided=1))
    assert model.chances(Offer(0, (1,), 4))[0] > 0.9
    assert model.idle(4) == 0
    assert model.idle(64) == math.inf


def paid(rows: int, ms: float, *, at: int = 9, cold: int = 0, wait: float = 0) -> Paid:
    return Paid(rows, 1, None, at, ms, cold=cold, wait_ms=wait)


def test_lengths_not_seen_lie_on_the_line() -> None:
    costs = Costs(price=0.2, sure=1)
    assert costs.curve(3, position=9) == pytest.approx([1, 1.2, 1.4])
    costs.learn(paid(1, 10.0))
    assert costs.curve(3, position=9) == pytest.approx([10, 12, 14])
    for _ in range(30):
        costs.learn(paid(1, 10.0))
        costs.learn(paid(3, 13.0))
    one, two, three = costs.curve(3, position=9)
    assert one == pytest.approx(10, rel=0.02)
    assert two == pytest.approx(11.5, rel=0.02)
    assert three == pytest.approx(13, rel=0.02)


def test_a_length_that_is_dearer_than_the_next_is_found() -> None:
    costs = Costs()
    for _ in range(16):
        for rows, ms in ((1, 10.0), (2, 19.0), (3, 12.0)):
            costs.learn(paid(rows, ms))
    one, two, three = costs.curve(3, position=9)
    assert one < three < two


def test_cold_experts_cost_what_was_waited_for_them() -> None:
    costs = Costs(price=0, power=0.8)
    for _ in range(8):
        costs.learn(paid(1, 10.0 + 6.0, cold=12, wait=6.0))
    # Nearly as many for each row, at half a millisecond.
    assert costs.cold(4) == pytest.approx(12 * 4**0.8)
    assert costs.curve(4, position=9)[3] == pytest.approx(10 + 6 * 4**0.8)
    for _ in range(60):
        costs.learn(paid(4, 10.0 + 9.0, cold=18, wait=9.0))
    # The level is that of the newest windows, for lengths that were not seen too.
    assert costs.curve(4, position=9)[3] == pytest.approx(19, rel=0.1)
    assert costs.cold(8) == pytest.approx(18 * 2**0.8, rel=0.07)


def test_a_late_expert_costs_the_wait_that_remains() -> None:
    """A read takes 2 ms; of one that is on its way half a millisecond remains."""
    costs = Costs(price=0)
    for _ in range(40):
        costs.learn(paid(1, 10.0 + 16.0, cold=8, wait=16.0))
        late = Paid(4, 1, None, 9, 10.0 + 20.0, cold=28, late=24, wait_ms=20.0)
        costs.learn(late)
    one, *_, four = costs.curve(4, position=9)
    # By what an expert costs in the mean, 1 ms, one row would look like 18 ms.
    assert one == pytest.approx(26, rel=0.08)
    assert four == pytest.approx(30, rel=0.08)
    # Where nothing is read ahead any more, a read costs all of it.
    for _ in range(99):
        costs.learn(paid(4, 10.0 + 56.0, cold=28, wait=56.0))
    assert costs.curve(4, position=9)[3] == pytest.approx(66, rel=0.08)


def test_late_experts_alone_say_what_one_costs() -> None:
    costs = Costs(price=0)
    for _ in range(9):
        costs.learn(Paid(1, 1, None, 9, 13.0, cold=6, late=6, wait_ms=3.0))
    assert costs.curve(1, position=9)[0] == pytest.approx(13, rel=0.05)


def test_the_level_of_cold_experts_moves_with_the_text() -> None:
    """A length that was tried in another text is held against that text."""
    costs = Costs(price=0, power=0.8)
    for _ in range(8):
        costs.learn(paid(1, 10.0 + 20.0, cold=40, wait=20.0))
    costs.learn(paid(2, 10.0 + 40.0, cold=80, wait=40.0))
    for _ in range(99):
        costs.learn(paid(1, 10.0 + 5.0, cold=10, wait=5.0))
    # Twice as many as for one row, and not eight times.
    assert 10 * 2**0.8 <= costs.cold(2) < 10 * 2.0
    for _ in range(99):
        costs.learn(paid(2, 10.0 + 10.0, cold=20, wait=10.0))
        costs.learn(paid(1, 10.0 + 5.0, cold=10, wait=5.0))
    assert costs.cold(2) / costs.cold(1) == pytest.approx(2.0, rel=0.1)


def test_what_is_built_for_a_length_is_shared_by_its_windows() -> None:
    costs = Costs(price=0, horizon=10)
    costs.learn(paid(1, 10.0))
    costs.learn(Paid(2, 1, None, 9, 60.0, warm=False))
    assert costs.curve(2, position=9) == pytest.approx([10, 10 + 5])
    costs.learn(paid(2, 10.0))
    assert costs.curve(2, position=9) == pytest.approx([10, 10])


def test_a_longer_context_costs_more_for_all_lengths() -> None:
    costs = Costs(price=0.5)
    for _ in range(16):
        costs.learn(paid(1, 10.0, at=100))
    for at in range(200, 216):
        costs.learn(paid(1, 20.0, at=at))
    near, far = (costs.curve(4, position=at)[3] for at in (100, 210))
    assert far > 1.5 * near


def test_a_table_goes_on_as_its_end() -> None:
    table = CostTable((10.0, 12.0), load_ms=0.5, colds=(4.0, 6.0))
    assert table.curve(4, position=0) == pytest.approx([12, 15, 18, 21])
    assert table.curve(1, position=0) == pytest.approx([12])
    assert CostTable((3.0,)).curve(2, position=0) == [3, 3]
