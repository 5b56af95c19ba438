"""An expert file in the making, beside its target: it outlives an interruption."""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from strata_nb.errors import ExpertFileError
from strata_nb.experts.descriptor import Descriptor
from strata_nb.experts.file import fill
from strata_nb.experts.header import (
    DIGEST_BYTES,
    MAGIC,
    PREAMBLE,
    UNFINISHED,
    Header,
    digest_of,
    read_header,
)
from strata_nb.files import explained, mode_to_keep, resolved, sync_folder

_TRIES = 8


class Partial(Descriptor):
    """The unfinished file for one target and header; only one process has it.

    A record goes to the disk before its digest goes into the table, and a digest is
    believed only where the bytes have it: so whatever was cut short, by Ctrl-C, a full
    disk or a power cut, what is kept is whole. Closed, it stays for the next time, and
    others may have it.

    Attributes:
        target: the file it is going to be.
        path: the file it is.
        thrown_away: what was found there and did not fit, in words; None: nothing.
    """

    def __init__(self, target: str | os.PathLike[str], header: Header) -> None:
        """Take up what is there, or begin.

        Raises:
            ExpertFileError: another process is at it, or something else has its name.
            OSError: it cannot be written.
        """
        self.target = resolved(target)
        self.path = _path_beside(self.target)
        self.thrown_away: str | None = None
        self.done = 0  # records that this run has found or written
        self._header = header
        with self._explained():
            self._mode = mode_to_keep(self.target)
            self._descriptor = self._locked()
        try:
            with self._explained():
                self._table = self._take_up()
        except BaseException:
            self.close()
            raise

    def holds(self, record: int, spare: memoryview) -> bool:
        """Whether the record is there and whole; `spare` is overwritten."""
        digest = self._table[record * DIGEST_BYTES :][:DIGEST_BYTES]
        if digest == UNFINISHED:
            return False
        with self._explained():
            got = fill(self._descriptor, [spare], self._header.place(record))
        found = got == len(spare) and digest_of(spare) == digest
        self.done += found
        return found

    def write(self, record: int, data: memoryview) -> None:
        """Write one record, then its digest.

        Raises:
            OSError: the disk is full or fails; all records before stay.
        """
        digest, place = digest_of(data), record * DIGEST_BYTES
        with self._explained():
            _write(self._descriptor, data, self._header.place(record))
            _write(self._descriptor, digest, self._header.table_start + place)
        self._table[place : place + DIGEST_BYTES] = digest
        self.done += 1

    def finish(self) -> None:
        """Seal the file, bring it to the disk and give it its name.

        Raises:
            OSError: the target is as it was; the partial file stays.
        """
        assert self.done == self._header.records
        with self._explained():
            sealed = self._header.beginning(bytes(self._table), sealed=True)
            _write(self._descriptor, sealed, 0)
            os.ftruncate(self._descriptor, self._header.file_bytes)
            # Before the rename, or a power cut may leave the new name half empty.
            os.fsync(self._descriptor)
            if self._mode is not None:
                os.fchmod(self._descriptor, self._mode)
            self.path.replace(self.target)
        sync_folder(self.target.parent)
        self.close()

    def _locked(self) -> int:
        """A descriptor of the file that has the name, held by no other process."""
        for _ in range(_TRIES):
            try:
                descriptor = os.open(
                    self.path,
                    os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                    0o666,
                )
            except OSError as error:
                if self.path.is_symlink():
                    raise _foreign(self.path) from error
                raise
            try:
                _lock(descriptor, self.path)
                # It may have been finished, and so renamed, since it was opened.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), self.path.lstat()):
                        return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise ExpertFileError(
            f"{self.path} is written and renamed by others again and again; wait for "
            "them, or choose another name"
        )

    def _take_up(self) -> bytearray:
        """The table of what is there; all zeros after a new beginning."""
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise _foreign(self.path)
        start = bytearray(self._header.start)
        got = fill(self._descriptor, [memoryview(start)], 0)
        if not MAGIC.startswith(start[: min(got, len(MAGIC))]):
            raise _foreign(self.path)
        table = start[self._header.table_start :][: self._header.records * DIGEST_BYTES]
        fresh = bytearray(len(table))
        begun = self._header.beginning(bytes(fresh), sealed=False)
        # A file may be sealed and lack only its name.
        sealed = self._header.beginning(bytes(table), sealed=True)
        begins = begun[: self._header.table_start]
        if got == len(start) and (start.startswith(begins) or start == sealed):
            _write(self._descriptor, begun[: PREAMBLE.size], 0)
            return table
        if got:
            self.thrown_away = self._described()
            os.ftruncate(self._descriptor, 0)
        _write(self._descriptor, begun, 0)
        return fresh

    def _described(self) -> str:
        """What the unfit file was for."""
        try:
            found = read_header(
                lambda at, n: os.pread(self._descriptor, n, at), self.path.name
            )
        except ExpertFileError:
            what = "cannot be read"
        else:
            what = f"was for {found.kind} of {found.model} ({found.model_digest})"
        return f"the unfinished {self.path.name} {what}; it is thrown away"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the disk, with the target's name and what is left."""
        try:
            yield
        except OSError as error:
            said = explained(error, self.target)
            words = said.strerror or str(said)
            if self.done:
                words += (
                    f"; {self.done} of {self._header.records} experts are kept in "
                    f"{self.path.name}: the same command goes on from there"
                )
            if said.errno is None:
                raise OSError(words) from error
            raise OSError(said.errno, words) from error


def _path_beside(target: Path) -> Path:
    """The same name every time for one target, too short for any system to refuse."""
    name = os.fsencode(target.name)
    start = name[:100].decode("utf-8", "ignore")
    mark = hashlib.blake2b(name, digest_size=6).hexdigest()
    return target.with_name(f".{start}.{mark}.part")


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ExpertFileError(
            f"{path} is being written by another process; wait for it, or choose "
            "another name"
        ) from error
    except OSError:
        # Some network disks know no locks; two writers there would write the same.
        return


def _foreign(path: Path) -> ExpertFileError:
    return ExpertFileError(
        f"{path} is no unfinished expert file, but has the name of one; move it away"
    )


def _write(descriptor: int, data: bytes | memoryview, position: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, position)
        position += done
        view = view[done:]
