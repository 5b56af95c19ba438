"""Where experts come from: a file of records, or the checkpoint itself."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from strata_nb.errors import CheckpointError, ExpertReadError
from strata_nb.experts.dense import fill_dense
from strata_nb.experts.file import ExpertFile
from strata_nb.experts.header import Header
from strata_nb.experts.record import DENSE, Field, Kind, RecordLayout
from strata_nb.packs import Checkpoint

Target: TypeAlias = memoryview | npt.NDArray[Any]
Check: TypeAlias = Literal["first", "always", "never"]


class ExpertSource(Protocol):
    """One expert at a time, from any number of threads.

    Attributes:
        name: for people.
        layout: of what `read` fills.
        layers: of the model.
        experts: of one layer.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - said above

    @property
    def layout(self) -> RecordLayout: ...  # noqa: D102

    @property
    def layers(self) -> int: ...  # noqa: D102

    @property
    def experts(self) -> int: ...  # noqa: D102

    def read(self, layer: int, expert: int, into: Sequence[Target]) -> int:
        """Fill one writable array for each field of the layout, in their order.

        Returns:
            Bytes read.

        Raises:
            ExpertReadError: it could not be read; what is in the arrays is undefined.
            ValueError: no such layer or expert, or arrays that do not fit.
        """


class FileSource:
    """Experts from their file: one positioned read each, straight into the arrays.

    Args:
        file: opened, and open as long as this is used.
        check: when a record is compared with its digest: at its "first" read, unless
            `file.verify` has seen it, "always", or "never". It takes longer than
            reading from a fast disk. A file that somebody may change while it is in
            use wants "always".
    """

    def __init__(self, file: ExpertFile, *, check: Check = "first") -> None:
        if check not in ("first", "always", "never"):
            raise ValueError(
                f"`check` is {check!r}, wanted 'first', 'always' or 'never'"
            )
        self.file = file
        self.check = check

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.path.name

    @property
    def layout(self) -> RecordLayout:
        """That of the file."""
        return self.file.layout

    @property
    def layers(self) -> int:
        """Of the model."""
        return self.file.header.layers

    @property
    def experts(self) -> int:
        """Of one layer."""
        return self.file.header.experts

    def read(self, layer: int, expert: int, into: Sequence[Target]) -> int:
        """As `ExpertSource.read`; a record unlike its digest raises too."""
        views = _with_gaps(self.layout, _bytes_of(self.layout, into))
        self.file.read_record(layer, expert, views)
        new = self.check == "first" and not self.file.is_checked(layer, expert)
        if new or self.check == "always":
            self.file.check_record(layer, expert, views)
        return self.layout.record_bytes


class CheckpointSource:
    """Experts straight from the safetensors of a checkpoint, one's bytes at a time.

    Slower than a file of records (several reads, and numbers change their places), but
    nothing has to be packed.

    Args:
        checkpoint: an opened checkpoint.
        kind: "float32" or "bfloat16"; the checkpoint's own when not given.
    """

    def __init__(self, checkpoint: Checkpoint, *, kind: Kind | None = None) -> None:
        own: Kind = "bfloat16" if checkpoint.dtype == "bfloat16" else "float32"
        if kind is not None and kind not in DENSE:
            raise ValueError(
                f"`kind` is {kind!r}, wanted {' or '.join(DENSE)}: quantised experts "
                "are packed into a file first, by `strata-nb pack`"
            )
        self.checkpoint = checkpoint
        self._header = Header.of(checkpoint, kind or own)

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self.checkpoint.name

    @property
    def layout(self) -> RecordLayout:
        """That of dense records."""
        return self._header.layout

    @property
    def layers(self) -> int:
        """Of the model."""
        return self._header.layers

    @property
    def experts(self) -> int:
        """Of one layer."""
        return self._header.experts

    def read(self, layer: int, expert: int, into: Sequence[Target]) -> int:
        """As `ExpertSource.read`."""
        targets = [
            np.frombuffer(view, field.dtype).reshape(field.shape)
            for view, field in zip(
                _bytes_of(self.layout, into), self.layout.fields, strict=True
            )
        ]
        try:
            gate_up, down = self.checkpoint.raw_expert(layer, expert)
        except (CheckpointError, OSError) as error:
            raise ExpertReadError(
                f"{self.checkpoint.path}: layer {layer}, expert {expert}: {error}"
            ) from error
        for target, bits in zip(targets, (gate_up, down), strict=True):
            fill_dense(target, bits, self.checkpoint.dtype)
        return gate_up.nbytes + down.nbytes


def _bytes_of(layout: RecordLayout, into: Sequence[Target]) -> list[memoryview]:
    """The bytes of the arrays, after looking that they fit.

    Raises:
        ValueError: too few or too many, read-only, of another size, or with holes.
    """
    if len(into) != len(layout.fields):
        raise ValueError(
            f"`into` has {len(into)} arrays, wanted one for each of "
            f"{', '.join(field.name for field in layout.fields)}"
        )
    return [
        _plain(target, field) for target, field in zip(into, layout.fields, strict=True)
    ]


def _plain(target: Target, field: Field) -> memoryview:
    view = target.data if isinstance(target, np.ndarray) else target
    if view.readonly or not view.c_contiguous or view.nbytes != field.nbytes:
        raise ValueError(
            f"`into` has {view.nbytes} bytes for {field.name} (writable: "
            f"{not view.readonly}, without holes: {view.c_contiguous}), wanted "
            f"{field.nbytes} writable ones without holes"
        )
    return view.cast("B")


def _with_gaps(layout: RecordLayout, views: list[memoryview]) -> list[memoryview]:
    """The views of a whole record: what lies between fields goes to a spare place."""
    if not any(layout.gaps):
        return views
    whole: list[memoryview] = []
    for view, gap in zip(views, layout.gaps, strict=True):
        whole.append(view)
        if gap:
            whole.append(memoryview(bytearray(gap)))
    return whole
