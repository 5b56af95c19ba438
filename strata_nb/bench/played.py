"""Length policies played through recorded courses: exact, and without the model.

What a window would have kept and which experts it would have used is in the recording,
and so is what it costs: a replay repeats to the digit. Experts that are not all in
memory are played through slots, and each that is missing costs a load.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from strata_nb.bench.courses import Course, Prices, Recording
from strata_nb.bench.memory import RESIDENT, Memory
from strata_nb.experts.replay import PlayedSlots
from strata_nb.policies.length import Fixed, Length, Offer, Paid, cut_by
from strata_nb.refusals import MAX_ROWS


@dataclass(frozen=True)
class Window:
    """A window that a policy would have run.

    Attributes:
        position: the cell of row 0.
        rows: T.
        accepted: of its drafts.
        emitted: what the text gained.
        match_length: of its draft.
        misses: experts that were in no slot, over all layers.
        union: distinct experts, over all layers.
        draft_ms: the share of `ms` that looks for a draft.
        ms: what all of it took.
        wait_ms: the share of `ms` that waits for experts.
    """

    position: int
    rows: int
    accepted: int
    emitted: tuple[int, ...]
    match_length: int | None
    misses: int
    union: int
    draft_ms: float
    ms: float = 0.0
    wait_ms: float = 0.0

    @property
    def keep(self) -> int:
        """Rows that are kept."""
        return self.accepted + 1


@dataclass
class Player:
    """Plays texts one after the other, as one session answers requests.

    Attributes:
        prices: of windows, drafts and loads.
        memory: where the experts are.
        ratio: cells a block, R.
    """

    prices: Prices
    memory: Memory = RESIDENT
    ratio: int = 4
    _slots: PlayedSlots | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.memory.slots is not None:
            self._slots = PlayedSlots(
                self.memory.slots, residency=self.memory.residency
            )

    def play(self, course: Course, length: Length) -> tuple[Window, ...]:
        """The windows that a session with `length` would have run on this text.

        Args:
            course: of the text.
            length: the policy; it learns from each window what the prices say.

        Raises:
            ValueError: the policy wants rows that there cannot be.
        """
        found: list[Window] = []
        at = 0
        while at < len(course.spots):
            most = min(MAX_ROWS, course.max_new - at)
            at_most = length.rows(
                course.spots[at].position, most=most, ratio=self.ratio
            )
            if not 1 <= at_most <= most:
                raise ValueError(
                    f"the length policy {length.name!r} wants {at_most} rows, wanted 1 "
                    f"to {most}"
                )
            rows = cut_by(length, self._offer(course, at, at_most - 1))
            window = self._window(course, at, rows, drafted=at_most > 1)
            found.append(window)
            _teach(length, window)
            at += window.keep
        return tuple(found)

    def _offer(self, course: Course, at: int, most: int) -> Offer:
        """Who looks for no draft learns of no match."""
        spot = course.spots[at]
        chances = spot.chances if most else None
        return Offer(
            position=spot.position,
            tokens=spot.draft[:most],
            match_length=spot.match_length if most else None,
            chances=None if chances is None else chances[:most],
            ratio=self.ratio,
        )

    def _window(self, course: Course, at: int, rows: int, *, drafted: bool) -> Window:
        spot = course.spots[at]
        accepted = min(spot.accepted, rows - 1)
        unions = spot.unions(rows)
        misses = 0 if self._slots is None else self._slots.window(unions)
        window = Window(
            position=spot.position,
            rows=rows,
            accepted=accepted,
            emitted=course.tokens[at : at + accepted + 1],
            match_length=spot.match_length if drafted else None,
            misses=misses,
            union=sum(map(len, unions.values())),
            draft_ms=self.prices.draft_ms[course.drafter] if drafted else 0.0,
        )
        return self.priced(window)

    def priced(self, window: Window) -> Window:
        """The same window at the prices of this player.

        Args:
            window: played with slots as here, at whatever prices.
        """
        compute = self.prices.window_ms[window.rows - 1]
        wait = self.memory.wait_ms(
            window.misses,
            compute_ms=compute,
            draft_ms=window.draft_ms,
            layer_ms=self.prices.layer_ms,
        )
        ms = window.draft_ms + compute + wait
        return replace(window, ms=ms, wait_ms=wait)


def _teach(length: Length, window: Window) -> None:
    learn: Callable[[Paid], None] | None = getattr(length, "learn", None)
    if learn is not None:
        learn(
            Paid(
                rows=window.rows,
                keep=window.keep,
                match_length=window.match_length,
                position=window.position,
                ms=window.ms,
                cold=window.misses,
                wait_ms=window.wait_ms,
                draft_ms=window.draft_ms,
                decided=window.accepted + (window.keep < window.rows),
                emitted=window.emitted,
            )
        )


@dataclass(frozen=True)
class Row:
    """One policy on one kind of prompts.

    Attributes:
        kind: of the prompts.
        memory: its name.
        policy: its name.
        tokens: emitted in all.
        windows: in all.
        ms: in all.
        speed: tokens/s over those of one row a window, same texts and memory.
        mean_rows: T, the mean of the windows.
        acceptance: of offered drafts; None without any.
        union: distinct experts of a layer and window, the mean.
        misses: experts that were in no slot, in all.
        bytes_read: for them.
    """

    kind: str
    memory: str
    policy: str
    tokens: int
    windows: int
    ms: float
    speed: float
    mean_rows: float
    acceptance: float | None
    union: float
    misses: int
    bytes_read: int


FIXED: Mapping[str, Callable[[], Length]] = {
    f"T = {rows}": partial(Fixed, rows) for rows in range(1, MAX_ROWS + 1)
}
"""Every length there is, chosen once and kept."""


def compared(
    recording: Recording,
    policies: Mapping[str, Callable[[], Length]],
    *,
    memories: Sequence[Memory] = (RESIDENT,),
    drafter: str | None = None,
    ratio: int = 4,
) -> Iterator[Row]:
    """Every policy on every kind of prompts and memory, one row each.

    A policy is made anew for each kind and memory, and goes through the texts of the
    kind one after the other, as in one session; so do the slots.

    Args:
        recording: of the texts.
        policies: makes each, by name.
        memories: where the experts are.
        drafter: whose courses; None: the first there is.
        ratio: cells a block, R.

    Raises:
        ValueError: as `play` raises, or there is no such course.
    """
    ways: list[tuple[str, Callable[[], Length]]] = [("", partial(Fixed, 1))]
    ways += policies.items()
    for kind in recording.kinds:
        courses = recording.of(kind, drafter=drafter)
        layers = courses[0].spots[0].routes.shape[1]
        # Who learns nothing decides the same at all prices, and is played once.
        known: dict[tuple[str, int | None, str], list[Window]] = {}
        for memory in memories:
            played = {}
            for name, make in ways:
                player, length = Player(recording.prices, memory, ratio), make()
                key = (name, memory.slots, memory.residency.name)
                if hasattr(length, "learn") or key not in known:
                    known[key] = [w for c in courses for w in player.play(c, length)]
                played[name] = [player.priced(window) for window in known[key]]
            plain = played.pop("")
            for name, windows in played.items():
                yield _row((kind, memory.name, name), windows, plain, layers, recording)


def _row(
    names: tuple[str, str, str],
    windows: Sequence[Window],
    plain: Sequence[Window],
    layers: int,
    recording: Recording,
) -> Row:
    kind, memory, policy = names
    ms = math.fsum(window.ms for window in windows)
    offered = sum(window.rows - 1 for window in windows)
    misses = sum(window.misses for window in windows)
    accepted = sum(window.accepted for window in windows)
    return Row(
        kind=kind,
        memory=memory,
        policy=policy,
        tokens=sum(len(window.emitted) for window in windows),
        windows=len(windows),
        ms=ms,
        # The tokens are the same: the times tell all.
        speed=math.fsum(window.ms for window in plain) / ms,
        mean_rows=1 + offered / len(windows),
        acceptance=accepted / offered if offered else None,
        union=sum(window.union for window in windows) / len(windows) / layers,
        misses=misses,
        bytes_read=misses * recording.prices.expert_bytes,
    )
