"""Saved engines, forks and differences: nothing of a state is left out."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import strata_nb
from helpers import advance, after, assert_same, greedy, prompt, serial
from strata_nb import Model, SavedStateError
from strata_nb.errors import ContextLimitError

PARTS = {
    "gdn_state",
    "gdn_conv",
    "kv",
    "qsa_blocks",
    "qsa_tail",
    "ple_tokens",
    "ple_conv",
}


def test_every_part_is_in_a_saved_engine(tiny: Model, tmp_path: Path) -> None:
    engine = after(tiny, prompt(tiny, 22))
    engine.save(tmp_path / "e.safetensors")
    names = {n.split("/")[0] for n in load_file(tmp_path / "e.safetensors")}
    assert names == PARTS
    assert set(engine.digests()) == PARTS | {"position"}


@pytest.mark.parametrize("fold", ["lazy", "eager"])
def test_a_restored_engine_goes_on_alike(
    tiny: Model, tmp_path: Path, fold: Any
) -> None:
    engine = after(tiny, prompt(tiny, 21), fold=fold)
    advance(engine, [1, 2, 3, 4, 5], keep=3)  # leaves a fold pending under "lazy"
    engine.save(tmp_path / "e")
    other = tiny.engine(fold=fold)
    other.restore(tmp_path / "e")
    assert other.root == engine.root
    assert other.position == engine.position == 24
    for rows, keep in [([7, 8, 9], 1), ([4], 1), ([1, 2, 3, 4, 5, 6], 6)]:
        advance(engine, rows, keep=keep)
        advance(other, rows, keep=keep)
        assert_same(engine, other, why=str(rows))


def test_a_saved_engine_takes_the_fold_mode_of_the_new_one(
    tiny: Model, tmp_path: Path
) -> None:
    engine = after(tiny, prompt(tiny, 21), fold="lazy")
    advance(engine, [1, 2, 3, 4, 5], keep=3)
    engine.save(tmp_path / "e")
    other = tiny.engine(fold="eager", partial=True)
    other.restore(tmp_path / "e")
    assert_same(engine, other)


@pytest.mark.parametrize("kv", ["float32", "bfloat16", "int8"])
def test_each_kind_of_kv_is_saved_as_it_is(
    wide: Model, tmp_path: Path, kv: Any
) -> None:
    engine = after(wide, prompt(wide, 30), kv=kv)
    engine.save(tmp_path / "e")
    other = wide.engine(kv=kv)
    other.restore(tmp_path / "e")
    assert engine.digests() == other.digests()
    assert_same(serial(engine, [5, 6]), serial(other, [5, 6]))


def test_another_kind_of_kv_is_refused(tiny: Model, tmp_path: Path) -> None:
    after(tiny, prompt(tiny, 9), kv="float32").save(tmp_path / "e")
    other = after(tiny, prompt(tiny, 5), kv="bfloat16")
    before = other.digests()
    with pytest.raises(SavedStateError, match="kv 'float32', this engine has 'bfl"):
        other.restore(tmp_path / "e")
    assert other.digests() == before


def test_another_model_is_refused(tiny: Model, odd: Model, tmp_path: Path) -> None:
    after(tiny, prompt(tiny, 9)).save(tmp_path / "e")
    with pytest.raises(SavedStateError, match="saved with model"):
        odd.engine().restore(tmp_path / "e")


def test_a_shorter_context_is_refused(tiny: Model, tmp_path: Path) -> None:
    after(tiny, prompt(tiny, 9)).save(tmp_path / "e")
    with pytest.raises(ContextLimitError, match="has 9 cells, this engine takes 8"):
        tiny.engine(context=8).restore(tmp_path / "e")


def test_no_such_file(tiny: Model, tmp_path: Path) -> None:
    with pytest.raises(SavedStateError, match="no saved engine at"):
        tiny.engine().restore(tmp_path / "none")


def edited(path: Path, change: Any) -> None:
    """Rewrite the file with `change(header, data)`, a bytearray of the tensors."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), bytearray(raw[8 + size :])
    change(header, data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))


@pytest.mark.parametrize("part", sorted(PARTS))
def test_an_altered_part_is_refused_by_name(
    tiny: Model, tmp_path: Path, part: str
) -> None:
    path = tmp_path / "e"
    after(tiny, prompt(tiny, 22)).save(path)

    def flip(header: dict[str, Any], data: bytearray) -> None:
        name = next(n for n in header if n.startswith(part + "/"))
        data[header[name]["data_offsets"][0]] ^= 1

    edited(path, flip)
    engine = after(tiny, prompt(tiny, 5))
    before = engine.digests()
    with pytest.raises(SavedStateError, match=f"{part} in e is not what was saved"):
        engine.restore(path)
    assert engine.digests() == before


