"""The gate of the gates: it sees each fault, and says so when one is not seen."""

from collections.abc import Iterator

import pytest

from helpers import after, prompt
from strata_nb import Model
from strata_nb.faults import DEFECTS
from strata_nb.gates import planted
from strata_nb.gates.records import HEAD_PARTS, PARTS, STATES, Case, CaseResult, Finding
from strata_nb.gates.stage.places import parts_of
from strata_nb.gates.stage.rig import Rig


@pytest.fixture(scope="module")
def rig(wide: Model) -> Rig:
    return Rig(wide)


@pytest.mark.parametrize("name", DEFECTS)
def test_each_fault_is_caught_in_its_part(rig: Rig, name: str) -> None:
    cases = planted.cases(rig.model.config, "quick", 4096)
    (case,) = (c for c in cases if c["fault"] == name)
    (result,) = planted.run([case], rig)
    assert result.verdict == "same", result.findings
    assert {part for part, _, _ in result.caught} >= {DEFECTS[name].part}


def test_every_part_has_a_fault(wide: Model) -> None:
    cases = planted.cases(wide.config, "quick", 4096)
    assert {part for case in cases for part in case.touches} == set(STATES)
    assert len(cases) == len(DEFECTS)


def test_a_model_without_8_bit_groups_leaves_their_fault_out(small: Model) -> None:
    cases = planted.cases(small.config, "quick", 4096)
    of_heads = {name for name, f in DEFECTS.items() if f.part in HEAD_PARTS}
    assert {c["fault"] for c in cases} == {*DEFECTS} - of_heads - {"kv_shared_scale"}


def test_a_fault_that_nothing_sees_is_a_miss(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = planted.cases(rig.model.config, "quick", 4096)[0]
    monkeypatch.setattr(planted, "trials", lambda *_: [])
    (result,) = planted.run([case], rig)
    assert result.verdict == "fault"
    assert "0 cases saw nothing" in result.findings[0].note


@pytest.mark.parametrize(
    ("causes", "word"),
    [
        (["kv"], "showed first in kv"),
        (["gdn_state", "gdn_state", "kv"], "showed first in kv"),
    ],
)
def test_a_fault_that_shows_elsewhere_first_is_a_miss(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, causes: list[str], word: str
) -> None:
    def elsewhere(*_: object) -> Iterator[CaseResult]:
        for number, what in enumerate(causes):
            case = Case("gate_3", "reject", (("n", number),))
            yield CaseResult(case, (Finding("fault", "twin", "commit", what, 3),))

    monkeypatch.setattr(planted, "planted", elsewhere)
    cases = planted.cases(rig.model.config, "quick", 4096)
    (case,) = (c for c in cases if c["fault"] == "gdn_no_rewind")
    (result,) = planted.run([case], rig)
    assert result.verdict == "fault"
    assert word in result.findings[0].note


def test_parts_that_can_hold_nothing_are_no_parts(small: Model) -> None:
    assert parts_of(small.config) == PARTS
    from dataclasses import replace

    bare = replace(small.config, indexer_compress_ratio=1, linear_conv_kernel_dim=1)
    assert set(PARTS) - set(parts_of(bare)) == {"qsa_tail", "gdn_conv"}
    no_ngrams = replace(small.config, ple_layers=())
    assert set(PARTS) - set(parts_of(no_ngrams)) == {"ple_tokens", "ple_conv"}


def test_a_sound_part_stores_nothing_that_is_not_live(tiny: Model) -> None:
    """So there is nothing in it for garbage to be written to."""
    engine = after(tiny, prompt(tiny, 23, seed=3))
    backend = engine.backend
    state = backend.settle(engine._now.state)
    for (part, layer), value in zip(backend.slots, state.values, strict=True):  # type: ignore[attr-defined]
        live = sum(leaf.size for leaf in part.leaves(value).values())
        assert stored(value) == live, (part.name, layer)


def stored(value: object) -> int:
    """Numbers in a part's value, however it holds them."""
    if hasattr(value, "size") and hasattr(value, "dtype"):
        return int(value.size)
    if isinstance(value, (tuple, list)):
        return sum(stored(v) for v in value)
    if hasattr(value, "__dataclass_fields__"):
        fields = (getattr(value, f) for f in value.__dataclass_fields__)
        return sum(stored(v) for v in fields if not isinstance(v, int))
    return 1 if isinstance(value, int) else 0
