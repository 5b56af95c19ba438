"""JSON from files nobody vouches for: bounded, no repeated keys, named in errors."""

import json
from pathlib import Path
from typing import Any

from strata_nb.errors import CheckpointError

# An index of 150,000 tensors takes 20 MB; a tokenizer about as much.
MAX_BYTES = 100_000_000


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises:
        CheckpointError: the file cannot be read, is no JSON object, or repeats a key.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CheckpointError(
                f"{path.name}: wanted at most {MAX_BYTES} bytes, got {size}; "
                "this is not a file of a checkpoint"
            )
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path.name} cannot be read ({error.strerror}); wanted a readable file in "
            f"{path.parent}, so check its rights"
        ) from error
    return parse_object(data, where=path.name)


def parse_object(data: bytes, *, where: str) -> dict[str, Any]:
    """The JSON object in `data`; `where` names it in errors.

    Raises:
        CheckpointError: no JSON object, or one that repeats a key.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique)
    except _RepeatedKeyError as error:
        raise CheckpointError(
            f"{where}: {quote(error.key)} appears twice in one object; wanted each "
            "name once, so write the file again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{where}: wanted JSON, got something else ({error}); download it again"
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{where}: wanted a JSON object, got {type(value).__name__}; "
            "download it again"
        )
    return value


def quote(name: object) -> str:
    """`name` in backticks, safe to print: escaped, and cut when very long."""
    text = str(name).encode("unicode_escape").decode("ascii")
    return f"`{text if len(text) <= 160 else text[:157] + '...'}`"


class _RepeatedKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; the standard parser would silently keep the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return found
