"""gate_1 sees nothing in what is sound, and every default that was turned on."""

import functools
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from strata_nb import Model, generate
from strata_nb.engine import Engine
from strata_nb.gates.gate_1 import defaults, outside
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.stage.child import ChildError, answer, asked_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.policies.routing import Chosen, FewerExperts, Seen

WATCHED = Path(outside.__file__).with_name("watched.py")
QUICK = "quick"


def every(model: Model, profile: Any = QUICK) -> list[Case]:
    return defaults.cases(model.config, profile, model.config.max_position_embeddings)


def results(model: Model, *families: str, limit: int = 99) -> list[CaseResult]:
    chosen = [c for c in every(model) if c.family in families][:limit]
    assert chosen
    return list(defaults.run(chosen, Rig(model)))


def notes(found: Sequence[CaseResult]) -> str:
    return "\n".join(f.note for result in found for f in result.findings)


@pytest.fixture(scope="module")
def sound(tiny: Model) -> list[CaseResult]:
    return list(defaults.run(every(tiny), Rig(tiny)))


def test_defaults_are_off(sound: list[CaseResult]) -> None:
    assert [r.case.id for r in sound if r.findings] == []


def test_every_part_is_exercised(sound: list[CaseResult], tiny: Model) -> None:
    changed = {part for result in sound for part in result.changed}
    assert changed == {*tiny.engine().digests()} - {"position"}


def test_cases_are_the_same_each_time_and_grow_with_the_profile(tiny: Model) -> None:
    quick, full = ([c.id for c in every(tiny, p)] for p in ("quick", "full"))
    assert quick == [c.id for c in every(tiny)]
    assert len(set(full)) == len(full) > len(quick)
    assert {c.touches for c in every(tiny)} == {()}


def test_a_short_context_leaves_out_what_does_not_fit(tiny: Model) -> None:
    found = defaults.cases(tiny.config, "quick", 20)
    assert [c["context"] for c in found if c.family == "choices"] == ["below"]


def test_a_large_model_is_not_loaded_twice(tiny: Model) -> None:
    from dataclasses import replace

    assert asked_of(tiny.config) == "own"
    large = replace(tiny.config, num_experts=512, moe_intermediate_size=1 << 17)
    assert asked_of(large) == "strata-tiny"


