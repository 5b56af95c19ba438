"""What is penalised."""

import operator
from dataclasses import dataclass

MAX_PHRASE = 256
"""Bytes of the longest phrase."""


@dataclass(frozen=True)
class SlopRules:
    """What a text should not hold; nothing, unless it is asked for.

    Attributes:
        phrases: unwanted wherever they stand, inside a word too, each on one line.
        ignore_case: whether the letters A to Z in a phrase match a to z.
        lines: how many of the last completed lines may not come again; 0: lines may.
        shortest: a line of fewer bytes, its indentation apart, counts as none.
        longest: a line of more bytes counts as none either.

    Raises:
        ValueError: a phrase is empty, over-long or has a control character; a number
            is out of its range.
    """

    phrases: tuple[str, ...] = ()
    ignore_case: bool = True
    lines: int = 0
    shortest: int = 8
    longest: int = 512

    def __post_init__(self) -> None:
        if isinstance(self.phrases, str):
            raise TypeError("`phrases` is one text, wanted a tuple of them")
        for phrase in self.phrases:
            trouble = trouble_in(phrase)
            if trouble:
                raise ValueError(f"phrase {phrase[:40]!r} {trouble}")
        if not 0 <= operator.index(self.lines) <= 10_000:
            raise ValueError(f"`lines` is {self.lines}, wanted 0 to 10,000 lines")
        if not 1 <= operator.index(self.shortest) <= operator.index(self.longest):
            raise ValueError(
                f"`shortest` is {self.shortest} and `longest` {self.longest}, wanted "
                "1 <= shortest <= longest bytes"
            )
        object.__setattr__(self, "phrases", tuple(self.phrases))

    @property
    def wanted(self) -> tuple[bytes, ...]:
        """The phrases as bytes to look for, each once, in order."""
        return tuple(sorted({self.fold(p.encode()) for p in self.phrases}))

    def fold(self, piece: bytes) -> bytes:
        """`piece` in the letters that phrases are compared in, as many bytes."""
        return piece.lower() if self.ignore_case else piece


def trouble_in(phrase: str) -> str | None:
    """Why `phrase` cannot be looked for, None if it can."""
    if not phrase.strip():
        return "is empty; leave it out"
    for char in phrase:
        if _is_control(char):
            return f"has the control character U+{ord(char):04X}; take it out"
    try:
        size = len(phrase.encode())
    except UnicodeEncodeError:
        return "has half of a surrogate pair; write the whole character"
    if size > MAX_PHRASE:
        return f"has {size} bytes, wanted at most {MAX_PHRASE}; shorten it"
    return None


def _is_control(char: str) -> bool:
    """Whether `char` ends a line, moves the cursor or turns the order of reading."""
    code = ord(char)
    return (
        code < 0x20
        or 0x7F <= code < 0xA0
        or 0x2028 <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or code == 0xFEFF
    )
