"""Places that an engine can go back to: a fork of it behind each committed window."""

import operator
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

from strata_nb import Engine, WindowRecord
from strata_nb.trace.summary import predicting
from strata_widgets.stepper import words

NEWEST = 32
"""Checkpoints that are kept, unless somebody asks for more or fewer."""


@dataclass(frozen=True)
class Checkpoint:
    """An engine that nobody advances, and where its trace ended.

    Attributes:
        engine: a fork, which has the state and the root.
        windows: how many had predicted something.
        records: all windows that the trace had, headless ones too.
        last: the record of the last of them; None for a trace without any.
    """

    engine: Engine
    windows: int
    records: int
    last: WindowRecord | None

    @property
    def position(self) -> int:
        """Committed cells."""
        return self.engine.position

    def leads_to(self, engine: Engine) -> bool:
        """Whether the trace of `engine` still begins as it was here."""
        trace, count = engine.trace, self.records
        return count <= len(trace) and (not count or trace[count - 1] is self.last)


class Checkpoints:
    """The newest checkpoints, so many and no more; the oldest is dropped.

    Each holds what a fork has of its own: the recurrent states and up to a page (256
    cells) of keys and values. Full pages are shared.

    Args:
        most: checkpoints kept, 0 or more.

    Raises:
        ValueError: `most` is below 0.
    """

    def __init__(self, most: SupportsIndex) -> None:
        count = operator.index(most)
        if count < 0:
            raise ValueError(
                f"`checkpoints` is {count}, wanted 0 or more; 0 keeps none"
            )
        self._kept: deque[Checkpoint] = deque(maxlen=count)

    def add(self, engine: Engine) -> None:
        """Keep the place where `engine` is now.

        What was kept at this cell or behind it belongs to another text by now.
        """
        if self._kept.maxlen == 0:
            return
        trace = engine.trace
        last = trace[-1] if len(trace) else None
        made = Checkpoint(engine.fork(), len(predicting(trace)), len(trace), last)
        self._only(c for c in self._kept if c.position < made.position)
        self._kept.append(made)

    def behind(self, engine: Engine) -> list[Checkpoint]:
        """Where `engine` can go back to, the newest first."""
        here = engine.position
        kept = reversed(self._kept)
        return [c for c in kept if c.position < here and c.leads_to(engine)]

    def go_back(self, engine: Engine, position: SupportsIndex | None) -> Checkpoint:
        """Put `engine` where it was at a checkpoint, its trace too.

        Later checkpoints are dropped: what they hold is undone.

        Args:
            engine: has no open window.
            position: committed cells there; None is the newest before this cell.

        Returns:
            The checkpoint.

        Raises:
            ValueError: no checkpoint is there.
            OSError: the state cannot be handed over, which takes a file.
        """
        places = self.behind(engine)
        wanted = None if position is None else operator.index(position)
        found = [c for c in places if wanted in (None, c.position)]
        if not found:
            here = [c.position for c in reversed(places)]
            raise ValueError(words.no_checkpoint(wanted, here))
        _hand_over(found[0].engine, engine)
        engine.trace.truncate(found[0].records)
        self._only(c for c in self._kept if c.position <= found[0].position)
        return found[0]

    def _only(self, kept: Iterable[Checkpoint]) -> None:
        self._kept = deque(kept, maxlen=self._kept.maxlen)


def _hand_over(source: Engine, target: Engine) -> None:
    """Give `target` the state of `source`.

    By a file that lives no longer than this call: an engine takes a state from nowhere
    else, and so a checkpoint passes every check that a saved engine passes.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="strata-") as folder:
            file = Path(folder) / "checkpoint.safetensors"
            source.save(file)
            target.restore(file)
    except OSError as error:
        raise OSError(words.no_room(tempfile.gettempdir(), error)) from error
