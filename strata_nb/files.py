"""Replace a file whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file beside `path`; it takes `path`'s place when the block ends well.

    Whatever happens inside (a full disk, an exception, Ctrl-C, a killed process),
    `path` holds either all of the old content or all of the new one. A symbolic link is
    followed, an existing file keeps its permissions.

    Args:
        path: the file to make or replace; its folder must exist.

    Yields:
        The new file, open for writing bytes.

    Raises:
        OSError: the subclass that fits the errno; the message says that `path` is as it
            was.
    """
    target = resolved(path)
    try:
        mode = mode_to_keep(target)
    except OSError as error:
        raise explained(error, target) from error
    beside = _name_beside(target)
    try:
        # O_EXCL: never write through a file or link that somebody put there. Inside the
        # `try`: Ctrl-C may come after the file is made and before its number is here.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            # Before the rename, or a power cut may leave the new name empty.
            os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException as error:
        # A file that was there already is somebody else's.
        if not (isinstance(error, FileExistsError) and error.filename == str(beside)):
            with contextlib.suppress(OSError):
                beside.unlink()
        # An OSError with another file's name is the block's own trouble, not ours.
        if isinstance(error, OSError) and error.filename in (None, str(beside)):
            raise explained(error, target) from error
        raise
    sync_folder(target.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Make `path` hold exactly `data`; promises and raises what `replacing` does."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Make `path` hold exactly `text` in UTF-8, line ends as they are in `text`."""
    write_bytes(path, text.encode())


def refuse_name(path: str | os.PathLike[str]) -> None:
    """Raise now what writing `path` would raise for its name, before long work.

    Raises:
        OSError: its folder is missing or closed to us, or it is no file.
    """
    target = resolved(path)
    try:
        mode_to_keep(target)
        # Folders say themselves why they cannot be looked into.
        if not stat.S_ISDIR(target.parent.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise explained(error, target) from error


def resolved(path: str | os.PathLike[str]) -> Path:
    """Where the links of `path` lead."""
    try:
        return Path(path).resolve()
    # Python 3.11 and 3.12 say neither of these as an OSError.
    except RuntimeError as error:
        loop = OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        raise explained(loop, Path(path)) from error
    except ValueError as error:
        raise explained(OSError(errno.EINVAL, str(error)), Path(path)) from error


def _name_beside(target: Path) -> Path:
    """A new name in the folder of `target`, too short for any file system to refuse."""
    # Counted in bytes, as most systems do; half a letter at the cut is dropped.
    start = os.fsencode(target.name)[:100].decode("utf-8", "ignore")
    return target.with_name(f".{start}.{secrets.token_hex(6)}.part")


def mode_to_keep(target: Path) -> int | None:
    """Permissions of the file at `target`, None where there is none yet."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        # Replacing a folder fails, replacing a device (`/dev/null`) would destroy it.
        raise OSError(f"it is not a regular file; name a file in {target.parent}")
    return stat.S_IMODE(mode)


def explained(error: OSError, target: Path) -> OSError:
    """The same error, saying which file was wanted and that it is as it was."""
    why = error.strerror or str(error)
    remedy = "" if error.errno is None else f"; {_remedy(error, target)}"
    # `ascii`, as in a listing: a NUL or half a letter cannot be printed.
    shown = str(target) if str(target).isprintable() else ascii(str(target))
    message = f"could not write {shown}: {why}{remedy}; nothing has changed there"
    if error.errno is None:
        return OSError(message)
    return OSError(error.errno, message)


_REMEDIES = {
    errno.ELOOP: "its links lead in a circle: name a file, or remove them",
    errno.EINVAL: "choose another name",
    errno.EILSEQ: "choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EROFS: "choose a disk that can be written to",
}


def _remedy(error: OSError, target: Path) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"make the folder {target.parent} first"
    if isinstance(error, PermissionError):
        return f"choose a folder you may write in instead of {target.parent}"
    return _REMEDIES.get(error.errno or 0, "free some space or choose another disk")


def sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut, where the system can."""
    # Windows opens no folders, some network disks sync none: the file is there anyhow.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
