"""`Trace`: a list of window records with its provenance, and its file."""

import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, overload

import polars as pl

from strata_nb.errors import TraceError
from strata_nb.files import write_bytes

from .columns import (
    PROVENANCE_KEY,
    VERSION,
    VERSION_KEY,
    flat,
    null_counts,
    schema,
)
from .quoting import escaped, shown
from .records import WindowRecord
from .seal import SEAL_KEY, UNSEALED, check, sealed
from .tables import from_file_frame, layers_frame, to_file_frame, windows_frame

# Deep enough for any settings, and far from where Python's own parser gives up.
_DEEPEST = 64
# Python prints and parses no number of more than 4,300 digits, others stop at a float.
_LARGEST = 10**308


class Trace:
    """The windows of one engine in order, and where they came from.

    Args:
        records: windows to begin with.
        provenance: model digest, versions, device, options …: anything JSON can hold.

    Raises:
        TypeError: `provenance` has something that JSON cannot give back.
        ValueError: `provenance` is too deep, or has too large a number.
    """

    def __init__(
        self,
        records: Iterable[WindowRecord] = (),
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self._records: list[WindowRecord] = []
        self.provenance: dict[str, Any] = _json(dict(provenance or {}), "provenance")
        for record in records:
            self.append(record)

    def append(self, record: WindowRecord) -> None:
        """Add one window at the end.

        Raises:
            TypeError: `record` is no `WindowRecord`.
        """
        if not isinstance(record, WindowRecord):
            raise TypeError(f"a Trace holds WindowRecord, got {type(record).__name__}")
        self._records.append(record)

    def truncate(self, length: int) -> None:
        """Forget the windows after the first `length`."""
        del self._records[length:]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[WindowRecord]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> WindowRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "Trace": ...
    def __getitem__(self, index: int | slice) -> "WindowRecord | Trace":
        if isinstance(index, slice):
            return Trace(self._records[index], provenance=self.provenance)
        return self._records[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return (self._records, self.provenance) == (other._records, other.provenance)

    __hash__ = None  # type: ignore[assignment]  # equal by content, as a list is

    def __repr__(self) -> str:
        emitted = sum(len(record.emitted) for record in self)
        return f"<Trace: {len(self)} windows, {emitted} tokens emitted>"

    def frame(self) -> pl.DataFrame:
        """One row a window; the columns of `trace_schema.md` without `layers`."""
        return windows_frame(self._records)

    def layers_frame(self) -> pl.DataFrame:
        """One row a window and layer; begins with `window`, `position`, `T`, `keep`."""
        return layers_frame(self._records)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one Parquet file; an older file at `path` is replaced whole or kept.

        Raises:
            TypeError: something that JSON cannot hold was put into `provenance`.
            ValueError: `provenance` got too deep, or a number in it too large.
            OSError: the folder or disk does not take it.
        """
        provenance = json.dumps(_json(self.provenance, "provenance"), sort_keys=True)
        buffer = io.BytesIO()
        metadata = {VERSION_KEY: VERSION, PROVENANCE_KEY: provenance}
        to_file_frame(self._records).write_parquet(
            buffer, metadata=metadata | {SEAL_KEY: UNSEALED}
        )
        write_bytes(path, sealed(buffer.getvalue()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read a file in the documented schema, whoever wrote it.

        Raises:
            TraceError: no trace, a damaged one, another version, or a column that does
                not fit.
            OSError: there is no such file.
        """
        name = escaped(Path(path).name)
        data = Path(path).read_bytes()
        check(data, name)
        frame, metadata = _read(data, name)
        provenance = _header(metadata, name)
        _check_columns(frame, name)
        try:
            records = from_file_frame(frame)
        except ValueError as error:
            raise TraceError(
                f"{name} contradicts itself in {escaped(str(error))}; record it again"
            ) from error
        return cls(records, provenance=provenance)


def _json(value: Any, where: str, *, depth: int = 0) -> Any:
    """A copy of `value` that JSON gives back as it is; tuples become lists."""
    if depth > _DEEPEST:
        raise ValueError(
            f"{where[:60]}… must not go deeper than {_DEEPEST} lists and dicts, in "
            "which nothing holds itself; flatten it or convert it with `str`"
        )
    if isinstance(value, int) and not -_LARGEST < value < _LARGEST:
        raise ValueError(
            f"{where} must be a number below 1e308, got {shown(value)}; convert it "
            "with `hex`"
        )
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    inner = {"depth": depth + 1}
    if isinstance(value, list | tuple):
        return [_json(x, f"{where}[{i}]", **inner) for i, x in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {k: _json(x, f"{where}[{k!r}]", **inner) for k, x in value.items()}
    raise TypeError(
        f"{where} must be something JSON can hold (text, finite number, list, dict "
        f"with text keys), got {shown(value)}; convert it with `str` or `float` first"
    )


def _read(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str]]:
    try:
        return pl.read_parquet(data), pl.read_parquet_metadata(data)
    # A damaged page can make polars panic, and its panic is no `Exception`.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = escaped("".join(str(error).splitlines()[:1]))
        raise TraceError(
            f"{name} must be a whole Parquet file, got {len(data)} bytes that polars "
            f"cannot read ({why}); copy or record it again"
        ) from error


def _header(metadata: dict[str, str], name: str) -> dict[str, Any]:
    """The provenance, after the version is found to be ours."""
    version = metadata.get(VERSION_KEY)
    if version != VERSION:
        got = None if version is None else escaped(version)
        raise TraceError(
            f"{name} must say `{VERSION_KEY}` = {VERSION} in its metadata, got {got}; "
            "it is no trace, or another release of strata-nb wrote it: use that release"
        )
    text = metadata.get(PROVENANCE_KEY, "{}")
    try:
        provenance = _json(json.loads(text), "provenance")
    # NaN and 1e999 are TypeErrors of `_json`, 5,000 digits a ValueError of `loads`.
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceError(
            f"{name} must hold a JSON object in `{PROVENANCE_KEY}`, got {shown(text)} "
            f"({escaped(str(error))}); write it again with one, or leave that key out"
        ) from error
    if not isinstance(provenance, dict):
        raise TraceError(
            f"{name} must hold a JSON object in `{PROVENANCE_KEY}`, got {shown(text)}; "
            "write it again with one, or leave that key out"
        )
    return provenance


def _check_columns(frame: pl.DataFrame, name: str) -> None:
    """Refuse missing, extra, mistyped and null columns, by their name."""
    wanted, got = flat(schema()), flat(frame.schema)
    for column, dtype in wanted.items():
        if column not in got:
            raise TraceError(
                f"{name} must have the column `{column}` ({dtype}), got none; "
                "trace_schema.md lists them all"
            )
        if got[column] != dtype:
            raise TraceError(
                f"{name} must have `{column}` as {dtype}, got "
                f"{escaped(str(got[column]))}; cast it"
            )
    for column in got:
        if column not in wanted:
            raise TraceError(
                f"{name} must have the columns of trace_schema.md only, got "
                f"`{escaped(column)}` ({escaped(str(got[column]))}) as well; leave it "
                "out"
            )
    for column, count in null_counts(frame).items():
        if count:
            raise TraceError(
                f"{name} must have a value in every `{column}`, got {count} null; "
                "trace_schema.md says which columns may be null"
            )
