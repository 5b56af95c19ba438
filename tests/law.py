"""What the engine's law says: the state of plain decoding, and what is refused."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import strata_nb
from helpers import advance
from strata_nb import errors
from strata_nb.engine import Engine
from strata_nb.gates.recipe import Name, Recipe
from tiny import small_config

ROWS = 8
VOCABULARY = int(small_config()["vocab_size"])
_KNOWN = 1000


class Plain:
    """Plain decoding, one row a window; what is known already is not computed again."""

    def __init__(self, model: strata_nb.Model) -> None:
        self.model = model
        self._known: OrderedDict[tuple[str, tuple[int, ...]], Engine] = OrderedDict()

    def after(self, kv: str, tokens: tuple[int, ...]) -> Engine:
        """An engine that committed `tokens`, to look at."""
        count = len(tokens)
        while count and (kv, tokens[:count]) not in self._known:
            count -= 1
        start = kv, tokens[:count]
        if start not in self._known:
            self._known[start] = self.model.engine(kv=kv)  # type: ignore[arg-type]
        engine = self._known[start]
        self._known.move_to_end(start)
        for end in range(count, len(tokens)):
            engine = engine.fork()
            advance(engine, [tokens[end]])
            self._known[kv, tokens[: end + 1]] = engine
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return engine

    def predictions(
        self, kv: str, tokens: tuple[int, ...], rows: Sequence[int]
    ) -> tuple[int, ...]:
        """What plain decoding says after each of `rows`."""
        ends = range(1, len(rows) + 1)
        return tuple(self.root(kv, (*tokens, *rows[:end])) for end in ends)

    def root(self, kv: str, tokens: tuple[int, ...]) -> int:
        """The token after `tokens`."""
        root = self.after(kv, tokens).root
        assert root is not None
        return root


@dataclass(frozen=True)
class Opened:
    """A window, by its name in the cell too."""

    window: strata_nb.Window
    name: Name


@dataclass(eq=False)
class Seat:
    """One engine, and what the law says of it."""

    engine: Engine
    recipe: Recipe
    tokens: tuple[int, ...] = ()
    root: int | None = None
    open: Opened | None = None
    closed: Opened | None = None
    records: int = 0

    @property
    def kv(self) -> str:
        return str(self.engine.options["kv"])

    @property
    def room(self) -> int:
        return self.engine.context - len(self.tokens)

    @property
    def phase(self) -> str:
        """ "idle", "run" or "finished"."""
        return "idle" if self.open is None else self.open.window.phase

    def told(self) -> tuple[object, ...]:
        """All that a refused call must leave as it is."""
        engine, window = self.engine, self.engine.window
        phase = None if window is None else (window.phase, window.result)
        leaves = {leaf: array.tobytes() for leaf, array in engine.leaves().items()}
        return engine.position, engine.root, window, phase, len(engine.trace), leaves


@dataclass(frozen=True)
class Wrong:
    """A call that the law refuses."""

    error: type[Exception]
    verb: str
    given: tuple[object, ...] = ()
    options: tuple[tuple[str, object], ...] = ()


def natural_keep(
    rows: Sequence[int],
    predictions: Sequence[int],
    stop_ids: Sequence[int],
    left: int | None,
) -> int:
    """The root, and drafts as long as they are what the model says and go on."""
    keep = 1
    while (
        keep < len(rows)
        and rows[keep] == predictions[keep - 1]
        and predictions[keep - 1] not in stop_ids
        and (left is None or keep < left)
    ):
        keep += 1
    return keep


def wrong(
    error: type[Exception], verb: str, *given: object, **options: object
) -> Wrong:
    return Wrong(error, verb, given, tuple(options.items()))


def wrong_calls(seat: Seat, other: Seat) -> list[Wrong]:
    """Calls that `seat` refuses as it is now, the simplest last."""
    found = _wrong_windows(seat, other)
    if seat.open is not None:
        found += _wrong_ends(seat.open)
        found += [
            wrong(errors.WindowOpenError, "run", [0]),
            wrong(errors.WindowOpenError, "prefill", [0]),
            wrong(errors.WindowOpenError, "prefill", []),
            wrong(errors.WindowOpenError, "fork"),
            wrong(errors.WindowOpenError, "save", "a"),
            wrong(errors.WindowOpenError, "restore", "a"),
        ]
    else:
        found.append(wrong(errors.SavedStateError, "restore", "nothing"))
        if seat.room < 300:
            long = [0] * (seat.room + 1)
            found.append(wrong(errors.ContextLimitError, "prefill", long))
    return [
        *found,
        wrong(ValueError, "run", [VOCABULARY]),
        wrong(ValueError, "run", [-1]),
        wrong(ValueError, "run", [0] * (ROWS + 1)),
        wrong(ValueError, "run", []),
        wrong(ValueError, "prefill", [VOCABULARY]),
    ]


def _wrong_windows(seat: Seat, other: Seat) -> list[Wrong]:
    """Windows of another engine, and one that is done with."""
    foreign = None if other is seat else other.open or other.closed
    kinds: list[tuple[type[Exception], Opened | None]] = [
        (errors.WindowClosedError, seat.closed),
        (errors.ForeignWindowError, foreign),
    ]
    return [
        wrong(error, verb, opened, **({"keep": 1} if verb == "commit" else {}))
        for error, opened in kinds
        if opened is not None
        for verb in ("commit", "finish", "abort")
    ]


def _wrong_ends(opened: Opened) -> list[Wrong]:
    """`finish` and `commit` out of order, or with a wrong keep."""
    window, result = opened.window, opened.window.result
    if result is None:
        return [wrong(errors.NotFinishedError, "commit", opened, keep=1)]
    keeps = [(result.keep + 1, False), (window.T + 1, True), (0, False), (-1, True)]
    if window.headless and window.T > 1:
        keeps.append((window.T - 1, True))
    return [
        wrong(errors.AlreadyFinishedError, "finish", opened),
        *(
            wrong(errors.KeepError, "commit", opened, keep=keep, force=force)
            for keep, force in keeps
        ),
    ]
