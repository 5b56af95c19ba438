"""Packing: every expert of a checkpoint into one file of records."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.errors import ExpertFileError, ExpertReadError
from strata_nb.experts.dense import fill_dense
from strata_nb.experts.file import ExpertFile, Progress
from strata_nb.experts.header import MAGIC, Header
from strata_nb.experts.partial import Partial
from strata_nb.experts.quantise import quantise
from strata_nb.experts.record import DENSE, Kind, find_kind
from strata_nb.files import resolved
from strata_nb.packs import Checkpoint


@dataclass(frozen=True)
class Packed:
    """What a run of `pack` did.

    Attributes:
        path: the finished file.
        header: what it holds.
        written: records made by this run.
        kept: records found whole, in a file that was begun or finished before.
    """

    path: Path
    header: Header
    written: int
    kept: int


def pack(
    checkpoint: Checkpoint,
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Packed:
    """Write the experts of a checkpoint, one expert in memory at a time.

    A run that was cut short is gone on with by the same call; until the end an older
    file of that name is as it was. A finished file that holds just this is checked and
    left alone.

    Args:
        checkpoint: an opened checkpoint.
        path: the file to make or replace.
        kind: one of `KINDS`; the checkpoint's own floats when not given.
        progress: told how many records are done, of how many.
        say: told in words when something that was there is not used.

    Raises:
        ExpertFileError: the experts' shape does not allow the kind, `path` is a file of
            something else, or another process is packing to it.
        CheckpointError: the checkpoint changed meanwhile.
        OSError: the disk is full or fails; the message says what is kept.
        ValueError: an unknown kind.
    """
    own: Kind = "bfloat16" if checkpoint.dtype == "bfloat16" else "float32"
    header = Header.of(checkpoint, own if kind is None else find_kind(kind))
    # Its shape is refused before anything is written.
    record = np.zeros(header.layout.record_bytes, np.uint8)
    target = resolved(path)
    _refuse_other(target)
    if _is_finished(target, header, progress, say):
        return Packed(target, header, written=0, kept=header.records)
    written = 0
    with Partial(target, header) as partial:
        if partial.thrown_away is not None and say is not None:
            say(partial.thrown_away)
        for number in range(header.records):
            if not partial.holds(number, record.data):
                layer, expert = divmod(number, header.experts)
                record[:] = 0
                encode(checkpoint, header, layer, expert, record)
                partial.write(number, record.data)
                written += 1
            if progress is not None:
                progress(number + 1, header.records)
        partial.finish()
    return Packed(target, header, written=written, kept=header.records - written)


def encode(
    checkpoint: Checkpoint,
    header: Header,
    layer: int,
    expert: int,
    record: npt.NDArray[np.uint8],
) -> None:
    """Fill the fields of one zeroed `record` from the checkpoint.

    Raises:
        ExpertFileError: a number that cannot be quantised.
        CheckpointError: the checkpoint changed since it was opened.
    """
    fields = header.layout.views(record)
    matrices = checkpoint.raw_expert(layer, expert)
    if header.kind in DENSE:
        for field, bits in zip(fields, matrices, strict=True):
            fill_dense(field, bits, checkpoint.dtype)
        return
    arrays: list[npt.NDArray[Any]] = []
    for bits in matrices:
        try:
            arrays += quantise(
                bits,
                checkpoint.dtype,
                kind=header.kind,
                group=header.layout.group,
                floats=header.floats,
            )
        except ValueError as error:
            raise ExpertFileError(
                f"{checkpoint.name}: layer {layer}, expert {expert}: {error}, so "
                f"{header.kind} cannot hold it; pack it as {' or '.join(DENSE)}"
            ) from error
    for field, array in zip(fields, arrays, strict=True):
        field[...] = array


def _refuse_other(target: Path) -> None:
    """Never put an expert file in the place of something else."""
    try:
        with target.open("rb") as file:
            begins = file.read(len(MAGIC))
    except OSError:
        # Not there, or trouble that writing will name.
        return
    if begins and begins != MAGIC:
        raise ExpertFileError(
            f"{target} is there and no expert file; remove it, or choose another name"
        )


def _is_finished(
    target: Path,
    header: Header,
    progress: Progress | None,
    say: Callable[[str], None] | None,
) -> bool:
    """Whether all the work is done already, to the byte."""
    try:
        with ExpertFile.open(target) as file:
            if file.header != header:
                return False
            file.verify(progress=progress)
    except ExpertFileError:
        return False
    except ExpertReadError as error:
        if say is not None:
            say(str(error))
        return False
    return True
