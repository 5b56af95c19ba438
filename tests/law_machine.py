"""The law as a state machine: any verbs, in any order, on several engines.

Beside each engine stands what the law says of it: the tokens it has committed, its
root, its window. What the law refuses has to be refused, and after every rule each
engine must hold the state of plain decoding of its tokens.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

import strata_nb
from helpers import EXACT
from law import ROWS, VOCABULARY, Opened, Plain, Seat, natural_keep, wrong_calls
from strata_nb import errors
from strata_nb.faults import FAULTS
from strata_nb.gates.recipe import Option, Recipe

ATOL = 0.0 if EXACT else 1e-4
MOST = 4  # engines alive
# Below, at and above the sparse threshold (19 cells).
LENGTHS = (*range(1, 8), *range(16, 25))
NEAR_A_PAGE = 254  # cells; a page has 256
TEXT = tuple(int(i) for i in np.random.default_rng(7).integers(0, VOCABULARY, 256))


class Broken(AssertionError):
    """The law does not hold; `cell` does it again."""

    def __init__(
        self, what: str, cell: str, found: Sequence[strata_nb.Difference] = ()
    ) -> None:
        super().__init__(f"{what}\n\nTo see it in a notebook:\n\n{cell}")
        self.cell, self.found = cell, tuple(found)


@dataclass(frozen=True)
class Rows:
    """A window: a root, drafts as plain decoding would say, and others.

    Attributes:
        first: the root; None is what the last commit decided.
        right: drafts that are right, as far as the others leave room.
        wrong: the drafts behind them, whatever they are.
        head: predictions are made; without, there may be more rows.
    """

    first: int | None
    right: int
    wrong: list[int]
    head: bool


which = st.integers(0, MOST - 1)
token = st.integers(0, VOCABULARY - 1)
some = st.integers(0, ROWS - 1)
prompts = st.one_of(
    st.lists(token, max_size=9), st.sampled_from(LENGTHS).map(lambda n: list(TEXT[:n]))
)
windows = st.builds(
    Rows,
    first=st.none() | token,
    right=some,
    wrong=st.lists(token, max_size=ROWS - 1),
    head=st.sampled_from([True, True, True, False]),
)
ends = st.none() | st.lists(token, max_size=2)
limits = st.none() | st.integers(1, ROWS)
# What is left out is the default, so that a shrunk cell names only what matters.
_common = {
    "fold": st.just("eager"),
    "partial": st.just(True),
    "context": st.sampled_from([300, 40, 22]),
}
# Coarse K and V would turn a difference of rounding into a large one.
_coarse = {"kv": st.sampled_from(["bfloat16", "int8"])} if EXACT else {}
kinds = st.fixed_dictionaries({}, optional={**_common, **_coarse})
# In every run the same text, so that its plain decoding is computed once.
starts = st.sampled_from([0, *LENGTHS, NEAR_A_PAGE]).map(lambda n: list(TEXT[:n]))
VERBS = (
    *("look", "row", "drafts", "forced", "run", "finish", "commit", "abort", "prefill"),
    *("another", "fork", "save", "restore", "refuse"),
    # Again, to come more often.
    *("drafts", "forced", "run", "run", "commit", "abort", "restore", "refuse"),
)
ANY = ("idle", "run", "finished")
NEEDS = {"finish": ("run",), "commit": ("finished",), "abort": ("run", "finished")}


class Law(RuleBasedStateMachine):
    """One rule that draws the verb: no run goes without half of them.

    Of several rules Hypothesis turns some off in each run, which finds faults in their
    mixtures late. A verb draws the rest of what it needs.
    """

    plain: Plain
    path: str
    fault: str | None = None
    met: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.seats: list[Seat] = []
        self.saved: dict[str, Seat] = {}

    @initialize(options=kinds, ids=starts)
    def first(self, options: dict[str, Option], ids: list[int]) -> None:
        self.sit(options)
        if self.fault is not None and FAULTS[self.fault].context == "page":
            ids = list(TEXT[:NEAR_A_PAGE])
        elif "kv" in options:
            ids = ids[:24]
        self._prefill(self.seats[0], ids, None)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        possible = [verb for verb in VERBS if self._any(*NEEDS.get(verb, ANY))]
        getattr(self, data.draw(st.sampled_from(possible)))(data.draw)

    def look(self, draw: Any) -> None:
        """Reading changes nothing.

        Hypothesis cannot delete the first step, which has draws of its own, but it can
        make this one of it, of which no line is written.
        """
        for seat in self.seats:
            seat.engine.digests()
            repr(seat.engine)

    def row(self, draw: Any) -> None:
        """One row, as plain decoding has it."""
        root = draw(st.none() | token)
        self.bring(self._one(draw(which), "idle"), "idle", Rows(root, 0, [], True))

    def drafts(self, draw: Any) -> None:
        """The natural keep, or a smaller one."""
        seat = self._one(draw(which), "idle")
        self.bring(seat, "idle", draw(windows), spare=draw(st.just(0) | some))

    def forced(self, draw: Any) -> None:
        """Whatever the model says, all rows but some are kept."""
        seat = self._one(draw(which), "idle")
        self.bring(seat, "idle", draw(windows), spare=draw(some), force=True)

    def run(self, draw: Any) -> None:
        """A window that stays open, finished or not."""
        seat = self._one(draw(which), "idle")
        self._run(seat, draw(windows))
        if seat.phase == "run" and draw(st.booleans()):
            self._finish(seat, draw(ends), draw(limits))

    def finish(self, draw: Any) -> None:
        self._finish(self._one(draw(which), "run"), draw(ends), draw(limits))

    def commit(self, draw: Any) -> None:
        seat = self._one(draw(which), "finished")
        self._commit(seat, draw(some), force=draw(st.booleans()))

    def abort(self, draw: Any) -> None:
        seat = self._one(draw(which), "run", "finished")
        self.do(seat, "abort", seat.open, error=None)
        seat.open, seat.closed = None, seat.open

    def prefill(self, draw: Any) -> None:
        chunk = draw(st.sampled_from([None, 1, 3, 8]))
        self._prefill(self._one(draw(which), "idle"), draw(prompts), chunk)

    def another(self, draw: Any) -> None:
        if len(self.seats) < MOST:
            self.sit(draw(kinds))

    def fork(self, draw: Any) -> None:
        seat = self._one(draw(which), "idle")
        if done := self.do(seat, "fork", error=self._refusal(seat, 0)):
            copied = Seat(done[1], done[0], seat.tokens, seat.root)
            if len(self.seats) < MOST:
                self.seats.append(copied)
            else:
                self.seats[draw(which)] = copied

    def save(self, draw: Any) -> None:
        """To one of two files, which may have an older state."""
        file, seat = draw(st.sampled_from("ab")), self._one(draw(which), "idle")
        if self.do(seat, "save", file, error=self._refusal(seat, 0)):
            self.saved[file] = Seat(seat.engine, seat.recipe, seat.tokens, seat.root)

    def restore(self, draw: Any) -> None:
        if not self.saved:
            return self.save(draw)
        file = draw(st.sampled_from(sorted(self.saved)))
        seat, saved = self._one(draw(which), "idle"), self.saved[file]
        error = self._refusal(seat, 0)
        if error is None and saved.kv != seat.kv:
            error = errors.SavedStateError
        elif error is None and len(saved.tokens) > seat.engine.context:
            error = errors.ContextLimitError
        if self.do(seat, "restore", file, error=error):
            seat.tokens, seat.root = saved.tokens, saved.root
        return None

    def refuse(self, draw: Any) -> None:
        """Calls that are wrong now raise their own errors and change nothing."""
        seat = self._one(draw(which), draw(st.sampled_from(ANY[::-1])))
        calls = wrong_calls(seat, self._one(draw(which), "run", "finished"))
        begin = draw(st.integers(0, len(calls) - 1))
        for call in calls[begin : begin + draw(st.integers(1, 20))]:
            options = dict(call.options)
            self.do(seat, call.verb, *call.given, error=call.error, **options)

    def bring(
        self,
        seat: Seat,
        phase: str,
        rows: Rows,
        *,
        spare: int = 0,
        force: bool = False,
    ) -> None:
        """Open a window and take it to a phase; "idle" is behind its commit."""
        self._run(seat, rows)
        if seat.phase == "run" and phase != "run":
            self._finish(seat, [], None)
            if phase == "idle":
                self._commit(seat, spare, force=force)

    def sit(self, options: dict[str, Option]) -> None:
        if self.fault is not None:
            needs: Any = FAULTS[self.fault].options
            options = {**options, **needs, "fault": self.fault}
        engine = self.plain.model.engine(**options)  # type: ignore[arg-type]
        old = self.seats[0].recipe if self.seats else None
        recipe = old.beside(**options) if old else Recipe(self.path, **options)
        self.seats.append(Seat(engine, recipe))

    def _prefill(self, seat: Seat, ids: list[int], chunk: int | None) -> None:
        error = self._refusal(seat, len(ids))
        rows = 256 if chunk is None else chunk
        options = {} if chunk is None else {"chunk": chunk}
        if ids and self.do(seat, "prefill", ids, error=error, **options):
            seat.tokens += tuple(ids)
            seat.root = None
            seat.records += -(-len(ids) // rows)

    def _run(self, seat: Seat, drawn: Rows) -> None:
        rows = [(seat.root or 0) if drawn.first is None else drawn.first]
        while len(rows) <= drawn.right and len(rows) + len(drawn.wrong) < ROWS:
            rows.append(self.plain.root(seat.kv, (*seat.tokens, *rows)))
        rows += drawn.wrong if drawn.head else [*drawn.wrong, *drawn.wrong]
        error = self._refusal(seat, len(rows))
        options = {} if drawn.head else {"head": False}
        if done := self.do(seat, "run", rows, error=error, **options):
            seat.open = Opened(done[1], done[0])

    def _finish(self, seat: Seat, stops: list[int] | None, left: int | None) -> None:
        assert seat.open is not None
        window = seat.open.window
        options = {"stop_ids": stops, "tokens_left": left}
        result = self.do(seat, "finish", seat.open, error=None, **options)[1]
        expected: tuple[int, ...] = result.predictions
        keep = window.T
        if not window.headless:
            if EXACT and self.fault is None:
                expected = self.plain.predictions(seat.kv, seat.tokens, window.inputs)
            ends = self.plain.model.stop_ids if stops is None else stops
            keep = natural_keep(window.inputs, expected, ends, left)
        if (result.predictions, result.keep) != (expected, keep):
            self._broken(seat, f"{result}, wanted {expected} and to keep {keep}")

    def _commit(self, seat: Seat, spare: int, *, force: bool) -> None:
        """All rows that may be kept but `spare`."""
        assert seat.open is not None
        window, result = seat.open.window, seat.open.window.result
        assert result is not None
        most = window.T if force or window.headless else result.keep
        keep = most if window.headless else max(1, most - spare)
        options = {"keep": keep, **({"force": True} if force else {})}
        self.do(seat, "commit", seat.open, error=None, **options)
        seat.tokens += window.inputs[:keep]
        seat.root = None if window.headless else result.predictions[keep - 1]
        seat.records += 1
        seat.open, seat.closed = None, seat.open

    @invariant()
    def every_engine_holds_the_state_of_plain_decoding(self) -> None:
        for seat in self.seats:
            plain = self.plain.after(seat.kv, seat.tokens)
            found = strata_nb.diff(seat.engine, plain, atol=ATOL)
            if found:
                self._broken(seat, "not the state of plain decoding", found)
            engine = seat.engine
            window = seat.open.window if seat.open else None
            got = (engine.position, engine.root, engine.window, len(engine.trace))
            wanted = (len(seat.tokens), seat.root, window, seat.records)
            if got != wanted:
                self._broken(seat, f"position, root, window, records {got} != {wanted}")

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _any(self, *phases: str) -> bool:
        return any(seat.phase in phases for seat in self.seats)

    def _one(self, which: int, *phases: str) -> Seat:
        """An engine in one of `phases` if there is any, else another."""
        there = [seat for seat in self.seats if seat.phase in phases] or self.seats
        return there[which % len(there)]

    def _refusal(self, seat: Seat, rows: int) -> type[Exception] | None:
        if seat.open is not None:
            return errors.WindowOpenError
        return errors.ContextLimitError if rows > seat.room else None

    def do(
        self,
        seat: Seat,
        verb: str,
        *given: Any,
        error: type[Exception] | None,
        **options: Any,
    ) -> Any:
        """Write the call down and make it; what both return, None where refused."""
        named = [x.name if isinstance(x, Opened) else x for x in given]
        real: list[Any] = [x.window if isinstance(x, Opened) else x for x in given]
        if verb in ("save", "restore"):
            real = [self.folder / x for x in real]
        with seat.recipe.refused() if error else nullcontext():
            written = getattr(seat.recipe, verb)(*named, **options)
        self.met[error.__name__ if error else verb] += 1
        before = seat.told() if error else None
        try:
            returned = getattr(seat.engine, verb)(*real, **options)
        except Exception as raised:
            if type(raised) is not error:
                self._broken(seat, f"{verb} raised {raised!r}, wanted {error}")
            if seat.told() != before:
                self._broken(seat, f"{verb} raised {raised!r} and changed something")
            return None
        if error is not None:
            self._broken(seat, f"{verb} was not refused, wanted {error}")
        return written, returned

    def _broken(
        self, seat: Seat, what: str, found: Sequence[strata_nb.Difference] = ()
    ) -> None:
        watch = () if found else ("position", "root", "window")
        cell = seat.recipe.cell(atol=ATOL, watch=watch)
        raise Broken("\n".join([what, *map(str, found)]), cell, found)


def law_of(plain: Plain, path: Path, *, fault: str | None = None) -> type[Law]:
    """The machine for one model, with or without a fault.

    Args:
        plain: plain decoding by the model, which has 17 tokens.
        path: where the cell loads the model from.
        fault: planted into every engine, never into plain ones.
    """
    members = {"plain": plain, "path": str(path), "fault": fault, "met": Counter()}
    return type("Law", (Law,), members)
