"""gate_5 shows what an approximation costs, and catches one that hides it."""

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import advance
from strata_kernels.route import strongest
from strata_nb import Model, load, prompts
from strata_nb.experts.streaming import Streaming
from strata_nb.gates.gate_5 import quality
from strata_nb.gates.gate_5.comparison import Comparison, Quality, Setting, Work
from strata_nb.gates.gate_5.measured import measured, work
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.stage.rig import Rig
from strata_nb.policies.moce import Moce
from strata_nb.policies.routing import NATURAL, Chosen, FewerExperts, Seen
from tiny import small_config, write_checkpoint

FEWER = FewerExperts(by=1)


def every(model: Model, profile: Any = "quick") -> list[Case]:
    return quality.cases(model.config, profile, model.config.max_position_embeddings)


def results(model: Model, *families: str) -> list[CaseResult]:
    chosen = [c for c in every(model) if c.family in families]
    assert chosen
    return list(quality.run(chosen, Rig(model)))


def notes(found: list[CaseResult]) -> str:
    return "\n".join(f.note for result in found for f in result.findings)


def test_policies_are_what_they_say(tiny: Model) -> None:
    found = list(quality.run(every(tiny), Rig(tiny)))
    assert [(r.case.id, r.cause) for r in found if r.findings] == []
    parts = {*tiny.engine().digests()} - {"position"}
    assert {part for r in found for part in r.changed} == parts


def test_on_the_bundled_model(trained: Model) -> None:
    found = results(trained, "approximate", "declared", "alone")
    assert [(r.case.id, r.cause) for r in found if r.findings] == []


def test_cases_are_the_same_each_time_and_grow_with_the_profile(tiny: Model) -> None:
    quick, full = ([c.id for c in every(tiny, p)] for p in ("quick", "full"))
    assert quick == [c.id for c in every(tiny)]
    assert len(set(full)) == len(full)
    assert "gate_5/approximate/policy=fewer experts/text=code/tokens=64" in quick
    assert "gate_5/approximate/policy=fewer experts/text=code/tokens=256" in full


def test_one_expert_cannot_become_fewer(small: Model) -> None:
    assert {c.family for c in every(small)} == {"alone", "declared", "lossless"}


@dataclass(frozen=True)
class Liar:
    """Leaves experts out and says that it changes nothing."""

    name: str = "quick"
    lossless: bool = True

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        return Chosen(strongest(logits, top_k=top_k - 1))


@dataclass(frozen=True)
class Silent(Liar):
    """Says that it is not exact, but not in its name."""

    lossless: bool = False


