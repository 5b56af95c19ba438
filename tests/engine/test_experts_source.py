"""Experts from a file and from a checkpoint: the same numbers, exact reads, threads."""

import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expert_samples import checkpoint, empty, flip, packed
from strata_nb.errors import ExpertReadError
from strata_nb.experts import (
    KINDS,
    CheckpointSource,
    ExpertFile,
    ExpertSource,
    FileSource,
    Kind,
)
from strata_nb.experts.dense import fill_dense, round_bfloat16
from strata_nb.models.qwen4_exp import Weights
from strata_nb.packs import Checkpoint, open_checkpoint
from tiny import small_config, tensors, write_checkpoint, write_files

MLX = {"float32": mx.float32, "bfloat16": mx.bfloat16}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint(tmp_path_factory.mktemp("model"), hidden=32)


@pytest.fixture(scope="module")
def files(
    source: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {kind: packed(source, folder / kind, kind) for kind in KINDS}


@pytest.fixture
def spoiled(files: dict[str, Path], tmp_path: Path) -> Path:
    """A file to be damaged while it is open."""
    path = tmp_path / "spoiled.experts"
    path.write_bytes(files["q4"].read_bytes())
    return path


def taken(source: ExpertSource, layer: int, expert: int) -> list[npt.NDArray[Any]]:
    into = empty(source.layout)
    source.read(layer, expert, into)
    return into


def floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Bits of a dense field as numbers."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


# ------------------------------------------------------------------ the same numbers


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["fused", "per_expert"])
def test_both_sources_give_what_the_engine_multiplies(
    tmp_path: Path, layout: str, dtype: str, kind: Kind
) -> None:
    model = checkpoint(tmp_path / "m", hidden=40, inner=12, layout=layout, dtype=dtype)
    weights = Weights(model, MLX[kind])
    straight = CheckpointSource(model, kind=kind)
    with ExpertFile.open(packed(model, tmp_path / "f", kind), checkpoint=model) as file:
        packed_ones = FileSource(file)
        assert straight.layout == packed_ones.layout
        assert (straight.layers, straight.experts) == (2, 3)
        assert (packed_ones.layers, packed_ones.experts) == (2, 3)
        assert (straight.name, packed_ones.name) == ("m", "f")
        for layer in range(2):
            wanted = [np.array(w.astype(mx.float32)) for w in weights.experts(layer)]
            for expert in range(3):
                first = taken(straight, layer, expert)
                second = taken(packed_ones, layer, expert)
                for a, b, w in zip(first, second, wanted, strict=True):
                    np.testing.assert_array_equal(a, b)
                    np.testing.assert_array_equal(floats(a), w[expert])


def test_float16_checkpoints_are_read_as_float32(tmp_path: Path) -> None:
    config = small_config()
    write_checkpoint(tmp_path, config, seed=3)
    half = {
        f"model.{name}" if name != "lm_head.weight" else name: (
            a.astype(np.float16) if a.dtype == np.float32 else a
        )
        for name, a in tensors(config, seed=3).items()
    }
    write_files(tmp_path, half)
    model = open_checkpoint(tmp_path)
    assert model.dtype == "float16"
    straight = CheckpointSource(model)
    assert straight.layout.kind == "float32"
    gate_up, down = model.experts(1)
    got = taken(straight, 1, 1)
    np.testing.assert_array_equal(got[0], gate_up[1].T)
    np.testing.assert_array_equal(got[1], down[1].T)
    narrow = taken(CheckpointSource(model, kind="bfloat16"), 1, 1)
    rounded = mx.array(gate_up[1].T).astype(mx.bfloat16).astype(mx.float32)
    np.testing.assert_array_equal(floats(narrow[0]), np.array(rounded))


