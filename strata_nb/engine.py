"""The transaction: what a window is, and the order of run, finish, commit, abort."""

import operator
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np

from strata_nb import refusals
from strata_nb.accept import Choice
from strata_nb.backend import Backend, Chains, Drafting, Text, identity
from strata_nb.draft.head import Drafted, draft_chain
from strata_nb.outcome import outcome
from strata_nb.refusals import Tokens
from strata_nb.state import Leaves, SavedState, digests, load_state, save_state
from strata_nb.trace import Leaf, Trace, check_draft
from strata_nb.undo import Undo
from strata_nb.window import CommitReport, Committed, Result, Window, recorded

PROMPT_ROWS = 256
"""Rows of a prompt window unless the caller asks for others."""


class Engine:
    """One sequence of one model.

    Between two verbs an engine is one immutable value, which a commit replaces;
    so a window that is aborted, or an exception inside a verb, leaves it as it was.

    Args:
        backend: computes the model.
        context: cells that the sequence may have.
        options: how the state is kept, for records and saved files.
        provenance: what the trace says of its origin.
        start: where to begin, an empty sequence when not given.
        model: what knows the text of tokens; the engine itself never asks it.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        context: int,
        options: Mapping[str, str | bool],
        provenance: dict[str, object] | None = None,
        start: Committed | None = None,
        model: Text | None = None,
    ) -> None:
        self.backend = backend
        self.model = model
        self.context = context
        # A view: what a saved file says of an engine cannot be changed from outside.
        self.options = MappingProxyType(dict(options))
        self.trace = Trace(provenance=provenance)
        self._now = start or Committed(backend.initial(), root=None, window=None)
        self._lock = threading.Lock()
        self._seen_shapes: set[tuple[int, bool]] = set()

    def __repr__(self) -> str:
        return f"Engine({self.backend.name!r}, position={self.position})"

    @property
    def _vocabulary(self) -> int:
        return self.backend.config.vocab_size

    @property
    def position(self) -> int:
        """Committed cells; the cell of the next window's row 0."""
        return self.backend.position(self._now.state)

    @property
    def root(self) -> int | None:
        """The token that the last commit decided and nobody has run yet."""
        return self._now.root

    @property
    def window(self) -> Window | None:
        """The open window."""
        return self._now.window

    def prefill(
        self,
        ids: Tokens,
        *,
        chunk: int = PROMPT_ROWS,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Commit a prompt in headless windows; nothing is predicted.

        Args:
            ids: tokens; none at all is allowed and does nothing.
            chunk: rows a window.
            progress: called with (rows done, rows in all) after each window. It may
                raise to cancel: the engine is then as before the call.

        Returns:
            Committed cells.

        Raises:
            ContextLimitError: the prompt does not fit; nothing has changed.
            ValueError: a token or `chunk` is out of range; nothing has changed.
        """
        tokens = refusals.prompt(ids, vocabulary=self._vocabulary)
        if operator.index(chunk) < 1:
            raise ValueError(f"`chunk` is {chunk}, wanted 1 or more rows")
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "prefill")
            refusals.room(len(tokens), self.position, self.context)
            for at in range(0, len(tokens), chunk):
                window = self._run(tokens[at : at + chunk], head=False)
                self._finish(window, stop_ids=(), tokens_left=None, choose=None)
                self._commit(window, window.T, force=False)
                if progress is not None:
                    progress(at + window.T, len(tokens))
        return self.position

    def run(
        self,
        ids: Tokens,
        *,
        head: bool = True,
        drafter: str = "none",
        match_length: int | None = None,
        draft_ms: float | None = None,
    ) -> Window:
        """Run all layers over the rows `ids`; nothing committed changes.

        Args:
            ids: the root and its drafts, 1 to 8 tokens; a prompt window any number.
            head: make predictions. Without it the window is a piece of a prompt, and
                all its rows will be kept.
            drafter: who proposed the drafts, for the record.
            match_length: tokens of history the drafter matched, for the record.
            draft_ms: time it took, for the record.

        Raises:
            WindowOpenError: another window is open.
            ContextLimitError: the rows do not fit in the context.
            ValueError: no rows, too many, or a token outside the vocabulary.
            EngineBusyError: another thread is inside a verb.
        """
        tokens = refusals.tokens(ids, vocabulary=self._vocabulary)
        if refusals.flag("head", head):
            refusals.width(len(tokens))
        check_draft(drafter, match_length, draft_ms)
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "run")
            refusals.room(len(tokens), self.position, self.context)
            window = self._run(tokens, head=head)
            window.drafter, window.match_length = drafter, match_length
            window.draft_ms = draft_ms
            return window

    def _run(self, tokens: tuple[int, ...], *, head: bool) -> Window:
        began = time.perf_counter()
        forward = self.backend.run(self._now.state, tokens, head=head)
        shape = (len(tokens), head)
        window = Window(
            start=self.position,
            inputs=tokens,
            headless=not head,
            run_ms=_since(began),
            warm=shape in self._seen_shapes,
            owner=self,
            forward=forward,
        )
        self._seen_shapes.add(shape)
        self._now = replace(self._now, window=window)
        return window

    def finish(
        self,
        window: Window,
        *,
        stop_ids: Collection[int] | None = None,
        tokens_left: int | None = None,
        choose: Choice | None = None,
    ) -> Result:
        """Choose a token for each row and compare the drafts; nothing is committed.

        Args:
            window: the open window.
            stop_ids: tokens that end the text; None takes the model's, () takes none.
            tokens_left: tokens that may still be emitted; it caps the keep.
            choose: the rule; None takes the best token of each row, the lowest on a
                tie.

        Raises:
            NotFiniteError: a logit is NaN or infinite; abort the window.
            AlreadyFinishedError, WindowClosedError, ForeignWindowError: wrong order.
            ValueError: `tokens_left` is below 1, or `choose` answers with anything but
                a token of the vocabulary for each row.
        """
        stops = self.backend.config.stop_ids if stop_ids is None else stop_ids
        ids = refusals.stop_ids(stops)
        left = None if tokens_left is None else operator.index(tokens_left)
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.not_ours(self, window, "finish")
            refusals.finished(window)
            how = {"stop_ids": ids, "tokens_left": left, "choose": choose}
            return self._finish(window, **how)

    def _finish(self, window: Window, **how: Any) -> Result:
        began = time.perf_counter()
        result = outcome(window, vocabulary=self._vocabulary, **how)
        window.finish_ms = _since(began)
        window.result, window.phase = result, "finished"
        return result

    def commit(
        self,
        window: Window,
        *,
        keep: SupportsIndex | None = None,
        force: bool = False,
    ) -> CommitReport:
        """Keep the first `keep` rows of `window`; nothing of the others stays behind.

        Args:
            window: the open window, already passed to `finish`.
            keep: rows to keep, 1 to the natural keep; None is the natural keep.
            force: allow more, up to T, against the predictions (teacher forcing).

        Returns:
            The next root (the prediction of the last kept row), the new position, the
            record, and digests of the parts on request.

        Raises:
            NotFinishedError, WindowClosedError, ForeignWindowError: wrong order.
            KeepError: `keep` is outside what is allowed; nothing has changed.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.not_ours(self, window, "commit")
            return self._commit(window, keep, force=refusals.flag("force", force))

    def _commit(
        self, window: Window, keep: SupportsIndex | None, *, force: bool
    ) -> CommitReport:
        result = refusals.not_finished(window)
        rows = refusals.keep(window, result, keep, force=force)
        began = time.perf_counter()
        state = self.backend.commit(self._now.state, window.forward.pending, rows)
        record = recorded(
            window, result, rows, options=self.options, commit_ms=_since(began)
        )
        root = result.predictions[rows - 1] if result.predictions else None
        self.trace.append(record)
        window.phase = "committed"
        self._now = Committed(state, root=root, window=None)
        return CommitReport(
            root=root,
            position=self.position,
            keep=rows,
            emitted=record.emitted,
            record=record,
            digests=lambda: self._digests_of(state),
        )

    def abort(self, window: Window) -> None:
        """Drop `window`, as if `run` had not been called.

        Raises:
            WindowClosedError, ForeignWindowError: it is not this engine's open window.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.not_ours(self, window, "abort")
            self._now = replace(self._now, window=None)
            window.phase = "aborted"

    def draft(
        self,
        most: int,
        *,
        root: int | None = None,
        by: Chains | None = None,
        **how: Any,
    ) -> Drafted:
        """Draft up to `most` tokens with the model's own head; nothing changes.

        Args:
            most: tokens at most.
            root: what the draft follows; None: what the last commit decided.
            by: what drafts in the head's place, such as the model beside itself.
            how: `stop_below`, `cut`, `pick`, as `draft.head.draft_chain` takes them.

        Raises:
            WindowOpenError: a window is open.
            NoDraftError: there is no head, no root, or nothing committed to draft from.
            ValueError: `most` or a token is out of range.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "draft")
            first = refusals.draft(self, root, most, by_head=by is None)
            head = cast(Drafting, self.backend)
            if by is None:
                # The same state; kept, so that the next draft need not read it again.
                self._now = replace(self._now, state=head.caught_up(self._now.state))
            row, size = partial((by or head).draft, self._now.state), self._vocabulary
            return draft_chain(row, first, most=most, vocabulary=size, **how)

    def fork(self) -> "Engine":
        """A second engine at the same place; neither can touch the other's state.

        The trace starts empty, with the same provenance.

        Raises:
            WindowOpenError: a window is open.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "fork")
            settled = self.backend.settle(self._now.state)
            self._now = replace(self._now, state=settled)
            return Engine(
                self.backend,
                context=self.context,
                options=self.options,
                provenance=self.trace.provenance,
                start=self._now,
                model=self.model,
            )

    def leaves(self) -> dict[Leaf, np.ndarray]:
        """Live cells of every part of the committed state, as copies."""
        return self.backend.leaves(self._now.state)

    def digests(self) -> dict[str, str]:
        """SHA-256 of each part of the committed state, and the position."""
        return self._digests_of(self._now.state)

    def save(
        self, path: str | os.PathLike[str], *, beside: Leaves = MappingProxyType({})
    ) -> None:
        """Write the committed state to one safetensors file, whole or not at all.

        Args:
            path: of the file.
            beside: of part "session": what another has to say of this state; `restore`
                gives it back.

        Raises:
            WindowOpenError: a window is open.
            OSError: the file cannot be written; an older one survives.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "save")
            leaves = {**self.leaves(), **beside}
            who = identity(self.backend, self.options)
            save_state(path, SavedState(leaves, self.position, self.root, who))

    def restore(self, path: str | os.PathLike[str]) -> Leaves:
        """Take the state of a saved file; the trace stays as it is.

        Returns:
            What was saved beside it, by others.

        Raises:
            WindowOpenError: a window is open.
            SavedStateError: the file is damaged or of another model; nothing changed.
            ContextLimitError: the state is longer than this engine's context.
        """
        refusals.busy(self._lock)
        with self._lock, Undo(self):
            refusals.open_window(self._now.window, "restore")
            who = identity(self.backend, self.options)
            saved = load_state(path, identity=who)
            refusals.saved_room(saved.position, self.context)
            if saved.root is not None:
                refusals.tokens([saved.root], vocabulary=self._vocabulary)
            own, beside = saved.parted("session")
            state = self.backend.from_leaves(own, position=saved.position)
            self._now = Committed(state, root=saved.root, window=None)
            return beside

    def _digests_of(self, state: object) -> dict[str, str]:
        backend = self.backend
        return digests(backend.leaves(state), position=backend.position(state))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "an Engine is not copied or pickled; use `engine.fork()` for a second "
            "sequence, or `engine.save(path)`"
        )


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1e3
