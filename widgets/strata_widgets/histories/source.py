"""An engine or a session, asked cell by cell for what it remembers."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from strata_nb import Engine, Session, Trace
from strata_nb.parts import PleTokens
from strata_nb.sampling import Penalties
from strata_nb.slop import Slop, SlopState
from strata_nb.trace import Leaf, WindowRecord
from strata_widgets.histories.places import Places
from strata_widgets.histories.told import (
    EMITTED,
    OPEN,
    PAD,
    PROMPT,
    ROOT,
    UNKNOWN,
    Told,
)

_IDS: Final = Leaf("ple_tokens", None, "ids")
_READS: Final = 512
"""Readings of the state that are kept, the newest."""
_KEPT: Final = 256


class Source:
    """What an engine or a session tells of itself; nothing here changes it.

    Args:
        found: an engine or a session.
        pad_id: this token of a prompt is a pad; a session knows its own.
        penalties: of an engine, whose caller tells them the text.

    Raises:
        TypeError: `found` is neither.
    """

    def __init__(
        self, found: Any, *, pad_id: int | None, penalties: Slop | None
    ) -> None:
        if not isinstance(found, Engine | Session):
            raise TypeError(
                "an engine or a session is wanted, which hold their histories; got "
                f"{type(found).__name__}; a trace alone draws in `Timeline`"
            )
        self._found = found
        self._session = found if isinstance(found, Session) else None
        self._engine = found if isinstance(found, Engine) else None
        self.slops: list[Slop] = [] if penalties is None else [penalties]
        self.counting: Penalties | None = None
        if self._session is not None:
            told = self._session.histories
            pad_id = told.pad_id if pad_id is None else pad_id
            adjustments = told.sampler.adjustments
            self.slops += [a for a in adjustments if isinstance(a, Slop)]
            counting = [a for a in adjustments if isinstance(a, Penalties)]
            self.counting = counting[0] if counting else None
        self.which = 0
        self.pad_id = pad_id
        self.places = Places(pad_id)
        self._seen = 0
        self._newest: WindowRecord | None = None
        self._read: dict[int, tuple[int, ...]] = {}
        self._known: dict[int, Told] = {}
        self._part: PleTokens | None = None
        self.position = self.end = 0
        """Cells that the state holds; cells that there are, once a request is done."""
        self.pending: list[Told] = []
        """Rows of the open window; or the root, which no window has run yet."""
        self.follow()
        self.look()

    @property
    def trace(self) -> Trace:
        """Of the engine or session."""
        return self._found.trace

    @property
    def model(self) -> Any:
        """What knows the text of tokens; None where nobody does."""
        return self._found.model

    @property
    def has_fault(self) -> bool:
        """Whether a defect is planted, so that its state has to be read."""
        options = (self.trace.provenance or {}).get("options") or {}
        return "fault" in options

    @property
    def back(self) -> int:
        """Tokens that the PLE part holds; 0 for a model without it."""
        return 0 if self._part is None else self._part.length

    @property
    def slop(self) -> Slop | None:
        """The penalties that are looked at."""
        return self.slops[self.which] if self.slops else None

    def _forget_reads(self, cell: int) -> None:
        """What was read there, or behind it, is of a text that was left."""
        self._read = {c: ids for c, ids in self._read.items() if c < cell}

    def turn_to(self, which: int) -> None:
        """Look at other penalties, if there are any."""
        self.which = which if which < len(self.slops) else 0
        self._known.clear()
        self.pending = self._waiting()

    @property
    def is_behind(self) -> bool:
        """Whether the trace ends at another cell than the state."""
        return self.places.end != self.position

    def follow(self) -> bool:
        """Take in windows that came or went; whether there were any."""
        trace, seen = self.trace, self._seen
        same = len(trace) >= seen and (not seen or trace[seen - 1] is self._newest)
        if not same:
            self.places.forget()
            self._known.clear()
            seen = 0
        for index in range(seen, len(trace)):
            record = trace[index]
            if not self.places.take(index, record):
                self._known.clear()
                self._forget_reads(record.position)
        moved = not same or len(trace) > seen
        self._seen = len(trace)
        self._newest = trace[self._seen - 1] if self._seen else None
        self._settle()
        return moved

    def _settle(self) -> None:
        """Fix what all cells are counted from, until the next time."""
        self.position = self.end = int(self._found.position)
        if self._session is not None and self._seen:
            # While a request runs its trace is ahead of what the session holds.
            self.end = self.places.end
        self.pending = self._waiting()

    def look(self) -> None:
        """Read what the state holds now; that copies the whole state."""
        ids = self._found.leaves().get(_IDS)
        at = self.model if self._engine is None else self._engine.backend
        config = at.config
        eos = getattr(config, "eos_token_id", None)
        if ids is None or not len(ids) or eos is None:
            return
        if self._part is None:
            self._part = PleTokens(len(ids), eos, config.vocab_size)
        cell = self._found.position - 1
        if cell < 0:
            return
        self._forget_reads(cell)
        self._read[cell] = tuple(int(i) for i in ids)
        self._known.pop(cell, None)
        for old in list(self._read)[:-_READS]:
            del self._read[old]

    def that_count(self, held: Sequence[int]) -> int:
        """How many of `held` the n-grams read: behind an eos all read as eos."""
        for back, token in enumerate(reversed(held)):
            if self._part is not None and token == self._part.eos:
                return back
        return len(held)

    def at(self, cell: int) -> Told | None:
        """What is held after `cell`; None: there is no such cell."""
        if not 0 <= cell < self.end:
            return next((row for row in self.pending if row.cell == cell), None)
        if cell not in self._known:
            told = self._told(cell)
            if self.slops and told.penalties is None:
                return told  # a request may be between two windows
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[cell] = told
        return self._known[cell]

    def _waiting(self) -> list[Told]:
        window = None if self._engine is None else self._engine.window
        start = self.end
        if window is not None:
            states = self._states(window.inputs)
            return [
                Told(start + row, token, OPEN, penalties=s, penalised=self._count(s))
                for row, (token, s) in enumerate(
                    zip(window.inputs, states, strict=True)
                )
            ]
        root = self._root()
        if root is None:
            return []
        (state,) = self._states([root])
        counted = self._count(state)
        return [Told(start, root, ROOT, penalties=state, penalised=counted)]

    def _root(self) -> int | None:
        if self._engine is not None:
            return self._engine.root
        if self._newest is not None and self._newest.emitted:
            return self._newest.emitted[-1]
        tokens = () if self._session is None else self._session.tokens
        return tokens[-1] if tokens and len(tokens) == self.end + 1 else None

    def _told(self, cell: int) -> Told:
        token, what, window = self._cell(cell)
        text = self._text(cell)
        held = self._read.get(cell)
        state = self._state(cell)
        return Told(
            cell,
            token,
            what,
            window,
            text if held is None else held,
            held is not None,
            text,
            state,
            self._count(state),
        )

    def _cell(self, cell: int) -> tuple[int | None, str, int | None]:
        """Token, what it is, and the window it came in."""
        window = self.places.window(cell)
        record = None if window is None else self.trace[window]
        row = -1 if record is None else cell - record.position
        if record is None or row >= record.keep:
            tokens = () if self._session is None else self._session.tokens
            return (tokens[cell] if cell < len(tokens) else None), UNKNOWN, None
        token = record.inputs[row]
        if record.headless:
            return token, PAD if token == self.pad_id else PROMPT, window
        emitted = row > 0 or self._was_emitted(cell, token)
        return token, EMITTED if emitted else PROMPT, window

    def _was_emitted(self, cell: int, token: int) -> bool:
        """Whether the window before `cell` gave `token` as its bonus."""
        window = self.places.window(cell - 1) if cell else None
        before = None if window is None else self.trace[window]
        return (
            before is not None
            and before.position + before.keep == cell
            and before.emitted[-1:] == (token,)
        )

    def _text(self, cell: int) -> tuple[int, ...] | None:
        """What the part holds after the tokens up to `cell`, by the part itself."""
        part = self._part
        if part is None:
            return None
        first = max(0, cell + 1 - part.length)
        tokens = [self._cell(each)[0] for each in range(first, cell + 1)]
        known = [token for token in tokens if token is not None]
        if len(known) < len(tokens):
            return None
        _, pending = part.run(part.initial(), known)
        return part.commit(part.initial(), pending, keep=len(known))

    def _is_told(self, slop: Slop) -> int | None:
        """1 if `slop` knows the text up to the root, 0 up to the last cell, else None.

        Else they are penalties of another text, or a request is between two windows.
        """
        known = slop.position - (self.end - self.places.pads_to(self.end))
        return known if known in (0, 1) else None

    def _state(self, cell: int) -> SlopState | None:
        slop = self.slop
        if slop is None or self._is_told(slop) is None:
            return None
        try:
            return slop.at(cell + 1 - self.places.pads_to(cell))
        except ValueError:
            return None  # restored: only the state at the end is known

    def _states(self, inputs: Sequence[int]) -> list[SlopState | None]:
        slop = self.slop
        told = None if slop is None else self._is_told(slop)
        if slop is None or told is None:
            return [None] * len(inputs)
        end = slop.at(slop.position)
        return [*[end] * told, *slop.scanner.states(end, inputs[told:])]

    def _count(self, state: SlopState | None) -> int | None:
        if self.slop is None or state is None:
            return None
        return len(self.slop.scanner.penalised(state))

    def counted(self) -> list[tuple[int, int, int]]:
        """Each token that the counting penalties count: seen so often, emitted."""
        if self.counting is None:
            return []
        found = self.counting.leaves()
        emitted = dict(_pairs(found["emitted"]))
        seen = sorted(_pairs(found["seen"]), key=lambda pair: (-pair[1], pair[0]))
        return [(token, times, emitted.get(token, 0)) for token, times in seen]


def _pairs(table: np.ndarray) -> list[tuple[int, int]]:
    return [(int(token), int(times)) for token, times in table]
