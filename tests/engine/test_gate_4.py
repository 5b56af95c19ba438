"""gate_4 sees nothing where a text resumes rightly, and the part where it does not."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.faults import DEFECTS
from strata_nb.gates.gate_4 import resume, spoiled
from strata_nb.gates.gate_5 import masking
from strata_nb.gates.judge.floor import measure
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.stage.onward import pad_of
from strata_nb.gates.stage.places import threshold
from strata_nb.gates.stage.rig import Rig
from strata_nb.models.qwen4_exp import Qwen4Exp
from strata_nb.parts import PleTokens
from strata_nb.state import save_state
from tiny import small_config, tiny_config, write_checkpoint


def every(model: Model, profile: Any = "quick") -> list[Case]:
    return resume.cases(model.config, profile, model.config.max_position_embeddings)


def results(rig: Rig, *families: str, **params: Any) -> list[CaseResult]:
    chosen = [
        c
        for c in every(rig.model)
        if c.family in families and params.items() <= dict(c.params).items()
    ]
    assert chosen
    return list(resume.run(chosen, rig))


def causes(found: list[CaseResult]) -> set[str]:
    return {r.cause.what for r in found if r.cause}


@pytest.fixture(scope="module")
def sound(tiny: Model) -> list[CaseResult]:
    return list(resume.run(every(tiny), Rig(tiny)))


def test_whatever_resumes_goes_on_like_a_cold_run(sound: list[CaseResult]) -> None:
    assert [(r.case.id, r.cause) for r in sound if r.findings] == []


def test_every_part_is_exercised_by_every_family(
    sound: list[CaseResult], tiny: Model
) -> None:
    parts = {*tiny.engine().digests()} - {"position"}
    for name in ("saved", "diverged", "padded", "branches", "sessions"):
        changed = {p for r in sound if r.case.family == name for p in r.changed}
        assert changed == parts, name


def test_cases_are_the_same_each_time_and_grow_with_the_profile(tiny: Model) -> None:
    quick, full = ([c.id for c in every(tiny, p)] for p in ("quick", "full"))
    assert quick == [c.id for c in every(tiny)]
    assert len(set(full)) == len(full) > len(quick)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_saves_lie_at_every_residue_on_either_side_of_the_threshold(
    tiny: Model, profile: Any
) -> None:
    cells = {int(c["cells"]) for c in every(tiny, profile) if c.family == "saved"}
    last = threshold(tiny.config)
    assert last == 19
    assert {n % 4 for n in cells if n <= last} == {n % 4 for n in cells if n > last}
    assert cells >= set(range(19, 28 if profile == "full" else 24))
    modes = {(c["fold"], c["partial"]) for c in every(tiny) if c.family == "saved"}
    assert len(modes) == 4


def test_a_short_context_leaves_out_what_does_not_fit(tiny: Model) -> None:
    found = resume.cases(tiny.config, "quick", 83)
    assert max(int(c["cells"]) for c in found if "cells" in dict(c.params)) == 19


def test_8_bit_keys_resume(wide: Model) -> None:
    found = results(Rig(wide), "saved", kv="int8")
    assert [r.verdict for r in found] == ["same"]


@pytest.mark.parametrize(
    ("fault", "family"),
    [
        ("qsa_blocks_not_restored", "saved"),
        ("qsa_blocks_not_restored", "padded"),
        ("ple_shared_history", "sessions"),
        ("ple_shared_history", "branches"),
        ("ple_shared_history", "diverged"),
        ("gdn_no_rewind", "saved"),
        ("qsa_ring", "saved"),
        ("kv_cells_kept", "branches"),
        ("qsa_blocks_not_restored", "requests"),
        ("slop_not_restored", "requests"),
        ("drafter_across_requests", "requests"),
    ],
)
def test_a_fault_is_seen_in_its_part(tiny: Model, fault: str, family: str) -> None:
    found = results(Rig(tiny, fault=fault), family)
    assert causes(found) == {DEFECTS[fault].part}


def test_a_part_that_is_not_in_the_file_is_named(tiny: Model, tmp_path: Path) -> None:
    engine = tiny.engine()
    engine.prefill(Rig(tiny).text(22))
    path = tmp_path / "saved"
    engine.save(path)
    assert list(resume._absent(path, engine)) == []
    kept = load_file(path)
    del kept["qsa_blocks/3/keys"]
    kept["kv/7/k"] = kept["kv/7/k"][:-1]
    save_file(kept, path)
    found = {(f.what, f.layer) for f in resume._absent(path, engine)}
    assert found == {("qsa_blocks", 3), ("kv", 7)}


def test_a_save_that_cannot_be_restored_is_a_fault(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = save_state

    def forgets(path: Any, saved: Any) -> None:
        leaves = {k: v for k, v in saved.leaves.items() if k.part != "qsa_tail"}
        real(path, type(saved)(leaves, saved.position, saved.root, saved.identity))

    monkeypatch.setattr("strata_nb.engine.save_state", forgets)
    found = results(Rig(tiny), "saved", cells=18)
    assert {r.verdict for r in found} == {"fault"}
    assert {r.findings[-1].note for r in found} == {
        "refused with SavedStateError, wanted it to go on"
    }


def test_a_restore_that_leaves_a_former_turn_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Qwen4Exp.from_leaves
    last: list[Any] = []

    def keeps_recurrence(backend: Qwen4Exp, leaves: Any, *, position: int) -> Any:
        found = real(backend, leaves, position=position)
        old = {part.name: None for part, _ in backend.slots}
        assert "gdn_state" in old
        values = tuple(
            kept if part.name == "gdn_state" else new
            for (part, _), new, kept in zip(
                backend.slots, found.values, last[-1].values, strict=True
            )
        )
        return type(found)(position, values)

    settle = Qwen4Exp.settle

    def remembers(backend: Qwen4Exp, state: Any) -> Any:
        last.append(settle(backend, state))
        return last[-1]

    commit = Qwen4Exp.commit

    def commits(backend: Qwen4Exp, state: Any, pending: Any, keep: int) -> Any:
        found = commit(backend, state, pending, keep)
        last.append(settle(backend, found))
        return found

    monkeypatch.setattr(Qwen4Exp, "from_leaves", keeps_recurrence)
    monkeypatch.setattr(Qwen4Exp, "settle", remembers)
    monkeypatch.setattr(Qwen4Exp, "commit", commits)
    found = results(Rig(tiny), "diverged", how="restore over")
    assert causes(found) == {"gdn_state"}


def test_a_fork_that_loses_the_index_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.fork

    def forks(engine: Engine) -> Engine:
        other = real(engine)
        backend: Any = engine.backend
        state: Any = other._now.state
        values = tuple(
            mx.zeros_like(v) if part.name == "qsa_tail" else v
            for (part, _), v in zip(backend.slots, state.values, strict=True)
        )
        other._now = replace(other._now, state=type(state)(state.n, values))
        return other

    rig = Rig(tiny)
    case = next(c for c in every(tiny) if c.family == "branches" and c["cells"] == 23)
    monkeypatch.setattr(Engine, "fork", forks)
    (result,) = resume.run([case], rig)
    assert result.cause is not None
    assert result.cause.what in ("qsa_tail", "qsa_blocks")
    assert result.cause.note.startswith("sequence ")


def test_a_pad_that_a_file_does_not_bring_back_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PleTokens.restore

    def forgets(part: PleTokens, leaves: Any) -> Any:
        pad = pad_of(tiny)
        return tuple(part.eos if i == pad else i for i in real(part, leaves))

    monkeypatch.setattr(PleTokens, "restore", forgets)
    found = results(Rig(tiny), "padded", pads=6)
    assert causes(found) == {"ple_tokens"}


def test_the_pad_token_is_that_of_the_config(tmp_path: Path) -> None:
    for pad, wanted in ((5, 5), (None, 0), (17, 0), ("x", 0)):
        folder = tmp_path / str(pad)
        config = small_config(pad_token_id=pad)
        assert pad_of(load(write_checkpoint(folder, config, 1))) == wanted
    folder = tmp_path / "nested"
    nested = write_checkpoint(
        folder, tiny_config(pad_token_id=9), 1, nested_config=True
    )
    assert pad_of(load(nested)) == 9


def test_an_unwritable_place_that_says_nothing_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.save

    def silent(engine: Engine, path: Any) -> None:
        with contextlib.suppress(OSError):
            real(engine, path)

    monkeypatch.setattr(Engine, "save", silent)
    (result,) = results(Rig(tiny), "spoiled", how="no folder")
    assert [f.note for f in result.findings] == ["refused: wanted True, got False"]


_SITE = """
import os
import strata_nb.state as state
def write_bytes(path, data):
    with open(path, "wb") as file:
        file.write(data)
