"""Packing: equal bytes, little memory, and what is refused."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from expert_samples import checkpoint, contents, flip, header_of, packed
from strata_nb.errors import ExpertFileError
from strata_nb.experts import KINDS, Kind
from strata_nb.experts.header import Header
from strata_nb.experts.pack import pack
from strata_nb.packs import Checkpoint, open_checkpoint
from tiny import small_config, tensors, write_checkpoint, write_files


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def whole(source: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What an undisturbed run makes."""
    return packed(source, tmp_path_factory.mktemp("file") / "x", "q4").read_bytes()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The file to make; nothing else is in its folder."""
    return tmp_path / "model.experts"


# ------------------------------------------------------------------ equal bytes


@pytest.mark.parametrize("kind", KINDS)
def test_packing_twice_gives_equal_bytes(
    tmp_path: Path, source: Checkpoint, kind: Kind
) -> None:
    first, second = (packed(source, tmp_path / n, kind) for n in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("kind", ["bfloat16", "q3"])
def test_the_form_of_the_checkpoint_does_not_matter(tmp_path: Path, kind: Kind) -> None:
    forms = [
        packed(checkpoint(tmp_path / form, layout=form), tmp_path / f"{form}.x", kind)
        for form in ("fused", "per_expert")
    ]
    assert contents(forms[0]) == contents(forms[1])


def test_a_kind_not_given_is_the_checkpoints_own(tmp_path: Path) -> None:
    for dtype in ("float32", "bfloat16"):
        done = pack(checkpoint(tmp_path / dtype, dtype=dtype), tmp_path / "x")
        assert done.header.kind == dtype


def test_one_expert_is_in_memory_at_a_time(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "m", hidden=128, inner=128, experts=64)
    expert = 3 * 128 * 128 * 4
    pack(model, tmp_path / "warm", kind="bfloat16")
    tracemalloc.start()
    try:
        pack(model, tmp_path / "x", kind="float32")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * expert


# ------------------------------------------------------------------ what is refused


def test_something_else_is_never_replaced(source: Checkpoint, target: Path) -> None:
    target.write_bytes(b"a thesis")
    with pytest.raises(ExpertFileError, match="is there and no expert file; remove it"):
        pack(source, target)
    assert target.read_bytes() == b"a thesis"
    assert list(target.parent.iterdir()) == [target]


def test_an_empty_file_is_replaced(source: Checkpoint, target: Path) -> None:
    target.touch()
    assert pack(source, target).written == 6


def test_a_shape_that_cannot_be_quantised_writes_nothing(
    tmp_path: Path, target: Path
) -> None:
    model = checkpoint(tmp_path / "m", inner=16)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        ExpertFileError, match=r"q4 wants rows that 32 divides, got .*6"
    ):
        pack(model, target, kind="q4")
    assert sorted(tmp_path.iterdir()) == before
    assert pack(model, target, kind="bfloat16").written == 6


def test_a_missing_folder_is_named(source: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"make the folder .*/none first"):
        pack(source, tmp_path / "none" / "x")


def test_an_unknown_kind_is_refused(source: Checkpoint, target: Path) -> None:
    with pytest.raises(ValueError, match="`kind` is 'q5', wanted one of"):
        pack(source, target, kind="q5")
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_named(
    tmp_path: Path, target: Path, value: float
) -> None:
    config = small_config(hidden_size=64, moe_intermediate_size=32, num_experts=3)
    write_checkpoint(tmp_path / "m", config, 5, layout="fused")
    stored = tensors(config, 5)
    stored["layers.1.mlp.experts.down_proj"][2, 5, 7] = value
    write_files(
        tmp_path / "m",
        {n if n.startswith("lm_head") else f"model.{n}": a for n, a in stored.items()},
    )
    model = open_checkpoint(tmp_path / "m")
    message = r"m: layer 1, expert 2: a number is not finite, so mxfp4 cannot hold it"
    with pytest.raises(ExpertFileError, match=message):
        pack(model, target, kind="mxfp4")
    # Dense records hold whatever the checkpoint does.
    assert pack(model, target.with_name("dense")).written == 6


# ------------------------------------------------------------------ done already


def test_a_finished_file_is_checked_and_left_alone(
    source: Checkpoint, target: Path
) -> None:
    packed(source, target, "q4")
    before = target.stat()
    done = pack(source, target, kind="q4")
    assert (done.kept, done.written) == (6, 0)
    assert target.stat() == before or target.stat().st_mtime_ns == before.st_mtime_ns
    assert target.stat().st_ino == before.st_ino


def test_a_finished_file_of_something_else_is_replaced(
    source: Checkpoint, target: Path, tmp_path: Path
) -> None:
    packed(source, target, "q4")
    assert pack(source, target, kind="q8").written == 6
    other = checkpoint(tmp_path / "other", seed=9)
    assert pack(other, target, kind="q8").written == 6
    assert header_of(target) == Header.of(other, "q8")


def test_a_finished_file_that_is_damaged_is_made_anew_with_a_word(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    packed(source, target, "q4")
    flip(target, Header.of(source, "q4").place(4))
    said: list[str] = []
    assert pack(source, target, kind="q4", say=said.append).written == 6
    assert "is damaged: layer 1, expert 1 differ" in said[0]
    assert target.read_bytes() == whole