@dataclass(frozen=True)
class Idle(Liar):
    """Says that it approximates, and does not."""

    name: str = "approximate"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        return Chosen(strongest(logits, top_k=top_k))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts one policy in the place of all others."""

    def offer(policy: Any) -> None:
        monkeypatch.setattr(quality, "POLICIES", {"planted": policy})

    return offer


def test_a_policy_that_claims_to_be_lossless_and_is_not(
    tiny: Model, offered: Any
) -> None:
    offered(Liar())
    for result in results(tiny, "lossless"):
        assert result.verdict == "fault"
        assert {f.by for f in result.findings} == {"replay"}
        assert "logits" in {f.what for f in result.findings}


def test_a_lossless_policy_of_another_name(tiny: Model, offered: Any) -> None:
    offered(replace(NATURAL, name="streamed"))
    assert {r.verdict for r in results(tiny, "lossless", "declared")} == {"same"}


def test_an_approximate_policy_that_does_not_say_so(tiny: Model, offered: Any) -> None:
    offered(Silent())
    assert "name says approximate: wanted True, got False" in notes(
        results(tiny, "declared")
    )
    assert "'quick' does not say it approximates" in notes(results(tiny, "approximate"))


def test_an_approximation_that_changes_nothing_shows_nothing(
    tiny: Model, offered: Any
) -> None:
    offered(Idle())
    assert "it changed no probability" in notes(results(tiny, "approximate"))


def test_records_that_do_not_say_so(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tiny.engine

    def quiet(**options: Any) -> Any:
        engine = real(**options)
        shown = {k: v for k, v in engine.options.items() if k != "approximate"}
        engine.options = MappingProxyType(shown)
        return engine

    monkeypatch.setattr(tiny, "engine", quiet)
    found = notes(results(tiny, "declared"))
    assert "records: wanted ('top-(k-1), approximate',), got ()" in found
    assert "option of the engine: wanted" in found


# ------------------------------------------------------------------ the comparison

GOOD = Quality(7, 1.0, 1.1, 0.9, 0.01, 3, 4)
ONE_TEXT = Setting(texts=(("code", 8),), rows=8, decoded=4)


def comparison(**changes: Any) -> Comparison:
    given: dict[str, Any] = {
        "policy": "half, approximate",
        "lossless": False,
        "setting": ONE_TEXT,
        "quality": {"code": GOOD},
        "exact_work": Work(2, 100, 9.0),
        "work": Work(2, 80, 5.0),
    }
    return Comparison(**{**given, **changes})


@pytest.mark.parametrize("quality_", [{}, {"prose": GOOD}])
def test_there_is_no_comparison_by_speed_alone(quality_: Any) -> None:
    with pytest.raises(ValueError, match=r"wants quality of code, got .*never speed"):
        comparison(quality=quality_)
    with pytest.raises(TypeError, match="quality"):
        Comparison("any", True, ONE_TEXT, exact_work=Work(), work=Work())  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "changes", [{"predictions": 0}, {"nats": float("nan")}, {"kl": float("inf")}]
)
def test_figures_that_were_not_measured_are_refused(changes: Any) -> None:
    with pytest.raises(ValueError, match="finite figures over one prediction or more"):
        replace(GOOD, **changes)


def test_an_approximate_policy_carries_the_word() -> None:
    with pytest.raises(ValueError, match="'half' and not lossless"):
        comparison(policy="half")
    assert "approximate" in str(comparison())
    assert [row["policy"] for row in comparison().rows()] == ["half, approximate"]


def test_times_are_shown_and_not_compared() -> None:
    slow = comparison(work=Work(2, 80, 500.0))
    assert slow == comparison()
    assert slow.work.ms == 500.0
    assert str(slow) == str(comparison())
    assert "80 experts read against 100" in str(slow)
    assert Work(1, 2, 3.0) + Work(1, 2, 3.0) == Work(2, 4)
    assert (Work(1, 2, 3.0) + Work(1, 2, 3.0)).ms == 6.0


def test_the_exact_policy_against_itself_is_the_same(tiny: Model) -> None:
    found = quality.compared(tiny, NATURAL, tokens=20, decoded=4)
    assert found.same
    assert found.work == found.exact_work
    assert {q.alike for q in found.quality.values()} == {4}
    assert not quality.compared(tiny, FEWER, tokens=20, decoded=4).same


def test_each_engine_finds_the_same_slots(tiny: Model) -> None:
    """What the exact model reads must not be there for the policy, nor the reverse."""

    def begin() -> Model:
        return load(tiny.checkpoint.path, experts=Streaming(slots=6))

    given: dict[str, Any] = {"tokens": 20, "decoded": 0, "texts": ("code",)}
    given |= {"begin": begin, "start": "6 empty slots a layer"}
    exact, moce = (
        quality.compared(tiny, p, **given) for p in (NATURAL, Moce(bonus=5.0))
    )
    assert exact.same
    assert exact.work == exact.exact_work == moce.exact_work
    assert 0 < moce.work.misses < exact.work.misses <= exact.work.experts_read
    one = begin().pool.source.layout.record_bytes  # type: ignore[union-attr]
    assert moce.work.bytes_read == one * moce.work.misses
    assert moce.quality["code"].kl > 0
    assert (moce.setting.start, moce.setting.decoded) == (given["start"], 0)


def test_two_comparisons_are_equal(tiny: Model) -> None:
    first, second = (quality.compared(tiny, FEWER, tokens=20) for _ in range(2))
    assert first == second
    assert str(first) == str(second)


def test_the_figures_are_what_plain_rows_give(tiny: Model) -> None:
    ids = Rig(tiny).text(21)
    found, exact_work, less_work = measured(lambda: tiny, FEWER, ids, ONE_TEXT)
    engines = tiny.engine(), tiny.engine(routing=FEWER)
    nats, kl, alike = np.zeros(2), 0.0, 0
    for token, after in itertools.pairwise(ids):
        rows = []
        for engine in engines:
            window = engine.run([token])
            engine.finish(window, stop_ids=())
            engine.commit(window)
            odds = np.exp(window.logits[0] - window.logits[0].max())
            rows.append(odds / odds.sum())
        p, q = rows
        nats += [-np.log(p[after]), -np.log(q[after])]
        kl += float((p * np.log(p / q)).sum())
        alike += int(p.argmax() == q.argmax())
    assert found.predictions == 20
    wanted = (nats[0] / 20, nats[1] / 20, kl / 20, alike / 20)
    got = (found.exact_nats, found.nats, found.kl, found.agreement)
    assert got == pytest.approx(wanted, rel=1e-4)
    assert found.kl > 0
    # 20 rows in windows of 8, 8 and 4 (the last token predicts nothing), a prompt of
    # 10, and 4 tokens decoded.
    assert less_work.windows == exact_work.windows == 3 + 1 + 4
    assert less_work.experts_read < exact_work.experts_read


def test_work_counts_distinct_experts_of_each_window(tiny: Model) -> None:
    engine = tiny.engine()
    advance(engine, [1, 2, 3], keep=2)
    window = engine.run([4])
    distinct = sum(len(np.unique(d.expert_ids)) for d in window.layers)
    engine.finish(window, stop_ids=())
    before = work(engine)
    engine.commit(window)
    assert work(engine).experts_read - before.experts_read == distinct
    assert work(engine).ms > before.ms > 0


# ------------------------------------------------------------------ the texts


def test_the_texts_are_long_enough_and_distinct(trained: Model) -> None:
    found = quality.probes(trained, tokens=10_000)
    assert [p.name for p in found] == ["edit", "code", "prose"]
    assert all(300 <= len(p.ids) <= 600 for p in found)
    assert len({p.ids[:20] for p in found}) == 3
    assert trained.decode(found[0].ids) == prompts.probe("edit")


def test_the_texts_are_held_out_of_everything_else() -> None:
    """No line is in tests, notebooks, prompts or the model's own page."""
    root = Path(__file__).parents[2]
    lines = {
        line.strip()
        for name in quality.TEXTS
        for line in prompts.probe(name).splitlines()
        if len(line.strip()) > 32 and not line.startswith("<|")
    }
    assert len(lines) > 30
    asked = [text for kind in prompts.KINDS for text in prompts.texts(kind)]
    others = "\n".join(asked) + "\n".join(
        path.read_text(encoding="utf-8")
        for pattern in ("tests/**/*.py", "notebooks/*.ipynb", "strata_nb/data/**/*.md")
        for path in root.glob(pattern)
        if path != Path(__file__)
    )
    assert [line for line in sorted(lines) if line in others] == []


def test_without_a_tokenizer_the_texts_are_random_tokens(tiny: Model) -> None:
    found = quality.probes(tiny, tokens=30)
    assert [len(p.ids) for p in found] == [30, 30, 30]
    assert len({p.ids for p in found}) == 3


def test_a_comparison_of_some_texts(trained: Model) -> None:
    found = quality.compared(trained, FEWER, tokens=24, decoded=2, texts=("prose",))
    assert found.setting.texts == (("prose", 24),)
    assert re.search(r"^prose +23 ", str(found), re.M)


def test_a_model_of_two_experts(tmp_path: Path) -> None:
    config = small_config(num_experts=4, num_experts_per_tok=2)
    model = load(write_checkpoint(tmp_path, config, 5))
    assert quality.compared(model, FewerExperts(by=5), tokens=12).lossless is False