state.write_bytes = write_bytes
"""


def test_a_save_that_spoils_the_older_one_is_seen(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SITE)
    monkeypatch.syspath_prepend(tmp_path)
    (result,) = results(Rig(tiny), "spoiled", how="full disk")
    assert [f.note for f in result.findings] == [
        "old survives: wanted True, got False",
        "old restores: wanted True, got False",
        "nothing new: wanted True, got False",
    ]


def test_what_a_full_disk_left_is_told(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = dict.fromkeys(spoiled._WANTED, True) | {"no later hit": False}
    monkeypatch.setattr(spoiled, "answer", lambda *_: told)
    (result,) = results(Rig(tiny), "spoiled", how="full disk")
    assert [f.note for f in result.findings] == ["no later hit: wanted True, got False"]


@pytest.fixture(scope="module")
def masked(trained: Model) -> masking.Masked:
    return masking.matching_tokens(trained, tokens=12)


def test_tokens_match_over_a_state_that_does_not(masked: masking.Masked) -> None:
    assert (masked.state, masked.part, masked.layer) == (0, "qsa_tail", 3)
    assert masked.cell == masked.start - 1 == 232
    assert masked.size > 0.5
    assert (masked.logits, masked.blocks, masked.token) == (4, 4, None)
    assert masked.decoded == len(masked.trail) == 12
    assert all(m.wrong and m.agrees for m in masked.trail)


def test_the_state_is_wrong_long_before_a_token_can_change(trained: Model) -> None:
    found = masking.corrupt_before_tokens(trained)
    assert (found.state, found.part, found.can_change) == (0, "qsa_tail", 30)
    assert found.token is None
    # At the earliest when a row has to choose; until then to the bit.
    assert found.logits == found.blocks == 33
    assert [m.logits for m in found.trail[:33]] == [0.0] * 33
    assert all(m.wrong for m in found.trail)


def test_without_the_fault_acting_nothing_is_wrong(tiny: Model) -> None:
    # A window that ends with its block: the ring has nothing to overwrite.
    found = masking.corrupt_before_tokens(tiny, start=12, tokens=6)
    assert (found.state, found.part, found.size) == (None, None, 0.0)
    assert (found.logits, found.token) == (None, None)


def test_decoding_ends_where_the_tokens_part(tiny: Model) -> None:
    found = masking.matching_tokens(tiny, fault="gdn_no_rewind", start=21, tokens=40)
    assert found.part == "gdn_state"
    assert found.token == found.decoded - 1
    assert not found.trail[-1].agrees
    assert all(m.agrees for m in found.trail[:-1])


def test_a_probe_is_repeated_where_it_is_short(trained: Model) -> None:
    ids = masking.probe(trained, "code", 1200)
    assert len(ids) == 1200
    assert np.array_equal(ids[519:600], ids[:81])


def test_where_bits_depend_on_the_rows_decisions_are_compared(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: every row that follows is looked at, and parts may round."""
    monkeypatch.setattr(Rig, "exact", False)
    chosen = [c for c in every(tiny) if c.family != "spoiled"][::4]
    found = list(resume.run(chosen, Rig(tiny, floor=measure(tiny))))
    assert [(r.case.id, r.cause) for r in found if r.findings] == []
