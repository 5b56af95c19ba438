"""A file is replaced whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from helpers import tiny_disk
from strata_nb import files
from strata_nb.files import replacing, write_bytes, write_text


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file with content that must not get lost."""
    path = tmp_path / "kept.bin"
    path.write_bytes(b"old")
    return path


def only(path: Path) -> bool:
    """Nothing but `path` is in its folder."""
    return list(path.parent.iterdir()) == [path]


def test_a_new_file_appears_whole(tmp_path: Path) -> None:
    write_bytes(tmp_path / "new.bin", b"\x00\r\n" * 5000)
    assert (tmp_path / "new.bin").read_bytes() == b"\x00\r\n" * 5000
    assert only(tmp_path / "new.bin")


def test_text_is_utf8_with_its_own_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "new.txt", "ü\n✓\r\n")
    assert (tmp_path / "new.txt").read_bytes() == "ü\n✓\r\n".encode()


def test_the_old_content_stays_until_the_block_ends(old: Path) -> None:
    with replacing(old) as file:
        file.write(b"new")
        file.flush()
        assert old.read_bytes() == b"old"
    assert old.read_bytes() == b"new"
    assert only(old)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_block_keeps_the_old_file(
    old: Path, kind: type[BaseException]
) -> None:
    # The test's subject is what happens between a write and an exception.
    with pytest.raises(kind, match="stop"), replacing(old) as file:  # noqa: PT012
        file.write(b"half")
        raise kind("stop")
    assert old.read_bytes() == b"old"
    assert only(old)


def test_the_blocks_own_file_trouble_is_not_renamed(old: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(old):
        (old.parent / "elsewhere").read_bytes()
    assert caught.value.filename == str(old.parent / "elsewhere")
    assert "nothing has changed" not in str(caught.value)
    assert only(old)


def test_a_full_disk_keeps_the_old_file(old: Path) -> None:
    message = r"free some space .* nothing has changed"
    with pytest.raises(OSError, match=message) as e, tiny_disk():
        write_bytes(old, b"x" * 5000)
    assert e.value.errno == errno.EFBIG
    assert str(old) in str(e.value)
    assert old.read_bytes() == b"old"
    assert only(old)


def test_a_disk_that_fails_at_the_end_keeps_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"could not write .*kept.bin: No space left"):
        write_bytes(old, b"new")
    assert old.read_bytes() == b"old"
    assert only(old)


def test_the_file_is_on_the_disk_before_it_has_its_name(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        events.append("file" if regular else "folder")
        sync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    write_bytes(old, b"new")
    assert events == ["file", "rename", "folder"]


def test_a_folder_without_write_permission_is_named() -> None:
    # root may write everywhere: a child without its powers tries.
    code = (
        "import os, sys\n"
        "from strata_nb.files import write_bytes\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "try: write_bytes(sys.argv[1] + '/new.bin', b'x')\n"
        "except PermissionError as error: print(error)\n"
    )
    # Not `tmp_path`: the way down to it is closed to others.
    with tempfile.TemporaryDirectory() as locked:
        Path(locked).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", code, locked],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert f"choose a folder you may write in instead of {locked}" in done.stdout
        assert "nothing has changed there" in done.stdout
        assert list(Path(locked).iterdir()) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"make the folder .*/none first"):
        write_bytes(tmp_path / "none" / "new.bin", b"x")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "special"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    before = path.stat()
    with pytest.raises(OSError, match="it is not a regular file; name a file in"):
        write_bytes(path, b"x")
    assert path.stat() == before
    assert only(path)


def test_permissions_of_an_old_file_stay(old: Path) -> None:
    old.chmod(0o640)
    write_bytes(old, b"new")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_bytes(tmp_path / "new", b"")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays_a_link(old: Path) -> None:
    link = old.parent / "link"
    link.symlink_to(old)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"


def test_a_very_long_name_works(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_bytes(path, b"new")
    assert only(path)


def test_a_long_name_of_wide_letters_works(tmp_path: Path) -> None:
    # 240 bytes: allowed, but with 19 more around it no longer.
    for name in ("😀" * 60, "a" + "😀" * 60, os.fsdecode(b"\xff" * 250)):
        path = tmp_path / name
        write_bytes(path, b"new")
        assert path.read_bytes() == b"new"
        assert only(path)
        path.unlink()


def test_an_interrupt_while_the_file_is_made_leaves_none(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = os.open, []

    def opened(*args: Any) -> int:
        made.append(real(*args))
        signal.raise_signal(signal.SIGINT)
        return made[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        with pytest.raises(KeyboardInterrupt):
            write_bytes(old, b"new")
    os.close(made[0])
    assert old.read_bytes() == b"old"
    assert only(old)


def test_a_file_that_is_there_already_is_left_alone(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_name_beside", lambda target: target)
    with pytest.raises(FileExistsError, match="could not write"):
        write_bytes(old, b"new")
    assert old.read_bytes() == b"old"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=r"could not write .*/a: .* in a circle") as e:
        write_bytes(tmp_path / "a", b"new")
    assert e.value.errno == errno.ELOOP


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"a\\x00b': .*; choose another name") as e:
        write_bytes(tmp_path / "a\0b", b"new")
    assert e.value.errno == errno.EINVAL
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="choose a shorter name; nothing has changed"):
        write_bytes(tmp_path / ("n" * 256), b"new")


def test_a_disk_that_is_only_read_is_refused(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match=r"kept.bin: .*; choose a disk that can be writ"):
        write_bytes(old, b"new")
    assert old.read_bytes() == b"old"