def head(**changes: Any) -> Any:
    def change(header: dict[str, Any], _: bytearray) -> None:
        found = json.loads(header["__metadata__"]["strata"])
        header["__metadata__"]["strata"] = json.dumps(found | changes)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (head(format="strata-nb state 0"), "has format 'strata-nb state 0', wanted"),
        (head(position=21), "position in e is not what was saved"),
        (head(position=-1), "truncated or damaged"),
        (head(position="many"), "truncated or damaged"),
        (head(root="x"), "truncated or damaged"),
        (head(root=10), "root in e is not what was saved"),
        (lambda h, d: h["__metadata__"].update(strata="[]"), "its header is no object"),
        (head(identity=3), "truncated or damaged"),
        (head(digests={}), "not what was saved"),
        (lambda h, d: h.pop("__metadata__"), "has format None"),
        (lambda h, d: h.pop("ple_tokens/-/ids"), "damaged"),
        (lambda h, d: d.__delitem__(slice(-8, None)), "truncated or damaged"),
    ],
)
def test_damaged_files_are_refused(
    tiny: Model, tmp_path: Path, change: Any, message: str
) -> None:
    path = tmp_path / "e"
    after(tiny, prompt(tiny, 22)).save(path)
    edited(path, change)
    with pytest.raises(SavedStateError, match=message):
        tiny.engine().restore(path)


def test_any_truncation_is_refused(tiny: Model, tmp_path: Path) -> None:
    path = tmp_path / "e"
    after(tiny, prompt(tiny, 6)).save(path)
    raw = path.read_bytes()
    for size in (0, 1, 7, 8, 100, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(SavedStateError):
            tiny.engine().restore(path)


def test_a_failed_save_keeps_the_old_file(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e"
    engine = after(tiny, prompt(tiny, 6))
    engine.save(path)
    old = path.read_bytes()
    advance(engine, [3])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        engine.save(path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["e"]


def test_parts_that_do_not_fit_are_named(tiny: Model) -> None:
    engine = after(tiny, prompt(tiny, 22))
    leaves = engine.leaves()
    backend = engine.backend
    gone = {k: v for k, v in leaves.items() if k.part != "qsa_tail"}
    with pytest.raises(SavedStateError, match=r"qsa_tail of layer 3 .* shape None"):
        backend.from_leaves(gone, position=22)
    with pytest.raises(SavedStateError, match=r"wanted \(21, 2, 16\) at 21 cells"):
        backend.from_leaves(leaves, position=21)


def test_forks_share_nothing_that_either_can_write(tiny: Model) -> None:
    trunk = after(tiny, prompt(tiny, 250, seed=3))
    left, right = trunk.fork(), trunk.fork()
    before = trunk.digests()
    for turn in range(10):
        advance(left, [turn, turn + 1, 9], keep=2)
        advance(right, [turn + 100, 4], keep=1)
    assert trunk.digests() == before
    ids = prompt(tiny, 250, seed=3)
    mine = ids + [t for turn in range(10) for t in (turn, turn + 1)]
    assert_same(left, serial(tiny.engine(), mine))
    assert_same(right, serial(tiny.engine(), ids + [t + 100 for t in range(10)]))
    assert len(left.trace) == len(right.trace) == 10
    # 64 blocks of 4 cells make a page: one is sealed, and both branches read it.
    assert left.position > 256 > 250


def test_diff_names_part_layer_cell_and_size(tiny: Model) -> None:
    ids = prompt(tiny, 30)
    engine = after(tiny, ids)
    assert strata_nb.diff(engine, engine.fork()) == []
    other = after(tiny, [*ids[:29], (ids[29] + 1) % 257])
    found = {(d.part, d.layer): d for d in strata_nb.diff(engine, other)}
    assert found["ple_tokens", None].cell == 29
    assert found["kv", 3].cell == found["gdn_conv", 0].cell == 29
    assert found["gdn_state", 0].cell is None
    assert ("qsa_blocks", 3) not in found  # block 7 is still open
    assert found["qsa_tail", 3].cell == 29
    assert all(d.size > 0 for d in found.values())
    assert strata_nb.diff(engine, other, atol=1e9) == []


def test_diff_of_different_positions_says_so(tiny: Model) -> None:
    short, long = after(tiny, prompt(tiny, 8)), after(tiny, prompt(tiny, 9))
    first = strata_nb.diff(short, long)[0]
    assert (first.part, first.size) == ("position", 1.0)
    shapes = [d for d in strata_nb.diff(short, long) if d.part == "kv"]
    assert shapes
    assert all(d.size == np.inf for d in shapes)


def test_engine_and_oracle_hold_the_same_state(tiny_folder: Path) -> None:
    model = strata_nb.load(tiny_folder)
    oracle = strata_nb.load(tiny_folder, backend="oracle")
    ids = prompt(model, 40)
    first, second = after(model, ids), after(oracle, ids)
    assert strata_nb.diff(first, second, atol=2e-5) == []
    for rows, keep in [([1, 2, 3, 4, 5], 2), ([6], 1), ([7, 8, 9], 3)]:
        advance(first, rows, keep=keep)
        advance(second, rows, keep=keep)
        assert strata_nb.diff(first, second, atol=2e-5) == []
    assert greedy(first, 5, 10) == greedy(second, 5, 10)


def test_an_oracle_can_be_saved_too(tiny_folder: Path, tmp_path: Path) -> None:
    oracle = strata_nb.load(tiny_folder, backend="oracle")
    engine = after(oracle, prompt(oracle, 11))
    engine.save(tmp_path / "e")
    other = oracle.engine()
    other.restore(tmp_path / "e")
    assert other.digests() == engine.digests()
    with pytest.raises(SavedStateError, match="dtype 'float64'"):
        strata_nb.load(tiny_folder).engine().restore(tmp_path / "e")
