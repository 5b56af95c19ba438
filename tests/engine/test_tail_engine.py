"""The tail's cases on the real engine, against the labels and against wrong ones."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from strata_nb import Model
from strata_nb.gates.records import Case
from strata_nb.gates.stage.places import threshold
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.tail import engine as tail_engine
from strata_nb.gates.tail.engine import compare, differing
from strata_nb.gates.tail.model import Mend, TailCase, cases, count, wrong_blocks
from strata_nb.packs import ModelConfig

CYCLE = cases(first=8, starts=4)
FEWER = tuple(case for case in CYCLE if case.T in (4, 8))


@pytest.mark.parametrize(
    ("mend", "of", "failures"),
    [
        ("ring", CYCLE, 46),
        ("snapshot and replay", FEWER, 0),
        ("last row's tail", FEWER, 18),
        ("old tail", FEWER, 36),
        ("contained", cases(first=8, starts=4, mend="contained"), 0),
    ],
)
def test_the_engine_fails_where_the_labels_say(
    small: Model, mend: Mend, of: tuple[TailCase, ...], failures: int
) -> None:
    found = compare(small, mend, of=of)
    assert (found.cases, found.engine, found.model) == (len(of), failures, failures)
    assert found.disagreements == ()
    assert count(mend, of=of).failures == failures


def sample(starts: int, each: int, *, rows: int) -> list[TailCase]:
    """At some of the 64 starts, cases of which half fail in the ring, if so many do."""
    chosen: list[TailCase] = []
    rng = random.Random(7)
    for start in sorted(rng.sample(range(8, 72), starts)):
        every = cases(first=start, starts=1, rows=rows)
        bad = [c for c in every if wrong_blocks(c, "ring")]
        good = [c for c in every if c not in bad]
        chosen += rng.sample(bad, min(len(bad), each // 2))
        chosen += rng.sample(good, each // 2)
    return chosen


def test_below_and_past_the_sparse_threshold(tiny: Model) -> None:
    of = sample(5, 6, rows=8)
    assert of[0].start < threshold(tiny.config) < of[-1].start
    found = compare(tiny, "ring", of=of)
    assert (found.engine, found.model, found.disagreements) == (15, 15, ())


def test_on_the_bundled_model(trained: Model) -> None:
    found = compare(trained, "ring", of=cases(first=10, starts=1, rows=4))
    # Cells 10 to 12 and 10 to 13, of which cell 10 is kept.
    assert (found.engine, found.model, found.disagreements) == (2, 2, ())


def test_blocks_of_three_cells(odd: Model) -> None:
    found = compare(odd, "ring", of=cases(first=7, starts=1, rows=4, ratio=3))
    assert found.engine == found.model > 0
    assert found.disagreements == ()


def one_slot_off(case: TailCase, mend: Mend) -> tuple[int, ...]:
    return wrong_blocks(replace(case, start=case.start + 1), mend)


def none_in_short_windows(case: TailCase, mend: Mend) -> tuple[int, ...]:
    return wrong_blocks(case, mend) if case.T > 4 else ()


def next_block(case: TailCase, mend: Mend) -> tuple[int, ...]:
    return tuple(block + 1 for block in wrong_blocks(case, mend))


@pytest.mark.parametrize("wrong", [one_slot_off, none_in_short_windows, next_block])
def test_a_wrong_model_of_the_tail_is_told(
    small: Model, wrong: Callable[[TailCase, Mend], tuple[int, ...]]
) -> None:
    of = tuple(case for case in FEWER if case.T == 4)
    found = compare(small, "ring", of=of, predict=wrong)
    expected = [c for c in of if wrong(c, "ring") != wrong_blocks(c, "ring")]
    assert list(found.disagreements) == expected
    assert expected


def gate(model: Model, profile: str = "quick") -> list[Case]:
    config: ModelConfig = model.config
    return tail_engine.cases(config, profile, 4096)  # type: ignore[arg-type]


def some(model: Model, family: str) -> list[Case]:
    return [c for c in gate(model) if c.family == family and c["T"] == 4]


def test_the_gate_passes(small: Model) -> None:
    asked = [c for c in gate(small) if c["T"] == 4 and c.group == "tail/9"]
    assert {c.family for c in asked} == {"ring", "replayed"}
    found = list(tail_engine.run(asked, Rig(small)))
    assert [r.case for r in found] == asked
    assert [r.findings for r in found] == [()] * len(asked)
    assert all({"qsa_tail", "qsa_blocks", "kv"} <= set(r.changed) for r in found)
    # A case alone comes to the same.
    assert list(tail_engine.run(asked[-1:], Rig(small))) == found[-1:]


def test_a_fault_planted_in_the_rig_shows_where_the_labels_fail(small: Model) -> None:
    asked = some(small, "replayed")
    rig = Rig(small, fault="qsa_ring")
    found = {r.case: r.findings for r in tail_engine.run(asked, rig)}
    for case, findings in found.items():
        start, T, keep = (int(case[name]) for name in ("start", "T", "keep"))
        expected = wrong_blocks(TailCase(start, T, keep), "ring")
        assert bool(findings) == bool(expected), case.id
        for finding in findings:
            assert (finding.kind, finding.by, finding.what, finding.layer) == (
                *("fault", "rule", "qsa_blocks"),
                small.config.layer_types.index("indexed_attention"),
            )
            assert finding.cell == expected[0] * 4
            assert finding.note == f"wrong blocks: wanted [], got {list(expected)}"
    assert any(found.values())


def test_a_failure_that_the_engine_lacks_is_a_finding(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_engine, "wrong_blocks", lambda case, mend: (2,))
    (result,) = tail_engine.run(some(small, "replayed")[:1], Rig(small))
    assert result.verdict == "fault"
    assert result.cause is not None
    assert result.cause.note == "wrong blocks: wanted [2], got []"
    assert result.cause.cell == 8


def test_cases_of_the_profiles(trained: Model, small: Model) -> None:
    sizes = {p: len(gate(trained, p)) for p in ("quick", "full", "exhaustive")}
    per_cycle = 4 * 144 + 20
    assert sizes == {
        "quick": 144 + 20 + 48,
        "full": 2 * per_cycle,
        "exhaustive": 17 * per_cycle,
    }
    every = gate(trained, "exhaustive")
    assert len({c.id for c in every}) == len(every)
    assert every[0].id == "tail/ring/start=8/T=1/keep=1"
    ring = [c for c in every if c.family == "ring" and int(c["start"]) < 72]
    assert len(ring) == 2304
    # A planted fault of the rig shows in one family only.
    assert {c.family for c in every if c.touches} == {"replayed"}
    short = tail_engine.cases(small.config, "quick", 20)
    assert short
    assert max(int(c["start"]) + int(c["keep"]) for c in short) == 15
    plain = replace(small.config, layer_types=("linear_attention",) * 2)
    assert tail_engine.cases(plain, "quick", 4096) == []


def test_refusals(small: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"have 3 cells a block, the model 4; make"):
        compare(small, "ring", of=[TailCase(8, 1, 1, ratio=3)])
    plain = replace(small.config, layer_types=("linear_attention",) * 2)
    monkeypatch.setattr(small.checkpoint, "config", plain)
    with pytest.raises(ValueError, match="has no indexed layer, so no tail; take"):
        compare(small, "ring")


def test_blocks_that_differ() -> None:
    keys = np.arange(8.0).reshape(4, 2)
    assert differing(keys, keys, 0.0) == ()
    off = keys.copy()
    off[1, 0] += 1e-6
    off[3, 1] = np.nan
    assert differing(off, keys, 0.0) == (1, 3)
    assert differing(off, keys, 1e-3) == (3,)
    assert differing(keys[:3], keys, 0.0) == differing(keys, keys[:3], 0.0) == (3,)
    assert differing(keys[:0], keys[:1], 0.0) == (0,)