def test_the_bundled_model(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "strata_nb" / "data" / "strata-tiny"
    model = open_checkpoint(folder)
    straight = CheckpointSource(model)
    with ExpertFile.open(packed(model, tmp_path / "f", "bfloat16")) as file:
        for layer, expert in ((0, 0), (3, 77), (7, 127)):
            first, second = (
                taken(straight, layer, expert),
                taken(FileSource(file), layer, expert),
            )
            for a, b in zip(first, second, strict=True):
                np.testing.assert_array_equal(a, b)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_rounding_is_that_of_mlx(bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    got, want = (
        floats(round_bfloat16(values)),
        np.array(mx.array(values).astype(mx.bfloat16).astype(mx.float32)),
    )
    np.testing.assert_array_equal(got, want)


def test_rounding_goes_to_the_even_neighbour() -> None:
    pairs = [(0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F808001, 0x3F81)]
    pairs += [(0x7F7FFFFF, 0x7F80), (0x7F800001, 0x7FC0), (0xFFFFFFFF, 0xFFFF)]
    values = np.array([a for a, _ in pairs], np.uint32).view(np.float32)
    assert round_bfloat16(values).tolist() == [b for _, b in pairs]


def test_a_field_is_turned() -> None:
    target = np.empty((3, 2), np.float32)
    fill_dense(target, np.arange(6, dtype=np.float32).reshape(2, 3), "float32")
    assert target.tolist() == [[0, 3], [1, 4], [2, 5]]


# ------------------------------------------------------------------ how it is read


class Calls:
    """Stands for `os.preadv`: counts calls, and may cut them short."""

    def __init__(self, most: int = 1 << 40) -> None:
        self.real, self.most = os.preadv, most
        self.places: list[tuple[int, int]] = []

    def __call__(
        self, descriptor: int, views: Sequence[memoryview], place: int, *rest: int
    ) -> int:
        left, short = self.most, []
        for view in views:
            short.append(view[:left])
            left -= len(short[-1])
        got = self.real(descriptor, short, place, *rest)
        self.places.append((place, got))
        return got


@pytest.mark.parametrize("kind", KINDS)
def test_one_positioned_read_fetches_a_record(
    files: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExpertFile.open(files[kind]) as file:
        size = file.layout.record_bytes
        # The smallest kind has a hole behind its last field.
        assert any(file.layout.gaps) == (kind == "mxfp4")
        calls = Calls()
        monkeypatch.setattr(os, "preadv", calls)
        into = empty(file.layout)
        assert FileSource(file).read(1, 2, into) == size
        assert calls.places == [(file.header.place(5), size)]
        data = files[kind].read_bytes()[file.header.place(5) :]
        for array, field in zip(into, file.layout.fields, strict=True):
            assert array.tobytes() == data[field.offset :][: field.nbytes]


@pytest.mark.parametrize("most", [1, 63, 64, 1000, 5000])
def test_reads_that_are_cut_short_are_gone_on_with(
    files: dict[str, Path], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExpertFile.open(files["mxfp4"]) as file:
        wanted = taken(FileSource(file), 0, 1)
        monkeypatch.setattr(os, "preadv", Calls(most))
        got = taken(FileSource(file, check="always"), 0, 1)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layout", ["fused", "per_expert"])
def test_a_checkpoint_is_asked_for_the_bytes_of_one_expert(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = CheckpointSource(checkpoint(tmp_path, layout=layout))
    wanted = 3 * 64 * 32 * 2
    calls = Calls()
    monkeypatch.setattr(os, "preadv", calls)
    assert straight.read(1, 1, empty(straight.layout)) == wanted
    assert sum(got for _, got in calls.places) == wanted
    assert len(calls.places) == (2 if layout == "fused" else 3)


@pytest.mark.parametrize("straight", [False, True])
def test_any_number_of_threads_may_read(
    source: Checkpoint, files: dict[str, Path], straight: bool
) -> None:
    with ExpertFile.open(files["bfloat16"]) as file:
        origin = CheckpointSource(source) if straight else FileSource(file)
        wanted = {n: taken(origin, *divmod(n, 3)) for n in range(6)}

        def work(seed: int) -> int:
            into = empty(origin.layout)
            order = np.random.default_rng(seed).integers(0, 6, 200)
            for n in map(int, order):
                origin.read(*divmod(n, 3), into)
                if any((a != b).any() for a, b in zip(into, wanted[n], strict=True)):
                    return n
            return -1

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [-1] * 8


def test_bytes_go_into_whatever_can_be_written(files: dict[str, Path]) -> None:
    with ExpertFile.open(files["q4"]) as file:
        origin = FileSource(file)
        wanted = taken(origin, 1, 0)
        plain = [memoryview(bytearray(f.nbytes)) for f in file.layout.fields]
        origin.read(1, 0, plain)
        # One slot of many, in memory that MLX computes with.
        slots = [
            mx.zeros((4, *f.shape), mx.uint32 if f.dtype == "uint32" else mx.uint16)
            for f in file.layout.fields
        ]
        mx.eval(slots)
        origin.read(1, 0, [np.array(slot, copy=False)[2] for slot in slots])
        for a, b, c in zip(wanted, plain, slots, strict=True):
            assert a.tobytes() == bytes(b) == np.array(c[2]).tobytes()
            assert not np.array(c[mx.array([0, 1, 3])]).any()


# ------------------------------------------------------------------ what is refused


def test_a_damaged_record_is_named_at_its_first_read(spoiled: Path) -> None:
    with ExpertFile.open(spoiled) as file:
        flip(spoiled, file.header.place(4) + 100)
        message = r"spoiled.experts: layer 1, expert 1: the record differs from its dig"
        for _ in range(2):
            with pytest.raises(ExpertReadError, match=message):
                taken(FileSource(file), 1, 1)
        # The next one was never touched.
        taken(FileSource(file), 1, 2)


def test_what_was_checked_once_is_not_checked_again(spoiled: Path) -> None:
    with ExpertFile.open(spoiled) as file:
        file.verify()
        flip(spoiled, file.header.place(4) + 100)
        taken(FileSource(file), 1, 1)
        with pytest.raises(ExpertReadError, match="differs from its digest"):
            taken(FileSource(file, check="always"), 1, 1)
        # A later look is remembered as well.
        assert not file.is_checked(1, 1)


def test_never_is_never(spoiled: Path) -> None:
    with ExpertFile.open(spoiled) as file:
        flip(spoiled, file.header.place(4) + 100)
        taken(FileSource(file, check="never"), 1, 1)
        assert not file.is_checked(1, 1)


def test_holes_between_fields_are_read_over_and_checked(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "m", hidden=8, inner=3)
    path = packed(model, tmp_path / "f", "bfloat16")
    with ExpertFile.open(path) as file:
        assert file.layout.gaps == (32, 16)
        wanted = taken(CheckpointSource(model), 0, 1)
        for a, b in zip(taken(FileSource(file), 0, 1), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        flip(path, file.header.place(0) + 100)
        with pytest.raises(ExpertReadError, match="layer 0, expert 0: the record diff"):
            taken(FileSource(file), 0, 0)


def test_an_unknown_check_is_refused(spoiled: Path) -> None:
    with (
        ExpertFile.open(spoiled) as file,
        pytest.raises(ValueError, match="`check` is 'once', wanted 'first', 'always'"),
    ):
        FileSource(file, check="once")  # type: ignore[arg-type]


def test_quantised_experts_come_from_files_only(source: Checkpoint) -> None:
    with pytest.raises(
        ValueError, match="`kind` is 'q4', wanted float32 or bfloat16: "
    ):
        CheckpointSource(source, kind="q4")


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize(("layer", "expert"), [(2, 0), (-1, 0), (0, 3), (0, -1)])
def test_an_expert_that_is_not_there_is_refused(
    source: Checkpoint,
    files: dict[str, Path],
    straight: bool,
    layer: int,
    expert: int,
) -> None:
    with ExpertFile.open(files["bfloat16"]) as file:
        origin = CheckpointSource(source) if straight else FileSource(file)
        with pytest.raises(ValueError, match="count from zero"):
            origin.read(layer, expert, empty(origin.layout))


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("what", ["few", "many", "small", "fixed", "holes"])
def test_arrays_that_do_not_fit_are_refused(
    source: Checkpoint, files: dict[str, Path], straight: bool, what: str
) -> None:
    with ExpertFile.open(files["bfloat16"]) as file:
        origin = CheckpointSource(source) if straight else FileSource(file)
        into = empty(origin.layout)
        if what == "few":
            del into[-1]
        elif what == "many":
            into.append(into[0])
        elif what == "small":
            into[1] = into[1][1:]
        elif what == "fixed":
            into[1].flags.writeable = False
        else:
            into[1] = into[1].T
        wanted = "wanted one for each of gate_up, down" if len(into) != 2 else "down"
        with pytest.raises(ValueError, match=f"`into` has .*{wanted}"):
            origin.read(0, 0, into)


@pytest.mark.parametrize("straight", [False, True])
def test_a_disk_that_fails_is_named(
    source: Checkpoint,
    files: dict[str, Path],
    straight: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with ExpertFile.open(files["bfloat16"]) as file:
        origin = CheckpointSource(source) if straight else FileSource(file)
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(ExpertReadError, match=r"layer 1, expert 0: .*Input/output"):
            origin.read(1, 0, empty(origin.layout))


def test_a_checkpoint_that_was_written_to_is_named(tmp_path: Path) -> None:
    straight = CheckpointSource(checkpoint(tmp_path))
    with (tmp_path / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(
        ExpertReadError, match=r"layer 0, expert 1: .* changed since it"
    ):
        straight.read(0, 1, empty(straight.layout))
