"""An expert file, opened: checked at once as a whole, its records on request."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from strata_nb.errors import ExpertFileError, ExpertReadError
from strata_nb.experts.descriptor import Descriptor
from strata_nb.experts.header import (
    DIGEST_BYTES,
    PREAMBLE,
    UNFINISHED,
    Header,
    digest_of,
    read_header,
    truncated,
)
from strata_nb.experts.record import RecordLayout
from strata_nb.packs import Checkpoint

Progress = Callable[[int, int], None]
_NAMED = 3  # damaged records that a message lists before it only counts


class ExpertFile(Descriptor):
    """One record for every expert of every layer of one checkpoint.

    Made by `ExpertFile.open`; any number of threads may read. Close it when none does.

    Attributes:
        path: of the file.
        header: what it says about itself.
    """

    def __init__(
        self, path: Path, descriptor: int, header: Header, table: bytes
    ) -> None:
        self.path = path
        self.header = header
        self._descriptor = descriptor
        self._table = table
        # Two threads may both find a record new: it is then looked at twice.
        self._checked = bytearray(header.records)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, checkpoint: Checkpoint | None = None
    ) -> Self:
        """Open a file and check all of it but the records.

        Args:
            path: of the file.
            checkpoint: the model it must have been made from.

        Raises:
            ExpertFileError: it is no expert file, is not finished, damaged, truncated,
                of another version or of another model; the message says which.
        """
        where = Path(path)
        descriptor = _opened(where)
        try:
            header, table = _checked(descriptor, where)
            if checkpoint is not None:
                _check_model(where, header, checkpoint)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(where, descriptor, header, table)

    def __repr__(self) -> str:
        h = self.header
        return f"ExpertFile({self.path.name!r}, {h.kind}, {h.layers} x {h.experts})"

    @property
    def layout(self) -> RecordLayout:
        """Where the fields of a record lie."""
        return self.header.layout

    @property
    def nbytes(self) -> int:
        """Of the whole file."""
        return self.header.file_bytes

    def digest(self, layer: int, expert: int) -> bytes:
        """What the table says about one record, 16 bytes."""
        start = self._record(layer, expert) * DIGEST_BYTES
        return self._table[start : start + DIGEST_BYTES]

    def read_record(self, layer: int, expert: int, views: Sequence[memoryview]) -> None:
        """Fill `views`, as long as one record together, by one positioned read.

        Raises:
            ExpertReadError: the disk fails, or the file is shorter by now.
            ValueError: no such layer or expert.
        """
        place = self.header.place(self._record(layer, expert))
        if self._descriptor < 0:
            raise self._trouble(layer, expert, "the file was closed; open it again")
        try:
            got = fill(self._descriptor, views, place)
        except OSError as error:
            raise self._trouble(
                layer, expert, f"cannot be read ({error.strerror}); check the disk"
            ) from error
        if got < self.layout.record_bytes:
            raise self._trouble(
                layer,
                expert,
                f"the file has become shorter, got {got} of {self.layout.record_bytes} "
                "bytes; open it again when nobody writes to it",
            )

    def is_checked(self, layer: int, expert: int) -> bool:
        """Whether the record was once found to be what its digest says."""
        return bool(self._checked[self._record(layer, expert)])

    def check_record(
        self, layer: int, expert: int, views: Sequence[memoryview]
    ) -> None:
        """Compare what `read_record` put into `views` with its digest.

        Raises:
            ExpertReadError: they differ.
        """
        number = self._record(layer, expert)
        self._checked[number] = digest_of(*views) == self.digest(layer, expert)
        if not self._checked[number]:
            raise self._trouble(
                layer,
                expert,
                "the record differs from its digest; copy the file again, or pack the "
                "checkpoint again",
            )

    def _trouble(self, layer: int, expert: int, why: str) -> ExpertReadError:
        return ExpertReadError(f"{self.path}: layer {layer}, expert {expert}: {why}")

    def verify(self, *, progress: Progress | None = None) -> None:
        """Read every record and compare it with its digest.

        Args:
            progress: told how many records are done, of how many.

        Raises:
            ExpertReadError: some differ; the message names layer and expert.
        """
        damaged: list[tuple[int, int]] = []
        record = memoryview(bytearray(self.layout.record_bytes))
        for number in range(self.header.records):
            layer, expert = divmod(number, self.header.experts)
            self.read_record(layer, expert, [record])
            same = digest_of(record) == self.digest(layer, expert)
            self._checked[number] = same
            if not same:
                damaged.append((layer, expert))
            if progress is not None:
                progress(number + 1, self.header.records)
        if damaged:
            named = "; ".join(f"layer {at}, expert {e}" for at, e in damaged[:_NAMED])
            more = len(damaged) - _NAMED
            raise ExpertReadError(
                f"{self.path} is damaged: {named}"
                + (f" and {more} more records differ" if more > 0 else " differ")
                + " from their digests; copy it again, or pack the checkpoint again"
            )

    def _record(self, layer: int, expert: int) -> int:
        h = self.header
        if not 0 <= layer < h.layers or not 0 <= expert < h.experts:
            raise ValueError(
                f"layer {layer}, expert {expert}: wanted a layer below {h.layers} and "
                f"an expert below {h.experts}; both count from zero"
            )
        return layer * h.experts + expert


def fill(descriptor: int, views: Sequence[memoryview], position: int) -> int:
    """Fill `views` one after another from `position` on; fewer bytes at the end.

    Returns:
        Bytes that were there.
    """
    wanted = sum(view.nbytes for view in views)
    done = os.preadv(descriptor, views, position)
    # One call moves at most 2 GB, and a signal may cut it short.
    while done < wanted:
        got = os.preadv(descriptor, list(_after(views, done)), position + done)
        if got == 0:
            break
        done += got
    return done


def _after(views: Sequence[memoryview], done: int) -> Sequence[memoryview]:
    """What is left of `views` after their first `done` bytes."""
    left = list(views)
    while left and done >= left[0].nbytes:
        done -= left.pop(0).nbytes
    return [left[0][done:], *left[1:]] if left else []


def _opened(path: Path) -> int:
    try:
        # Opening a pipe would wait for ever, so look before.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ExpertFileError(f"{path}: wanted a plain file, got something else")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ExpertFileError(
            f"{path} cannot be read ({why}); wanted an expert file, which "
            "`strata-nb pack CHECKPOINT FILE` makes"
        ) from error


def _checked(descriptor: int, path: Path) -> tuple[Header, bytes]:
    """Header and table of an open file, after looking at every byte up to the records.

    The size comes before the table: nothing larger than the file is ever asked for.
    """
    try:
        size = os.fstat(descriptor).st_size
        header = read_header(lambda at, n: os.pread(descriptor, n, at), str(path))
        if size != header.file_bytes:
            raise _other_size(path, header, size)
        start = bytearray(header.start)
        if fill(descriptor, [memoryview(start)], 0) < header.start:
            raise _other_size(path, header, os.fstat(descriptor).st_size)
    except OSError as error:
        raise ExpertFileError(
            f"{path} cannot be read ({error.strerror}); check the disk"
        ) from error
    table = bytes(start[header.table_start :][: header.records * DIGEST_BYTES])
    if start != header.beginning(table, sealed=True):
        raise _unsealed(path, start)
    return header, table


def _other_size(path: Path, header: Header, size: int) -> ExpertFileError:
    if size < header.file_bytes:
        return truncated(str(path), f"{header.file_bytes} bytes", size)
    return ExpertFileError(
        f"{path}: wanted {header.file_bytes} bytes, got {size}: something was added to "
        "it; copy it again, or pack the checkpoint again"
    )


def _unsealed(path: Path, start: bytearray) -> ExpertFileError:
    if PREAMBLE.unpack_from(start)[3] == UNFINISHED:
        return ExpertFileError(
            f"{path} is not finished; wanted what `strata-nb pack` leaves at its end, "
            "so run it again"
        )
    return ExpertFileError(
        f"{path} is damaged: its header and table differ from their seal; copy it "
        "again, or pack the checkpoint again"
    )


def _check_model(path: Path, header: Header, checkpoint: Checkpoint) -> None:
    wanted = Header.of(checkpoint, header.kind)
    if header.model_digest != wanted.model_digest:
        raise ExpertFileError(
            f"{path} holds the experts of {header.model} ({header.model_digest}), "
            f"wanted those of {checkpoint.name} ({wanted.model_digest}); pack that "
            "checkpoint, or load the one the file was made from"
        )
    theirs, ours = (
        (h.layers, h.experts, h.hidden, h.inner, h.floats) for h in (header, wanted)
    )
    if theirs != ours:
        raise ExpertFileError(
            f"{path} has {theirs} layers, experts, sizes and floats, the checkpoint "
            f"{checkpoint.name} {ours}; pack it again"
        )
