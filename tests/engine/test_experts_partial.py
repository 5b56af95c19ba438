"""A file in the making: taken up again after anything, and never two at once."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expert_samples import checkpoint, flip, interrupted, packed
from helpers import tiny_disk
from strata_nb.errors import ExpertFileError
from strata_nb.experts import ExpertFile
from strata_nb.experts.header import Header
from strata_nb.experts.pack import pack
from strata_nb.experts.partial import Partial
from strata_nb.packs import Checkpoint


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


# ------------------------------------------------------------------ taken up again


@pytest.mark.parametrize("at", range(1, 7))
def test_an_interrupted_run_is_gone_on_with(
    source: Checkpoint, target: Path, whole: bytes, at: int
) -> None:
    target.write_bytes(packed(source, target.with_name("old"), "q2").read_bytes())
    old = target.read_bytes()
    partial = interrupted(source, target, at)
    assert target.read_bytes() == old
    said: list[str] = []
    done = pack(source, target, kind="q4", say=said.append)
    assert (done.kept, done.written, said) == (at, 6 - at, [])
    assert target.read_bytes() == whole
    assert not partial.exists()


def test_a_killed_process_loses_one_expert_at_most(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    code = (
        "import os, signal, sys\n"
        "from strata_nb.experts.pack import pack\n"
        "from strata_nb.packs import open_checkpoint\n"
        "def kill(done, total):\n"
        "    if done == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        "pack(open_checkpoint(sys.argv[1]), sys.argv[2], kind='q4', progress=kill)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(source.path), str(target)])
    assert run.returncode == -signal.SIGKILL
    assert not target.exists()
    assert pack(source, target, kind="q4").kept == 4
    assert target.read_bytes() == whole


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_happens_to_a_partial_file_the_result_is_right(
    source: Checkpoint, tmp_path: Path, whole: bytes, data: st.DataObject
) -> None:
    target = Path(tempfile.mkdtemp(dir=tmp_path)) / "model.experts"
    partial = interrupted(source, target, data.draw(st.integers(1, 6)))
    length = partial.stat().st_size
    if data.draw(st.booleans()):
        os.truncate(partial, data.draw(st.integers(0, length) | st.integers(0, 8)))
    elif data.draw(st.booleans()):
        os.truncate(partial, length + data.draw(st.integers(1, 50_000)))
    for _ in range(data.draw(st.integers(0, 3))):
        if end := partial.stat().st_size:
            # The first eight bytes say that it is ours at all.
            place = data.draw(st.integers(min(8, end - 1), end - 1))
            flip(partial, place, data.draw(st.integers(1, 255)) if place >= 8 else 0)
    pack(source, target, kind="q4")
    assert target.read_bytes() == whole
    assert list(target.parent.iterdir()) == [target]


def test_a_damaged_record_of_a_partial_file_is_made_again(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    partial = interrupted(source, target, 5)
    flip(partial, Header.of(source, "q4").place(2) + 9)
    done = pack(source, target, kind="q4")
    assert (done.kept, done.written) == (4, 2)
    assert target.read_bytes() == whole


def test_what_was_in_a_hole_of_a_damaged_record_does_not_stay(
    tmp_path: Path, target: Path
) -> None:
    # Rows of 32: the last field ends 32 bytes before its record does.
    model = checkpoint(tmp_path / "m", hidden=32)
    wanted = packed(model, tmp_path / "w", "mxfp4").read_bytes()
    partial = interrupted(model, target, 2, kind="mxfp4")
    flip(partial, Header.of(model, "mxfp4").place(1) - 1)
    assert pack(model, target, kind="mxfp4").kept == 1
    assert target.read_bytes() == wanted


def test_a_partial_file_of_another_kind_is_thrown_away_with_a_word(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    large = interrupted(source, target, 6, kind="q8").stat().st_size
    # Its room is given back at once.
    assert interrupted(source, target, 1).stat().st_size < large / 2
    interrupted(source, target, 3, kind="q8")
    said: list[str] = []
    assert pack(source, target, kind="q4", say=said.append).kept == 0
    (words,) = said
    assert f"was for q8 of {source.name} ({source.digest}); it is thrown aw" in words
    assert target.read_bytes() == whole


def test_a_partial_file_of_another_model_is_thrown_away_with_a_word(
    source: Checkpoint, target: Path, tmp_path: Path, whole: bytes
) -> None:
    other = checkpoint(tmp_path / "other", seed=8)
    interrupted(other, target, 3)
    said: list[str] = []
    assert pack(source, target, kind="q4", say=said.append).kept == 0
    assert f"was for q4 of other ({other.digest})" in said[0]
    assert target.read_bytes() == whole


def test_a_partial_file_that_cannot_be_read_is_thrown_away_with_a_word(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    flip(interrupted(source, target, 3), 60)
    said: list[str] = []
    assert pack(source, target, kind="q4", say=said.append).kept == 0
    assert "cannot be read; it is thrown away" in said[0]
    assert target.read_bytes() == whole


def test_what_only_lacks_its_name_gets_it(
    source: Checkpoint,
    target: Path,
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match=r"6 of 6 experts are kept in \.model"):
            pack(source, target, kind="q4")
    assert not target.exists()
    partial = interrupted(source, target, 1)
    # While somebody is at it, it is no finished file.
    with pytest.raises(ExpertFileError, match="is not finished"):
        ExpertFile.open(partial)
    done = pack(source, target, kind="q4")
    assert (done.kept, done.written) == (6, 0)
    assert target.read_bytes() == whole


# ------------------------------------------------------------------ the disk


def test_a_full_disk_leaves_the_old_file_and_what_was_done(
    tmp_path: Path, target: Path
) -> None:
    # Its beginning alone is longer than the small disk.
    model = checkpoint(tmp_path / "m")
    old = packed(model, target, "q2").read_bytes()
    message = r"could not write .*model.experts: .*free some space .*nothing has chan"
    with pytest.raises(OSError, match=message) as caught, tiny_disk():
        pack(model, target, kind="q4")
    assert caught.value.errno == errno.EFBIG
    assert target.read_bytes() == old
    assert pack(model, target, kind="q4").written == 6


def test_a_disk_that_fills_up_keeps_whole_experts(
    source: Checkpoint, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, limit = os.pwrite, Header.of(source, "q4").place(3) + 1000

    def small(descriptor: int, data: Any, place: int) -> int:
        room = limit - place
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, memoryview(data)[:room], place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", small)
        message = r"No space left .*; 3 of 6 experts are kept in \.model.*: the same co"
        with pytest.raises(OSError, match=message) as caught:
            pack(source, target, kind="q4")
    assert caught.value.errno == errno.ENOSPC
    assert not target.exists()
    assert pack(source, target, kind="q4").kept == 3
    assert target.read_bytes() == whole


def test_all_is_on_the_disk_before_the_name(
    source: Checkpoint, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, replace, write = os.fsync, Path.replace, os.pwrite

    def fsync(descriptor: int) -> None:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        events.append("file" if regular else "folder")
        sync(descriptor)

    def rename(path: Path, to: Path) -> Path:
        events.append("rename")
        return replace(path, to)

    def pwrite(descriptor: int, data: Any, place: int) -> int:
        events.append("write")
        return write(descriptor, data, place)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    monkeypatch.setattr(os, "pwrite", pwrite)
    pack(source, target, kind="q4")
    assert events == ["write"] * (1 + 2 * 6 + 1) + ["file", "rename", "folder"]


def test_permissions_and_links_stay(
    source: Checkpoint, target: Path, whole: bytes
) -> None:
    packed(source, target, "q2")
    target.chmod(0o640)
    link = target.with_name("link")
    link.symlink_to(target)
    pack(source, link, kind="q4")
    assert link.is_symlink()
    assert target.read_bytes() == whole
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_very_long_name_works(source: Checkpoint, tmp_path: Path) -> None:
    for name in ("n" * 255, "😀" * 60):
        assert packed(source, tmp_path / name, "q4").is_file()


# ------------------------------------------------------------------ others


@pytest.mark.parametrize("what", ["text", "link", "folder"])
def test_something_else_with_the_partial_files_name_is_left_alone(
    source: Checkpoint, target: Path, what: str
) -> None:
    partial = interrupted(source, target, 1)
    partial.unlink()
    thesis = target.with_name("thesis")
    thesis.write_bytes(b"a thesis")
    if what == "text":
        partial.write_bytes(b"a thesis")
    elif what == "link":
        partial.symlink_to(thesis)
    else:
        partial.mkdir()
    kinds = (ExpertFileError, OSError)
    with pytest.raises(kinds, match=r"no unfinished expert file|Is a directory"):
        pack(source, target, kind="q4")
    assert thesis.read_bytes() == b"a thesis"
    assert what == "folder" or partial.read_bytes() == b"a thesis"


def test_two_processes_do_not_write_one_file(source: Checkpoint, target: Path) -> None:
    partial = interrupted(source, target, 2)
    with partial.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        message = "is being written by another process; wait for it"
        with pytest.raises(ExpertFileError, match=message):
            pack(source, target, kind="q4")
    assert pack(source, target, kind="q4").kept == 2


def test_a_file_that_was_finished_meanwhile_is_not_written_to(
    source: Checkpoint, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = interrupted(source, target, 2)
    real = os.open

    def late(path: Any, *more: Any) -> int:
        descriptor = real(path, *more)
        if Path(path) == partial and partial.exists() and not target.exists():
            # The other process is done between our opening and our locking.
            partial.replace(target)
        return descriptor

    monkeypatch.setattr(os, "open", late)
    header = Header.of(source, "q4")
    with Partial(target, header) as ours:
        inode = os.fstat(ours._descriptor).st_ino
    assert inode != target.stat().st_ino


def test_a_system_without_locks_still_packs(
    source: Checkpoint, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    pack(source, target, kind="q4")
    assert target.read_bytes() == whole
