"""The model's own draft head as a drafter."""

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from strata_nb.draft.head import Cut, Drafted, Mtp, best
from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.sameness import Sameness, warn
from strata_nb.draft.tokens import checked
from strata_nb.errors import NoDraftError
from strata_nb.sampling import GREEDY, Sampling, draw, law, uniform

DEEPEST = 4
"""The head was trained to follow itself for a few tokens."""
_TOKEN = 0.3
"""Of a window of one row, that a drafted token takes on a model of so many layers."""
_LAYERS = 8


class Drafts(Protocol):
    """What an engine with a draft head offers a drafter."""

    @property
    def position(self) -> int:
        """Committed cells."""

    def draft(self, most: int, *, root: int, **how: Any) -> Drafted:
        """Up to `most` tokens behind `root`."""


class MtpDrafter:
    """Drafts with the model's own head, from the engine that holds the text.

    A session with one of these keeps the head's state, and says which engine is meant.
    Elsewhere make the engine with `mtp=True` and name it to `follow`.

    Args:
        depth: tokens of a draft, 1 to 4.
        stop_below: a draft ends where the likeliest token is less probable than this.
        cut: tokens that may be drafted: a `Cut`, tokens, or a file with one number a
            line; None: all. The text is the same, since the model decides.
        sampling: how a token is drawn from the head's law; drafts of a temperature
            above 0 carry their laws, as the rule "ratio" wants them. Greedy if not
            given.
        mtp: how the head is read.

    Raises:
        ValueError: a setting is out of its range, or the file is none of numbers.
    """

    name = "mtp"
    prior = 0.6
    """Acceptance of its first token where lookup has nothing: 0.52 on prose, 0.69 on
    code, 0.81 on an agent's steps, 0.89 on edits, on the bundled model."""

    def __init__(
        self,
        *,
        depth: int = 2,
        stop_below: float = 0.0,
        cut: Cut | Sequence[int] | str | os.PathLike[str] | None = None,
        sampling: Sampling = GREEDY,
        mtp: Mtp | None = None,
    ) -> None:
        if not 1 <= operator.index(depth) <= DEEPEST:
            raise ValueError(f"`depth` is {depth}, wanted 1 to {DEEPEST}")
        if not 0 <= stop_below <= 1:
            raise ValueError(f"`stop_below` is {stop_below}, wanted 0 to 1")
        self.depth, self.stop_below = depth, stop_below
        self.mtp = Mtp() if mtp is None else mtp
        self._cut = _cut(cut)
        self._sampling = sampling
        self._text: list[int] = []
        self._engine: Drafts | None = None
        self._layers = _LAYERS
        self._last: tuple[int, ...] = ()
        self._sameness = Sameness()

    @property
    def price(self) -> float:
        """Windows of one row that a draft takes, guessed from the number of layers.

        A token runs one layer and the output head, a window every layer and the same.
        """
        return self.depth * _TOKEN * (_LAYERS + 1) / (self._layers + 1)

    @property
    def history(self) -> Sequence[int]:
        """The text, of which the last token alone is used: the engine has the rest."""
        return tuple(self._text)

    def follow(self, engine: Drafts) -> None:
        """Draft from `engine`, which holds the text but for its last token."""
        self._engine = engine
        config = getattr(getattr(engine, "backend", None), "config", None)
        self._layers = getattr(config, "num_hidden_layers", _LAYERS)

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now."""
        self._text, self._last = list(checked(tokens)), ()

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow.

        Warns where many drafts have the same few tokens, and are wrong.
        """
        came = checked(tokens)
        self._text += came
        odd = self._sameness.note(self._last, came)
        self._last = ()
        if odd is not None:
            warn(odd)

    def propose(self, most: int) -> Draft:
        """What the head makes of the engine's state and the last token.

        Its chances are the head's probabilities of the drafted tokens.

        Raises:
            NoDraftError: no engine was named, or it runs without the head.
        """
        if self._engine is None:
            raise NoDraftError(
                "an MtpDrafter drafts from an engine's state, and was told of none; "
                "call `follow(engine)`, as a session does"
            )
        if most < 1 or not self._text or self._engine.position == 0:
            return NO_DRAFT
        laws: list[np.ndarray] = []
        chances: list[float] = []
        is_greedy = self._sampling.temperature == 0

        def drawn(logits: np.ndarray, number: int) -> tuple[int, float]:
            """A token by the law; whether it stands must not hang on which it is."""
            found = law(logits, self._sampling)
            laws.append(found)
            place = len(self._text) + number
            token = draw(found, uniform(self._sampling.seed, "draft", place))
            chances.append(float(found[token]))
            return token, float(found.max())

        planned = min(most, self.depth)
        drafted = self._engine.draft(
            planned,
            root=self._text[-1],
            stop_below=self.stop_below,
            cut=self._cut,
            pick=best if is_greedy else drawn,
        )
        self._last = drafted.tokens
        count = len(drafted.tokens)
        if is_greedy or not count:
            return Draft(drafted.tokens, chances=drafted.probabilities)
        return Draft(
            drafted.tokens,
            laws=np.stack(laws[:count]),
            chances=tuple(chances[:count]),
            planned=planned,
        )


def _cut(cut: Cut | Sequence[int] | str | os.PathLike[str] | None) -> Cut | None:
    if cut is None or isinstance(cut, Cut):
        return cut
    ids = read_ids(cut) if isinstance(cut, (str, os.PathLike)) else checked(cut)
    return Cut(np.unique(np.asarray(ids, np.int64)))


def read_ids(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Tokens from a text file, one number a line; `#` begins a remark.

    Raises:
        ValueError: a line is no number; the message names it.
        OSError: the file cannot be read.
    """
    found = []
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if word and not (word.isascii() and word.isdigit() and len(word) < 10):
            raise ValueError(
                f"{Path(path).name} line {number}: wanted the number of a token, got "
                f"{word[:40]!r}; write one a line, remarks behind #"
            )
        found += [int(word)] if word else []
    return tuple(found)
