"""Unwanted phrases from a text file, one a line."""

import os
import stat
from pathlib import Path

from strata_nb.errors import PhraseFileError
from strata_nb.slop.rules import trouble_in

MAX_BYTES = 262_144


def read_phrases(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The phrases in a UTF-8 text file, each once, in the order of the file.

    One phrase a line. Blank lines, and lines whose first visible character is `#`, are
    passed over; spaces around a phrase are not part of it. Lines may end as on Windows.

    Raises:
        PhraseFileError: no such file, no text in UTF-8, or a line that is over-long or
            holds a control character; the message names the line.
    """
    file = Path(path)
    data = _content(file).removeprefix(b"\xef\xbb\xbf")  # Windows begins files so
    found: dict[str, None] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            phrase = line.removesuffix(b"\r").decode().strip(" ")
        except UnicodeDecodeError as error:
            raise PhraseFileError(
                f"{file.name} line {number}: wanted UTF-8, got byte "
                f"0x{line[error.start]:02x}; save the file as UTF-8"
            ) from error
        if not phrase or phrase.startswith("#"):
            continue
        trouble = trouble_in(phrase)
        if trouble:
            raise PhraseFileError(f"{file.name} line {number}: the phrase {trouble}")
        found[phrase] = None
    return tuple(found)


def _content(file: Path) -> bytes:
    """The bytes of a plain file, not more than are sensible."""
    try:
        # Looked at before it is opened: a pipe would wait for its other end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise PhraseFileError(f"{file.name} is no plain file; name a text file")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, PhraseFileError):
            raise
        why = getattr(error, "strerror", None) or str(error)
        raise PhraseFileError(
            f"{str(file)!r} cannot be read ({why}); wanted a text file with one phrase "
            "a line"
        ) from error
    if len(data) > MAX_BYTES:
        raise PhraseFileError(
            f"{file.name}: wanted at most {MAX_BYTES} bytes, got more; shorten the list"
        )
    return data
