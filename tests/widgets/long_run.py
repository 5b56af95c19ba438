"""A long run, views of it that grow, and what they send and read on the way."""

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import numpy as np

from strata_nb import Trace, WindowRecord
from strata_nb.trace import LayerDecisions, window_record
from strata_widgets import (
    Acceptance,
    Economics,
    ExpertMap,
    FoldView,
    Histories,
    SlotsAndIO,
    Timeline,
)
from strata_widgets.panel import Panel
from strata_widgets.trace_view import TraceView
from widgets.fake_model import VOCABULARY, FakeModel

LAYERS, EXPERTS, CHOSEN, ROWS = 4, 64, 16, 8
KINDS: Final = (
    "Timeline",
    "Acceptance",
    "Economics",
    "ExpertMap",
    "SlotsAndIO",
    "FoldView",
    "Histories",
)


@cache
def _some(count: int = 40) -> tuple[WindowRecord, ...]:
    """Windows of 1 to 8 rows, 16 experts a row, most of them of 8 rows."""
    rng = np.random.default_rng(7)
    made = []
    for number in range(count):
        T = ROWS if number % 4 else 1 + number // 4 % ROWS
        accepted = int(rng.integers(0, T))
        inputs = rng.integers(1, len(VOCABULARY), T).tolist()
        # A row predicts the next input as far as drafts are accepted, else another.
        after = [inputs[(row + 1) % T] for row in range(T)]
        said = [t if row < accepted else 1 + t % 15 for row, t in enumerate(after)]
        decisions = []
        for _ in range(LAYERS):
            ids = np.array([rng.permutation(EXPERTS)[:CHOSEN] for _ in range(T)])
            union = len(np.unique(ids))
            miss = int(rng.integers(0, union))
            counts = {"resident": union - miss, "miss": miss, "late": 0}
            counts |= {"prefetched": 1, "evicted": miss, "bytes_read": miss * 4096}
            counts["prefetched_bytes"] = min(miss, 1) * 4096
            decisions.append(LayerDecisions(expert_ids=ids, measured=counts))
        made.append(
            window_record(
                position=0,
                inputs=inputs,
                keep=accepted + 1,
                predictions=said,
                emitted=said[: accepted + 1],
                offered=T - 1,
                accepted=accepted,
                rule="greedy",
                drafter="lookup" if T > 1 else "none",
                match_length=6 if T > 1 else None,
                decisions=decisions,
                fold="lazy",
                partial=True,
                warm=True,
                draft_ms=0.25,
                run_ms=10.0 + T,
                expert_wait_ms=2.0,
                finish_ms=0.25,
                commit_ms=0.5,
            )
        )
    return tuple(made)


def endless() -> Iterator[WindowRecord]:
    """Windows, one behind the other."""
    position = 0
    while True:
        for record in _some():
            yield replace(record, position=position)
            position += record.keep


def records(windows: int) -> list[WindowRecord]:
    """The first windows of the run."""
    return [record for record, _ in zip(endless(), range(windows), strict=False)]


@dataclass
class Growing:
    """A view, and what gives it one window more."""

    view: TraceView
    add: Callable[[], None]

    def grow(self) -> None:
        self.add()
        self.view.refresh()


def growing(kind: str, windows: int, *, model: Any = None) -> Growing:
    """A view of a run of so many windows, which can go on."""
    model = FakeModel() if model is None else model
    if kind == "Histories":
        return _growing_histories(windows, model)
    coming = endless()
    trace = Trace(next(coming) for _ in range(windows))
    made: dict[str, Callable[[], TraceView]] = {
        "Timeline": lambda: Timeline(trace),
        "Acceptance": lambda: Acceptance(trace, model=model),
        "Economics": lambda: Economics(trace),
        "ExpertMap": lambda: ExpertMap(trace, experts=EXPERTS, chosen=CHOSEN),
        "SlotsAndIO": lambda: SlotsAndIO(trace),
        "FoldView": lambda: FoldView(trace),
    }
    return Growing(made[kind](), lambda: trace.append(next(coming)))


def _growing_histories(windows: int, model: Any) -> Growing:
    engine = model.engine(context=20_000)
    rng = np.random.default_rng(3)
    tokens = rng.integers(1, len(VOCABULARY), windows).tolist()
    engine.prefill(tokens, chunk=1)

    def add() -> None:
        window = engine.run(rng.integers(1, len(VOCABULARY), 3).tolist())
        engine.finish(window)
        engine.commit(window, keep=2, force=True)

    return Growing(Histories(engine), add)


@dataclass
class Wire:
    """What a view and its charts send from here on, without the pace of a page."""

    sent: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, view: Panel) -> "Wire":
        """Listen to `view`: rows, states, whatever a page would get."""
        wire = cls()
        for name, part in {"panel": view, **view._live}.items():
            wire.listen(name, part)
        return wire

    def listen(self, name: str, part: Any) -> None:
        """Listen to one widget."""
        heard = self.sent.setdefault(name, [])

        def send(data: Any, **_: Any) -> None:
            # A copy as it is now: whoever sent it may change it later.
            heard.append(json.loads(json.dumps(data)))

        part.comm.send = send
        part._pace._gap = 0

    def taken(self) -> dict[str, list[dict[str, Any]]]:
        """What came since the last call."""
        came = {name: list(messages) for name, messages in self.sent.items()}
        for messages in self.sent.values():
            messages.clear()
        return came


def size(messages: list[dict[str, Any]]) -> int:
    """Bytes of `messages` as JSON."""
    return sum(len(json.dumps(message)) for message in messages)


def rows_of(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The rows in a message; None: it has other things."""
    content = message.get("content") or {}
    return content["rows"] if content.get("kind") == "rows" else None


def held(thing: Any, *, beside: tuple[Any, ...] = ()) -> int:
    """Entries of all lists, dicts and sets that `thing` holds, `beside` left out."""
    seen, count, todo = {id(each) for each in beside}, 0, [thing]
    while todo:
        now = todo.pop()
        if id(now) in seen or isinstance(now, type | str | bytes | int | float):
            continue
        seen.add(id(now))
        if isinstance(now, dict):
            count += len(now)
            todo += [*now.values()]
        elif isinstance(now, array):
            continue  # an index of numbers: a few bytes a window
        elif hasattr(now, "__iter__") and hasattr(now, "__len__"):
            count += len(now)
            todo += [] if isinstance(now, np.ndarray) else list(now)
        elif hasattr(now, "__dict__") and not callable(now):
            todo.append(vars(now))
    return count
