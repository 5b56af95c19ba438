"""The benchmark of drafts on prompts measures what it says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from strata_nb import Model, Session
from strata_nb.bench.prompts import ARMS, measure
from strata_nb.cli import main
from strata_nb.draft import MtpDrafter
from strata_nb.session import Reply


def test_every_arm_is_measured_beside_its_own_without_drafts(trained: Model) -> None:
    rows = list(measure(trained, "code", count=2, max_new=12))
    assert [row.arm for row in rows] == [arm.name for arm in ARMS]
    for row, arm in zip(rows, ARMS, strict=True):
        is_plain = arm.preset is None and arm.drafter is None
        assert (row.tokens_per_window, row.speed) == (1.0, 1.0) if is_plain else True
        assert (row.acceptance is None) == is_plain
        assert row.kind == "code"
        assert (row.draft_ms is None) == is_plain
        assert row.even == 1.0 if is_plain else row.even > 0
    greedy = [row.tokens for row in rows if row.arm.startswith("greedy")]
    assert set(greedy) == {24}
    named = {row.arm: row for row in rows}
    # Under equality the text is the one without drafts.
    for name in ("recommended, equality", "equality, head", "equality, hybrid"):
        assert named[name].tokens == named["recommended, no drafts"].tokens


def test_a_head_under_the_ratio_rule_draws_its_drafts() -> None:
    for arm in ARMS:
        if arm.name.startswith("ratio"):
            assert arm.sampling.rule == "ratio"
            assert arm.drafter is not None
            drafter = arm.drafter()
            (*_, head) = getattr(drafter, "drafters", (drafter,))
            assert isinstance(head, MtpDrafter)
            assert head._sampling == arm.sampling


def test_the_head_is_on_where_it_drafts_or_is_fed(
    trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what its pairs cost shows: the same drafts with and without them."""
    seen = []
    one = Session(trained).reply([5, 6], max_new=1)

    def reply(session: Session, ids: Sequence[int], **how: object) -> Reply:
        seen.append(session.engine().options.get("mtp", "off") != "off")
        return one

    monkeypatch.setattr(Session, "reply", reply)
    list(measure(trained, "edit", count=1, max_new=4))
    heads = ("head" in arm.name or "hybrid" in arm.name for arm in ARMS)
    assert seen == [*heads]
    assert [arm.name for arm in ARMS if arm.fed] == ["greedy, lookup, head fed"]


def test_the_break_even_is_the_time_of_a_window(
    trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of the arms with drafts last three times as long as those without."""

    def reply(session: Session, ids: Sequence[int], **how: object) -> Reply:
        made = whole(session, ids, **how)  # type: ignore[arg-type]
        drafts = made.offered > 0
        return replace(made, decode_ms=made.windows * (6.0 if drafts else 2.0))

    whole = Session.reply
    monkeypatch.setattr(Session, "reply", reply)
    for row in measure(trained, "edit", count=1, max_new=24):
        assert row.even == (1.0 if row.draft_ms is None else 3.0)
        assert row.speed == pytest.approx(row.tokens_per_window / row.even)


def test_the_quickest_of_rounds_counts(
    trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round in which others used the machine is as if it had not been."""
    turn, whole = 0, Session.reply

    def reply(session: Session, ids: Sequence[int], **how: object) -> Reply:
        nonlocal turn
        turn += 1
        made = whole(session, ids, **how)  # type: ignore[arg-type]
        slow = 9.0 if turn % 3 else 1.0
        return replace(made, decode_ms=made.windows * slow)

    monkeypatch.setattr(Session, "reply", reply)
    arms = [arm for arm in ARMS if arm.name in ("greedy, no drafts", "greedy, lookup")]
    rows = measure(trained, "code", count=2, max_new=12, rounds=3, arms=arms)
    assert [row.even for row in rows] == [1.0, 1.0]
    assert turn == 12


def test_some_arms_and_those_without_drafts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["bench", "prompts", "--prompts", "1", "--max-new", "4", "--only"]
    assert main([*asked, "seed_stage1"]) == 0
    told = capsys.readouterr().out
    lines = [line for line in told.splitlines() if line.startswith("edit")]
    names = ("greedy, no drafts", "greedy, seed_stage1", "recommended, no drafts")
    assert len(lines) == 3
    assert all(name in line for name, line in zip(names, lines, strict=True))
    assert main([*asked, "drafty"]) == 2
    assert "--only is 'drafty', wanted a word" in capsys.readouterr().err


def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "prompts", "--prompts", "1", "--max-new", "6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3 * len(ARMS)
    heads = ("arm", "tokens", "a window", "accepted", "speed", "draft ms", "even at")
    assert " ".join(lines[0].split()) == " ".join(heads)
