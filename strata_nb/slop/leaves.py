"""A state as integer arrays for a file, and back; what does not fit is refused."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict

import numpy as np

from strata_nb.errors import SavedStateError
from strata_nb.slop.lines import INDENT, Lines
from strata_nb.slop.rules import SlopRules

_DTYPES = {
    "line": np.uint8,
    "recent": np.uint8,
    "recent_ends": np.int64,
    "rules": np.uint8,
    "tail": np.uint8,
}


def write_leaves(
    tail: bytes, line: bytes, recent: tuple[bytes, ...], rules: SlopRules
) -> dict[str, np.ndarray]:
    """The state's three values as arrays, with the fingerprint of `rules`.

    Returns:
        `tail`, `line`, `recent` (all lines in a row) and `rules`: uint8; `recent_ends`:
        int64, where each line of `recent` ends.
    """
    ends = np.cumsum([len(full) for full in recent], dtype=np.int64)
    return {
        "line": _array(line),
        "recent": _array(b"".join(recent)),
        "recent_ends": ends,
        "rules": _array(_fingerprint(rules)),
        "tail": _array(tail),
    }


def read_leaves(
    leaves: Mapping[str, np.ndarray],
    rules: SlopRules,
    *,
    starts: Collection[bytes],
    lines: Lines,
) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """Tail, line and recent lines, if a text under `rules` can leave them.

    Args:
        leaves: as `write_leaves` gives them.
        rules: of the scanner that reads.
        starts: every beginning of a phrase.
        lines: what the scanner knows of lines.

    Raises:
        SavedStateError: something else; the message says what.
    """
    for name in sorted({*_DTYPES, *leaves}):
        _check_form(name, leaves)
    if leaves["rules"].tobytes() != _fingerprint(rules):
        raise SavedStateError(
            "the penalties were saved under other rules (phrases, lines); load the "
            "same phrases and settings, or scan the tokens again"
        )
    tail, line = leaves["tail"].tobytes(), leaves["line"].tobytes()
    recent = _split(leaves["recent"].tobytes(), leaves["recent_ends"].tolist())
    if tail not in starts:
        raise _damaged("the text's end begins no phrase")
    if len(recent) > rules.lines or not all(map(lines.can_be_recent, recent)):
        raise _damaged("a completed line is none that counts")
    if not lines.can_be_open(line) or (rules.lines and not _agree(tail, line, rules)):
        raise _damaged("the open line is none that such a text leaves")
    return tail, line, recent


def _agree(tail: bytes, line: bytes, rules: SlopRules) -> bool:
    """Whether one text can end in both: no phrase goes over the end of a line."""
    if len(line) > rules.longest:
        return True  # it may be cut, and its end is not known
    line = rules.fold(line)
    if len(tail) <= len(line):
        return line.endswith(tail)
    return tail.endswith(line) and not tail.removesuffix(line).strip(INDENT)


def _split(joined: bytes, ends: list[int]) -> tuple[bytes, ...]:
    begins = [0, *ends]
    if begins[-1] != len(joined) or begins != sorted(begins):
        raise _damaged("the ends of its lines do not fit the lines")
    return tuple(joined[a:b] for a, b in zip(begins, ends, strict=False))


def _check_form(name: str, leaves: Mapping[str, np.ndarray]) -> None:
    if name not in leaves:
        raise _damaged(f"{name!r} is missing")
    if name not in _DTYPES:
        raise _damaged(f"{name[:40]!r} does not belong to it")
    leaf, wanted = leaves[name], np.dtype(_DTYPES[name])
    if leaf.ndim != 1 or leaf.dtype != wanted:
        raise _damaged(
            f"{name!r} is {leaf.dtype} with {leaf.ndim} axes, wanted {wanted} with one"
        )


def _damaged(why: str) -> SavedStateError:
    return SavedStateError(
        f"the saved penalties are damaged: {why}; save them again, or scan the tokens"
    )


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).copy()


def _fingerprint(rules: SlopRules) -> bytes:
    """SHA-256 of everything that a state depends on."""
    said = {**asdict(rules), "phrases": rules.wanted}
    return hashlib.sha256(repr(sorted(said.items())).encode()).digest()
