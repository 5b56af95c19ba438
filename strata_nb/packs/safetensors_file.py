"""One safetensors file: its header, checked in full, and views into its memory map."""

import contextlib
import math
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strata_nb.errors import CheckpointError
from strata_nb.packs.json_file import MAX_BYTES, parse_object, quote

# Bytes per element of every type the format has in whole bytes.
_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
# How the bits of the types that are read look to NumPy, which has no bfloat16.
BITS = {"F32": "<f4", "BF16": "<u2", "F16": "<u2", "I64": "<i8"}
DTYPE_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "I64": "int64"}


class Entry(NamedTuple):
    """One tensor of a header; offsets in bytes from the start of the data."""

    dtype: str  # as the format spells it: "F32", "BF16", …
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class SafetensorsFile:
    """An opened file: nothing but its header has been read."""

    path: Path
    size: int  # bytes of the whole file
    modified: int  # when it was last written to, ns
    data_start: int  # where the offsets count from
    header: bytes
    entries: dict[str, Entry]

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the file that was checked, closed after the block.

        Raises:
            CheckpointError: the file is gone, or another one by now.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise self._changed(error.strerror) from error
        try:
            found = os.fstat(descriptor)
            if found.st_size != self.size:
                raise self._changed(f"{found.st_size} bytes, {self.size} before")
            if found.st_mtime_ns != self.modified:
                raise self._changed("it was written to")
            yield descriptor
        finally:
            os.close(descriptor)

    @cached_property
    def _kept_open(self) -> int:
        with self.opened() as descriptor:
            kept = os.dup(descriptor)
        weakref.finalize(self, os.close, kept)
        return kept

    @cached_property
    def _maps(self) -> "weakref.WeakValueDictionary[str, npt.NDArray[np.uint8]]":
        # A map has a descriptor of its own, and a checkpoint may have more files than
        # a process may open (256 on macOS): it lives as long as views of it do.
        return weakref.WeakValueDictionary()

    def _map(self) -> npt.NDArray[np.uint8]:
        whole = self._maps.get("whole")
        if whole is None:
            with self.opened() as descriptor:
                try:
                    # The length is the one that was checked: a file that shrank before
                    # this is refused here; one that shrinks later is a bus error.
                    mapped = mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ)
                except (OSError, ValueError) as error:
                    raise self._changed(error) from error
            whole = self._maps["whole"] = np.frombuffer(mapped, np.uint8)
        return whole

    def _changed(self, reason: object) -> CheckpointError:
        return CheckpointError(
            f"{self.path.name} changed since it was opened ({reason}); wanted the same "
            "file, so open the checkpoint again"
        )

    def view(self, entry: Entry) -> npt.NDArray[Any]:
        """The stored bits of one tensor, read-only, not loaded before they are used."""
        start, stop = self.data_start + entry.start, self.data_start + entry.stop
        return self._map()[start:stop].view(BITS[entry.dtype]).reshape(entry.shape)

    def read(self, entry: Entry) -> npt.NDArray[Any]:
        """A fresh array of the stored bits of one tensor."""
        bits = np.empty(entry.shape, BITS[entry.dtype])
        with self.opened() as descriptor:
            self.fill(byte_view(bits), entry.start, descriptor)
        return bits

    def read_into(self, target: memoryview, start: int) -> None:
        """As `fill`, from a descriptor that stays open: for small reads without end."""
        self.fill(target, start, self._kept_open)

    def fill(self, target: memoryview, start: int, descriptor: int) -> None:
        """Fill `target` with the bytes from `start` of the data on.

        Plain reads, no memory map: the system then reads no more around a lone row
        than it must, and a file that has shrunk is an error and not a crash.

        Raises:
            CheckpointError: the file ends before `target` is full.
        """
        position = self.data_start + start
        # One call moves at most 2 GB.
        while target:
            got = os.preadv(descriptor, [target], position)
            if got == 0:
                raise self._changed(f"it ends at byte {position}")
            position += got
            target = target[got:]


class Reads(contextlib.ExitStack):
    """Many reads from many files: each is opened once, all are closed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptors: dict[Path, int] = {}

    def fill(self, target: memoryview, file: SafetensorsFile, start: int) -> None:
        """Fill `target` with the bytes from `start` of the data of `file` on."""
        if file.path not in self._descriptors:
            self._descriptors[file.path] = self.enter_context(file.opened())
        file.fill(target, start, self._descriptors[file.path])


def byte_view(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, to be written to."""
    assert array.flags.c_contiguous  # else reshape would make a copy
    return array.reshape(-1).view(np.uint8).data


