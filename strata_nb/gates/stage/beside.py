"""What a session has beside its engine: made so that it bites, and compared."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from strata_nb.draft import Draft, Drafter
from strata_nb.faults import POLICY_FAULTS
from strata_nb.gates.records import Finding
from strata_nb.gates.stage.rig import Rig
from strata_nb.sampling import Adjustment, Penalties, Sampling
from strata_nb.session.histories import Histories
from strata_nb.session.request import Transcript
from strata_nb.slop import Scanner, Slop, SlopRules
from strata_nb.state import Leaves

_STRENGTH = 4.0


class Watch:
    """An adjustment that changes nothing and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[int, ...], np.ndarray]] = []

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """Forget what was seen."""
        self.seen = []

    def append(self, emitted: Sequence[int]) -> None:
        """Nothing."""

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """The same logits."""
        self.seen.append((tuple(inputs), logits.copy()))
        return logits


class Planned:
    """A drafter that knows what plain decoding says, and errs by plan.

    Args:
        text: of plain decoding, prompt and answer.
        drafts: "right", "wrong" (each the right token + 1), "half-right", or "likely".
        vocabulary: tokens there are.
        likely: the likeliest token in the place of each of the answer's.
    """

    name = "planned"

    def __init__(
        self,
        text: Sequence[int],
        drafts: str,
        vocabulary: int,
        likely: Sequence[int] = (),
    ) -> None:
        self._text, self._drafts, self._vocabulary = text, drafts, vocabulary
        self._likely = (*text[: len(text) - len(likely)], *likely)
        self._history: list[int] = []

    @property
    def history(self) -> Sequence[int]:
        """What it was told."""
        return self._history

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now."""
        self._history = list(tokens)

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow."""
        self._history += tokens

    def propose(self, most: int) -> Draft:
        """What the text says after as many tokens as the history has, or not."""
        at = len(self._history)
        if self._drafts == "likely":
            return Draft(tuple(self._likely[at : at + most]))
        right = self._text[at : at + most]
        sound = {"right": len(right), "wrong": 0}.get(self._drafts, len(right) // 2)
        wrong = [(token + 1) % self._vocabulary for token in right[sound:]]
        return Draft((*right[:sound], *wrong))


def penalties(rig: Rig, tokens: Sequence[int]) -> list[Adjustment]:
    """Fresh penalties that have something to say about a text of `tokens`.

    Each of the tokens begins a phrase, and the next one of the text ends one. Each
    sixteenth token of the vocabulary ends a line, so that a state remembers more than
    the last token: one that healed at once would not show.
    """
    vocabulary = rig.model.config.vocab_size
    pieces = rig.known("pieces", lambda: _pieces(vocabulary))
    pairs = {(one, (7 * one + 13) % vocabulary) for one in tokens}
    pairs |= set(zip(tokens[::2], tokens[1::2], strict=False))
    phrases = tuple(f"<{a}><{b}>" for a, b in sorted(pairs))
    rules = SlopRules(phrases=phrases, lines=4, shortest=1, longest=4096)
    scanner = rig.known(f"scanner {sorted(pairs)}", lambda: Scanner(pieces, rules))
    return [
        Penalties(repetition=1.1, presence=0.2, frequency=0.4, lookback=48),
        Slop(scanner, strength=_STRENGTH),
    ]


def _pieces(vocabulary: int) -> list[bytes]:
    return [b"<%d>" % i + b"\n" * (i % 16 == 0) for i in range(vocabulary)]


def in_question(
    rig: Rig,
    sampling: Sampling,
    adjustments: Sequence[Adjustment],
    drafter: Drafter,
    **how: Any,
) -> Histories:
    """Those of the case, with the rig's fault where it is one of theirs."""
    fault = rig.fault if rig.fault in POLICY_FAULTS else None
    return Histories.made(sampling, adjustments, drafter=drafter, fault=fault, **how)


def told(histories: Histories, text: Transcript) -> Histories:
    """The same histories, after `text`."""
    histories.assign(text)
    return histories


def remembered(got: Leaves, wanted: Leaves, *, cell: int) -> Iterator[Finding]:
    """What is remembered and should not be, or is forgotten; once a part.

    Args:
        got: of the histories in question.
        wanted: of fresh ones that were told the same text at once.
        cell: up to where the text goes.
    """
    for part in dict.fromkeys(leaf.part for leaf in (*wanted, *got)):
        names = {leaf for leaf in (*wanted, *got) if leaf.part == part}
        for leaf in sorted(names, key=str):
            one, other = got.get(leaf), wanted.get(leaf)
            if one is None or other is None or not np.array_equal(one, other):
                note = f"{leaf.field} is not that of the text so far"
                yield Finding("fault", "serial", "commit", part, cell=cell, note=note)
                break


def moved(start: Leaves, end: Leaves) -> list[str]:
    """Parts of which anything is other than it was."""
    return [
        part
        for part in dict.fromkeys(leaf.part for leaf in end)
        if any(
            leaf not in start or not np.array_equal(start[leaf], array)
            for leaf, array in end.items()
            if leaf.part == part
        )
    ]
