"""What penalties promise whatever was rejected, for the sound ones and the wrong."""

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from strata_nb.slop import Scanner, Slop, SlopRules

Make: TypeAlias = Callable[..., Slop]

EOS = 0
# A text is quickly in the middle of a phrase or of a line that it has had.
SCANNER = Scanner(
    [b"", b"", b"ab", b"b", b"a", b"\n", b"  ", b"ba\n", b"\r\n", b"\xc3", b"\xa9b"],
    SlopRules(phrases=("aab", "éb", "bb"), lines=2, shortest=2, longest=9),
    eos_ids=[EOS],
)


def penalised(slop: Slop, inputs: Sequence[int]) -> list[list[int]]:
    """The tokens that lose `strength` in each row."""
    shape = len(inputs), slop.scanner.vocab_size
    logits = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)
    kept = logits.copy()
    lower = slop.adjust(inputs, logits)
    assert np.array_equal(logits, kept), "adjust has changed what it was given"
    assert set(np.unique(kept - lower)) <= {0.0, slop.strength}
    return [list(np.flatnonzero(row)) for row in kept - lower]


def check_states(slop: Slop, history: Sequence[int]) -> None:
    """Every state is that of a fresh scan of the tokens before it."""
    assert slop.position == len(history)
    for position in range(len(history) + 1):
        fresh = slop.scanner.rescan(history[:position])
        assert slop.at(position) == fresh, f"position {position}"
    assert slop.digest() == fresh_slop(slop.scanner, history).digest()


def check_window(slop: Slop, history: Sequence[int], inputs: Sequence[int]) -> None:
    """Each row of a window is penalised as it is row by row."""
    serial = fresh_slop(slop.scanner, history)
    wanted = []
    for row in range(len(inputs)):
        if row:
            serial.append(inputs[row : row + 1])
        wanted += penalised(serial, inputs[row : row + 1])
    assert penalised(slop, inputs) == wanted


def fresh_slop(scanner: Scanner, history: Sequence[int]) -> Slop:
    """Sound penalties that have seen `history` and nothing else."""
    slop = Slop(scanner, strength=2.0)
    slop.assign(history)
    return slop


def check_rejection(
    make: Make,
    history: Sequence[int],
    drafts: Sequence[int],
    keep: int,
    then: list[int],
) -> None:
    """A window of which `keep` rows stay, and a text that goes on in another way."""
    slop = make(SCANNER, strength=2.0)
    slop.assign(history[:1], history[1:])
    inputs = [history[-1], *drafts]
    check_window(slop, history, inputs)
    emitted = [*drafts[: keep - 1], then[0]]
    slop.append(emitted)
    now = [*history, *emitted]
    check_states(slop, now)
    # The next window begins where the kept rows ended.
    check_window(slop, now, then)
    slop.append(then[1:])
    check_states(slop, [*now, *then[1:]])


def check_every_keep(make: Make, *, seed: int) -> None:
    """T = 1 to 8, every keep, a corrected continuation behind each."""
    rng = random.Random(seed)

    def some(count: int) -> list[int]:
        return rng.choices(range(SCANNER.vocab_size), k=count)

    for rows in range(1, 9):
        history, drafts = some(rng.randint(1, 12)), some(rows - 1)
        for keep in range(1, rows + 1):
            then = some(4)
            while keep < rows and then[0] == drafts[keep - 1]:
                then[0] = some(1)[0]
            check_rejection(make, history, drafts, keep, then)


def check_branches(make: Make, *, seed: int) -> None:
    """A checkpoint, a branch that goes on behind it, and back to the checkpoint."""
    rng = random.Random(seed)

    def some(count: int) -> list[int]:
        return rng.choices(range(2, SCANNER.vocab_size), k=count)

    start, left, other = some(6), some(5), some(5)
    slop = make(SCANNER, strength=2.0)
    slop.assign(start)
    slop.append(left)
    slop.back(len(start))
    check_states(slop, start)
    check_window(slop, start, [start[-1], *other])
    slop.append(other)
    check_states(slop, [*start, *other])
    # A whole text given anew, which parts from the present one on the way.
    for tokens in ([*start, *left], start[:3], [*start, *other, *left]):
        slop.assign(tokens)
        check_states(slop, tokens)
