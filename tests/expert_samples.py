"""Small checkpoints whose experts can be quantised, and files made of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from strata_nb.experts import ExpertFile, RecordLayout
from strata_nb.experts.header import PREAMBLE, Header, digest_of
from strata_nb.experts.pack import pack
from strata_nb.packs import Checkpoint, open_checkpoint
from tiny import small_config, write_checkpoint


def checkpoint(
    folder: Path,
    *,
    hidden: int = 64,
    inner: int = 32,
    experts: int = 3,
    seed: int = 5,
    layout: str = "per_expert",
    dtype: str = "bfloat16",
) -> Checkpoint:
    """Two layers of a few experts; 32 divides their sizes unless asked otherwise."""
    config = small_config(
        hidden_size=hidden, moe_intermediate_size=inner, num_experts=experts
    )
    write_checkpoint(folder, config, seed, layout=layout, dtype=dtype)
    return open_checkpoint(folder)


def packed(source: Checkpoint, path: Path, kind: str) -> Path:
    """The finished file of one kind."""
    return pack(source, path, kind=kind).path


def empty(layout: RecordLayout) -> list[npt.NDArray[Any]]:
    """One array a field, full of what no record holds."""
    return [np.full(f.shape, 0x5A, f.dtype) for f in layout.fields]


def contents(path: Path) -> list[bytes]:
    """The bytes of every record, checked."""
    with ExpertFile.open(path) as file:
        file.verify()
        header = file.header
    data = path.read_bytes()
    size = header.layout.record_bytes
    places = map(header.place, range(header.records))
    return [data[start : start + size] for start in places]


def forged(path: Path, change: Callable[[bytes], bytes]) -> Path:
    """The file with another header and a seal that fits it.

    Only somebody who means it makes such a file: damage does not.
    """
    with ExpertFile.open(path) as file:
        header = file.header
    data = path.read_bytes()
    text = change(header.encoded)
    magic, version, _, _ = PREAMBLE.unpack_from(data)
    begins = PREAMBLE.pack(magic, version, len(text), bytes(16)) + text
    table = data[header.table_start : header.start].rstrip(b"\0")
    whole = (begins + table).ljust(header.start, b"\0")
    seal = digest_of(whole)
    path.write_bytes(whole[:16] + seal + whole[32:] + data[header.start :])
    return path


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Turn bits of one byte over."""
    with path.open("r+b") as file:
        file.seek(position)
        (old,) = file.read(1)
        file.seek(position)
        file.write(bytes([old ^ mask]))


def header_of(path: Path) -> Header:
    """What a sound file says."""
    with ExpertFile.open(path) as file:
        return file.header


def stopping(at: int, how: BaseException) -> Callable[[int, int], None]:
    """Progress that ends a run after `at` records."""

    def progress(done: int, total: int) -> None:
        if done == at:
            raise how

    return progress


def interrupted(source: Checkpoint, target: Path, at: int, kind: str = "q4") -> Path:
    """The partial file of a run that Ctrl-C has ended."""
    with pytest.raises(KeyboardInterrupt):
        pack(source, target, kind=kind, progress=stopping(at, KeyboardInterrupt()))
    (partial,) = target.parent.glob(".*.part")
    return partial
