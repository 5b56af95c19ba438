"""Small vocabularies, random texts, and what is forbidden by the definition alone."""

import random
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from strata_nb.slop import Scanner, SlopRules

EOS, SPECIAL = 0, 1
"""Both have no bytes; the first ends a text."""

# Halves of characters, ends of lines of both kinds, indentation, bytes of no text.
_ATOMS = (
    *(b"a", b"b", b"A", b" ", b"\t", b"\n", b"\r", b"\r\n", b"ab"),
    *("é".encode(), b"\xc3", b"\xa9", b"\x9f\x99", b"\xf0", b"\xff", b"\xc3\x89"),
)

pieces = st.lists(st.sampled_from(_ATOMS), min_size=1, max_size=5).map(b"".join)


@st.composite
def scanners(draw: st.DrawFn) -> Scanner:
    """Over a small vocabulary, with rules that such texts break often."""
    table = [b"", b"", *draw(st.lists(pieces, min_size=3, max_size=14))]
    phrase = st.text("aAb é🙂", min_size=1, max_size=4).filter(str.strip)
    shortest = draw(st.integers(1, 3))
    rules = SlopRules(
        phrases=tuple(draw(st.lists(phrase, max_size=4))),
        ignore_case=draw(st.booleans()),
        lines=draw(st.integers(0, 3)),
        shortest=shortest,
        longest=draw(st.integers(shortest, 7)),
    )
    return Scanner(table, rules, eos_ids=[EOS])


def some_tokens(scanner: Scanner, size: int = 12) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, scanner.vocab_size - 1), max_size=size)


def forbidden(scanner: Scanner, tokens: Sequence[int]) -> set[int]:
    """Tokens that break the rules after `tokens`: the definition, byte by byte."""
    table, rules = scanner.pieces, scanner.rules
    last = max((i + 1 for i, t in enumerate(tokens) if t == EOS), default=0)
    text = b"".join(table[t] for t in tokens[last:])
    return {
        token
        for token, piece in enumerate(table)
        if piece and (_phrase(rules, text, piece) or _line(rules, text, piece))
    }


def _phrase(rules: SlopRules, text: bytes, piece: bytes) -> bool:
    """Whether a phrase ends inside `piece`."""
    whole = text + piece
    ends = range(len(text) + 1, len(whole) + 1)
    wanted = [phrase.encode() for phrase in rules.phrases]
    if rules.ignore_case:
        whole, wanted = whole.lower(), [w.lower() for w in wanted]
    return any(whole[:end].endswith(w) for w in wanted for end in ends)


def _line(rules: SlopRules, text: bytes, piece: bytes) -> bool:
    """Whether `piece` ends a line of the recent ones, or makes one up to its end."""
    if not rules.lines:
        return False
    *ended, _ = text.split(b"\n")
    recent = [line for line in map(_bare, ended) if _counts(rules, line)]
    recent = recent[-rules.lines :]
    *after, open_line = (text + piece).split(b"\n")
    now_ended = map(_bare, after[len(ended) :])
    return (
        any(line in recent for line in now_ended) or open_line.lstrip(b" \t") in recent
    )


def _bare(line: bytes) -> bytes:
    return (line[:-1] if line[-1:] == b"\r" else line).lstrip(b" \t")


def _counts(rules: SlopRules, line: bytes) -> bool:
    return rules.shortest <= len(line) <= rules.longest


def windows(scanner: Scanner, *, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """Histories and windows that begin with their last token, T = 1 to 8."""
    rng = random.Random(seed)
    for rows in range(1, 9):
        history = [rng.randrange(scanner.vocab_size) for _ in range(rng.randint(1, 12))]
        drafts = [rng.randrange(scanner.vocab_size) for _ in range(rows - 1)]
        yield history, [history[-1], *drafts]
