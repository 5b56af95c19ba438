"""The beginning of an expert file: what it holds, and one digest a record.

    bytes  what
        8  "STRATEXP"
        4  version, 1; all numbers little-endian
        4  bytes of the header
       16  seal: BLAKE2b of everything before the records, with zeros here; zeros in a
           file that is not finished
      ...  header: JSON of at most 64 KiB
   16 each  BLAKE2b of every record, layer by layer; zeros: not written
      ...  zeros up to a multiple of 4096, where the records begin

The records follow without holes, and nothing follows them.
"""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from strata_nb.errors import CheckpointError, ExpertFileError
from strata_nb.experts.record import (
    DENSE,
    KINDS,
    Floats,
    Kind,
    RecordLayout,
    layout_of,
)
from strata_nb.packs import Checkpoint
from strata_nb.packs.json_file import parse_object, quote

MAGIC = b"STRATEXP"
VERSION = 1
PREAMBLE = struct.Struct("<8sII16s")
DIGEST_BYTES = 16
MOST_HEADER = 1 << 16
# A table of this many is 64 MiB, and far above any model's layers times experts.
MOST_RECORDS = 1 << 22
_MOST_SIZE = 1 << 24
_PAGE = 4096
UNFINISHED = bytes(DIGEST_BYTES)


@dataclass(frozen=True)
class Header:
    """What a file holds; everything else about it follows from this."""

    kind: Kind
    floats: Floats  # type of scales and biases; a dense kind's own
    hidden: int
    inner: int
    layers: int
    experts: int
    model: str  # the checkpoint's name
    model_digest: str  # as `Checkpoint.digest`

    @classmethod
    def of(cls, checkpoint: Checkpoint, kind: Kind) -> "Header":
        """The header of a file of that kind from this checkpoint."""
        config = checkpoint.config
        own: Floats = "bfloat16" if checkpoint.dtype == "bfloat16" else "float32"
        return cls(
            kind=kind,
            floats=kind if kind in DENSE else own,
            hidden=config.hidden_size,
            inner=config.moe_intermediate_size,
            layers=config.num_hidden_layers,
            experts=config.num_experts,
            model=checkpoint.name,
            model_digest=checkpoint.digest,
        )

    @cached_property
    def layout(self) -> RecordLayout:
        """The record of this file."""
        return layout_of(
            self.kind, hidden=self.hidden, inner=self.inner, floats=self.floats
        )

    @property
    def records(self) -> int:
        """How many there are: one an expert of a layer."""
        return self.layers * self.experts

    @cached_property
    def encoded(self) -> bytes:
        """The JSON text; the same for the same header, to the byte."""
        layout = self.layout
        value = {
            "kind": self.kind,
            "group": layout.group,
            "floats": self.floats,
            "fields": [
                [f.name, f.dtype, list(f.shape), f.offset] for f in layout.fields
            ],
            "record_bytes": layout.record_bytes,
            "layers": self.layers,
            "experts": self.experts,
            "gate_up": [2 * self.inner, self.hidden],
            "down": [self.hidden, self.inner],
            "model": {"name": self.model, "digest": self.model_digest},
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    @property
    def table_start(self) -> int:
        """Where the digests begin."""
        return PREAMBLE.size + len(self.encoded)

    @property
    def start(self) -> int:
        """Where the records begin."""
        end = self.table_start + self.records * DIGEST_BYTES
        return -(-end // _PAGE) * _PAGE

    @property
    def file_bytes(self) -> int:
        """Of the finished file."""
        return self.start + self.records * self.layout.record_bytes

    def place(self, record: int) -> int:
        """Where record number `record` begins."""
        return self.start + record * self.layout.record_bytes

    def beginning(self, table: bytes, *, sealed: bool) -> bytes:
        """Everything before the records.

        Args:
            table: the digests of all records.
            sealed: as in a finished file.
        """
        seal = UNFINISHED
        for _ in range(2 if sealed else 1):
            preamble = PREAMBLE.pack(MAGIC, VERSION, len(self.encoded), seal)
            whole = (preamble + self.encoded + table).ljust(self.start, b"\0")
            seal = digest_of(whole)
        return whole


def digest_of(*parts: bytes | memoryview) -> bytes:
    """The 16 bytes that stand for `parts`, one after another."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def read_header(read: Callable[[int, int], bytes], where: str) -> Header:
    """The header of a file, checked by itself.

    Args:
        read: the bytes at a position, fewer at the file's end.
        where: names the file in errors.

    Raises:
        ExpertFileError: it is no expert file, of another version, or nonsense.
    """
    preamble = read(0, PREAMBLE.size)
    if preamble[: len(MAGIC)] != MAGIC[: len(preamble)] or not preamble:
        raise ExpertFileError(
            f"{where} is no expert file; `strata-nb pack CHECKPOINT FILE` makes one"
        )
    if len(preamble) < PREAMBLE.size:
        raise truncated(where, f"more than {PREAMBLE.size} bytes", len(preamble))
    _, version, length, _ = PREAMBLE.unpack(preamble)
    if version != VERSION:
        raise ExpertFileError(
            f"{where} is of version {version}, wanted {VERSION}; pack the checkpoint "
            "again with this strata-nb, or read it with the one that made it"
        )
    if length > MOST_HEADER:
        raise ExpertFileError(
            f"{where}: wanted a header of at most {MOST_HEADER} bytes, got {length}; "
            "it is damaged, so pack the checkpoint again"
        )
    data = read(PREAMBLE.size, length)
    if len(data) < length:
        raise truncated(where, f"a header of {length} bytes", len(data))
    try:
        header = _parse(data)
        if header.encoded != data:
            raise ValueError("fields, group or their order are not what the kind gives")
    except (ValueError, KeyError, TypeError, ExpertFileError, CheckpointError) as error:
        raise ExpertFileError(
            f"{where}: its header is not understood ({_why(error)}); it is damaged or "
            "of another program, so pack the checkpoint again"
        ) from error
    return header


def truncated(where: str, wanted: str, got: int) -> ExpertFileError:
    """The error of a file that ends too early."""
    return ExpertFileError(
        f"{where} is truncated: wanted {wanted}, got {got}; copy it again, or pack the "
        "checkpoint again"
    )


def _why(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def _parse(data: bytes) -> Header:
    value = parse_object(data, where="header")
    down, model = value["down"], value["model"]
    if not isinstance(down, list) or len(down) != 2:
        raise ValueError(f"down is {quote(down)}, wanted two sizes")
    header = Header(
        kind=_one_of(value["kind"], KINDS, "kind"),
        floats=_one_of(value["floats"], DENSE, "floats"),
        hidden=_size(down[0], "down"),
        inner=_size(down[1], "down"),
        layers=_size(value["layers"], "layers"),
        experts=_size(value["experts"], "experts"),
        model=_text(model["name"]),
        model_digest=_text(model["digest"]),
    )
    if header.records > MOST_RECORDS:
        raise ValueError(f"{header.records} records, wanted at most {MOST_RECORDS}")
    return header


def _one_of(value: object, known: tuple[Any, ...], name: str) -> Any:
    if value not in known:
        raise ValueError(
            f"{name} is {quote(value)}, wanted one of {', '.join(map(str, known))}"
        )
    return value


def _size(value: object, name: str) -> int:
    # `True` is an int to Python, and no size.
    if type(value) is not int or not 1 <= value <= _MOST_SIZE:
        raise ValueError(f"{name} is {quote(value)}, wanted 1 to {_MOST_SIZE}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the model is {quote(value)}, wanted texts")
    return value