def widen(bits: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Stored bits with narrow floats as float32, exactly; all else is handed back."""
    if dtype == "bfloat16":
        wide = bits.astype(np.uint32)
        wide <<= 16  # in place: one tensor can be most of a small machine
        return wide.view(np.float32)
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float32)
    return bits


def open_safetensors(path: Path) -> SafetensorsFile:
    """Read and check the header of one file.

    Raises:
        CheckpointError: the file is truncated or its header does not describe it.
    """
    header, found = _read_header(path)
    size = found.st_size
    data_start = 8 + len(header)
    names = parse_object(header, where=f"{path.name}: header")
    _check_metadata(path.name, names.pop("__metadata__", {}))
    entries = {name: _entry(path.name, name, value) for name, value in names.items()}
    _check_extents(path.name, entries, size - data_start)
    return SafetensorsFile(path, size, found.st_mtime_ns, data_start, header, entries)


def _read_header(path: Path) -> tuple[bytes, os.stat_result]:
    """The header's bytes, and what the system says about the file."""
    try:
        # Opening a pipe would wait for ever, so look before.
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(
                f"{path.name}: wanted a plain file, got something else; remove it"
            )
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            size = found.st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise CheckpointError(
                    f"{path.name} is truncated: its header wants {8 + length} bytes, "
                    f"got {size}; download it again"
                )
            if length > MAX_BYTES:
                raise CheckpointError(
                    f"{path.name}: wanted a header of at most {MAX_BYTES} bytes, "
                    f"got {length}; this is no safetensors file"
                )
            return file.read(length), found
    except OSError as error:
        raise CheckpointError(
            f"{path.name} cannot be read ({error.strerror}); wanted a readable file in "
            f"{path.parent}, so check its rights"
        ) from error


def _check_metadata(file: str, metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        raise CheckpointError(
            f"{file}: `__metadata__` wants texts only; write the file again"
        )


def _entry(file: str, name: str, value: Any) -> Entry:
    """Check one tensor by itself: its type, its shape, and that its bytes fit both."""
    fault = _fault(value)
    if fault:
        raise CheckpointError(f"{file}: tensor {quote(name)}: {fault}")
    return Entry(value["dtype"], tuple(value["shape"]), *value["data_offsets"])


def _fault(value: Any) -> str:
    """What is wrong with one tensor's description; empty when nothing is."""
    if not isinstance(value, dict):
        return f"wanted an object, got {quote(value)}; write the file again"
    if value.keys() != {"dtype", "shape", "data_offsets"}:
        return (
            "wanted the keys dtype, shape and data_offsets, got "
            f"{quote(list(value))}; write the file again"
        )
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        return (
            f"dtype {quote(dtype)} is unknown; wanted one of {', '.join(_ITEM_BYTES)}"
        )
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        return (
            "wanted a shape and two offsets of whole numbers from zero, got "
            f"{quote(shape)} and {quote(offsets)}; write the file again"
        )
    wanted, got = math.prod(shape) * _ITEM_BYTES[dtype], offsets[1] - offsets[0]
    if got != wanted:
        return f"{dtype} {shape} wants {wanted} bytes, got {got}; write the file again"
    return ""


def _naturals(value: object) -> bool:
    """Whether `value` is a short list of whole numbers that a file can have."""
    return (
        isinstance(value, list)
        and len(value) <= 8
        and all(type(item) is int and 0 <= item < 1 << 62 for item in value)
    )


def _check_extents(file: str, entries: dict[str, Entry], data_bytes: int) -> None:
    """Check that the tensors tile the data: no overlap, no hole, no end past it."""
    end, before = 0, ""
    for name, entry in sorted(entries.items(), key=lambda pair: _extent(pair[1])):
        if entry.start < end:
            raise CheckpointError(
                f"{file}: tensors {quote(before)} and {quote(name)} overlap at byte "
                f"{entry.start} of the data; write the file again"
            )
        if entry.start > end:
            raise CheckpointError(
                f"{file}: bytes {end} to {entry.start} of the data, before "
                f"{quote(name)}, belong to no tensor; write the file again"
            )
        end, before = entry.stop, name
        if end > data_bytes:
            raise CheckpointError(
                f"{file} is truncated: tensor {quote(name)} ends at byte {end} of the "
                f"data, got {data_bytes} bytes; download it again"
            )
    if end != data_bytes:
        raise CheckpointError(
            f"{file}: the tensors end at byte {end}, but there are {data_bytes} bytes "
            "of data; write the file again"
        )


def _extent(entry: Entry) -> tuple[int, int]:
    return entry.start, entry.stop