@pytest.fixture
def handed(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes engines that nobody gave options come with some."""

    def hand(**options: Any) -> None:
        made = functools.partial(Model.engine, tiny, **options)
        monkeypatch.setattr(tiny, "engine", made)

    return hand


def test_another_routing_is_seen(tiny: Model, handed: Any) -> None:
    handed(routing=FewerExperts())
    (options,) = results(tiny, "options")
    assert "option routing: wanted none" in notes([options])
    assert "lossless" in notes([options])
    for result in results(tiny, "choices", "ties"):
        assert {f.what for f in result.findings} == {"experts"}, result.case.id
    assert "approximate" in notes(results(tiny, "windows"))


def test_a_planted_fault_is_seen(tiny: Model, handed: Any) -> None:
    handed(fault="qsa_ring")
    assert "parts as built" in notes(results(tiny, "options"))
    assert all(r.verdict == "fault" for r in results(tiny, "after"))


@dataclass(frozen=True)
class HighestFirst:
    """The strongest experts, the higher number on a tie."""

    name: str = "natural"
    lossless: bool = True

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        backwards = mx.argsort(-logits[:, ::-1], axis=-1)[:, :top_k]
        return Chosen((logits.shape[1] - 1 - backwards).astype(mx.uint32))


def test_another_order_of_equals_is_seen(tiny: Model, handed: Any) -> None:
    handed(routing=HighestFirst())
    assert "of equals wanted [0, 1" in notes(results(tiny, "ties"))


def test_a_choice_that_is_no_top_choice_is_seen(tiny: Model) -> None:
    engine = tiny.engine()
    engine.prefill(Rig(tiny).text(40))
    window = engine.run([1, 2])
    assert defaults.unnatural(window, tiny.config) == []
    layer = next(d for d in window.layers if d.blocks is not None)
    assert layer.blocks is not None
    layer.blocks[1, 0] += 1
    (found,) = defaults.unnatural(window, tiny.config)
    assert (found.what, found.layer) == ("blocks", 3)


def test_drafts_by_default_are_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = functools.partial(generate, drafts=lambda text: [1, 2])
    monkeypatch.setattr(defaults, "generate", eager)
    found = notes(results(tiny, "windows"))
    assert "T of a window: wanted 1, got 3" in found
    assert "drafter of a window: wanted 'none'" in found
    assert "wanted 8, 8, 0, 0" in found


def test_what_stays_on_after_a_fork_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.fork

    def forks(engine: Engine) -> Engine:
        other = real(engine)
        other.options = {**other.options, "routing": "left on"}  # type: ignore[assignment]
        return other

    monkeypatch.setattr(Engine, "fork", forks)
    found = {str(r.case["verb"]): r.verdict for r in results(tiny, "after")}
    assert found["forked"] == "fault"
    assert found["rejected"] == "same"


def test_a_text_that_an_earlier_window_changed_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.abort

    def leaves_behind(engine: Engine, window: Any) -> None:
        real(engine, window)
        engine.prefill([5])

    rig = Rig(tiny)
    case = next(c for c in every(tiny) if ("verb", "aborted") in c.params)
    list(defaults.run([case], rig))  # learns the text that is right
    monkeypatch.setattr(Engine, "abort", leaves_behind)
    (result,) = defaults.run([case], rig)
    assert result.verdict == "fault"


PLANTS = {
    "socket": "import socket; socket.socket().close()",
    "process": "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])",
    "write": "import tempfile, os; open(os.path.join({folder!r}, 'x'), 'w').close()",
    "variable": "import os; os.environ.get('STRATA_NOBODY_KNOWS')",
    "random": "import random; random.random()",
    "numpy": "import numpy; numpy.random.rand()",
    "mlx": "import mlx.core as mx; mx.random.uniform()",
    "drafts": "kw['drafts'] = lambda text: [7, 7]",
    "policy": "kw['max_new'] -= 1 if os.environ.get('STRATA_ANY') else 0",
    "error": "raise OSError('/some/where')",
}
SEEN = {
    "socket": ("outside", "network: wanted nothing, got socket."),
    "process": ("outside", "process: wanted nothing, got subprocess.Popen"),
    "write": ("outside", "file: wanted nothing, got open for writing: x"),
    "variable": ("environment", "STRATA_NOBODY_KNOWS was read"),
    "random": ("chance", "random was drawn from"),
    "numpy": ("chance", "numpy.random was drawn from"),
    "mlx": ("chance", "mlx.random was drawn from"),
    "drafts": ("environment", "rows of the windows: wanted 1 each"),
    "policy": ("environment", "wanted ["),
    "error": ("chance", "watched.py ended with OSError"),
}
_SITE = """
import os
import strata_nb.session as session
real = session.generate
def generate(*args, **kw):
    {plant}
    return real(*args, **kw)
session.generate = generate
"""


@pytest.mark.parametrize("plant", PLANTS)
def test_what_reaches_outside_is_seen(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    line = PLANTS[plant].replace("{folder!r}", repr(str(tmp_path)))
    (tmp_path / "sitecustomize.py").write_text(_SITE.format(plant=line))
    monkeypatch.syspath_prepend(tmp_path)
    family, wanted = SEEN[plant]
    (result,) = results(tiny, family)
    assert wanted in notes([result])
    assert str(tmp_path) not in notes([result])
    assert "does not see" not in notes([result])


def test_a_watch_that_sees_nothing_is_no_proof(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = {
        "tokens": [],
        "seen": [],
        "asked": [],
        "drawn": [],
        "control": {"network": False, "file": True, "random source": False},
    }
    monkeypatch.setattr(outside, "answer", lambda *_, **__: blind)
    found = notes(results(tiny, "outside", "chance"))
    assert "the watch does not see a network when there is one" in found
    assert "the watch does not see a random source" in found
    assert "see a file" not in found


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata_nb.gates.stage.child._PATIENCE_S", 0.01)
    with pytest.raises(ChildError, match=r"did not end within 0\.01 s"):
        answer(WATCHED, {})


def test_a_process_that_fails_is_named_without_paths() -> None:
    with pytest.raises(ChildError, match=r"watched\.py ended with KeyError; run it"):
        answer(WATCHED, {})


def test_this_process_is_left_alone(tiny: Model) -> None:
    state, modules = random.getstate(), {*sys.modules}
    results(tiny, "chance")
    assert random.getstate() == state
    assert "strata_nb.gates.gate_1.watched" not in {*sys.modules} - modules
