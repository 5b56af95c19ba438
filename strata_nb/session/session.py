"""Requests one after another on one model: what they share is computed once."""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from strata_nb import faults, refusals
from strata_nb.draft import Drafter, chosen_of, follow, head_for, tell_routes
from strata_nb.engine import Engine
from strata_nb.model import Model
from strata_nb.policies.length import FREE, Length
from strata_nb.sampling import GREEDY, Adjustment, Sampling
from strata_nb.session import presets, saved, spell
from strata_nb.session.histories import Histories
from strata_nb.session.place import Place, Ring
from strata_nb.session.reply import End, Reply
from strata_nb.session.request import Request, Transcript
from strata_nb.session.text import TextStream
from strata_nb.session.window import Done, How, advance
from strata_nb.state import Leaves
from strata_nb.trace import Trace, WindowRecord


class Session:
    """Answers requests: each gives its whole text, and only what is new is run.

    A request that begins like what the session holds goes on from there, or from the
    nearest checkpoint; nothing of a text that it does not share is left in any state.
    Whatever a request raises, the session is then as before it.

    Args:
        model: a loaded model.
        preset: settings by name ("seed_stage1"); None: those given here.
        drafter: proposes drafts; None: none, one row a window.
        sampling: how a token is chosen; greedy when not given.
        adjustments: change logits before the choice: penalties, bans, processors.
        length: how many rows a window has; as many as there is room for when not given.
        pad_id: this token in a prompt is a pad: a cell like any other, but in no
            history of drafter or penalties.
        checkpoints: places kept to go back to, the oldest dropped.
        checkpoint_every: cells of a prompt between two of them; None: one behind each
            prompt and one behind each answer.
        fault: a defect to plant, of the engine or of a policy, named in
            `strata_nb.faults`.
        options: of the engine, as `Model.engine` takes them.

    Raises:
        ValueError: a setting is not one of those offered, or does not go with another.
    """

    def __init__(
        self,
        model: Model,
        *,
        preset: str | None = None,
        drafter: Drafter | None = None,
        sampling: Sampling = GREEDY,
        adjustments: Sequence[Adjustment] = (),
        length: Length | None = None,
        pad_id: int | None = None,
        checkpoints: int = 4,
        checkpoint_every: int | None = None,
        fault: str | None = None,
        **options: Any,
    ) -> None:
        if preset is not None:
            chosen = presets.find(preset, sampling)
            # Not by `or`: a drafter with an empty history may count as nothing.
            drafter = chosen.drafter() if drafter is None else drafter
            length = chosen.length if length is None else length
        if checkpoints < 0:
            raise ValueError(f"`checkpoints` is {checkpoints}, wanted 0 or more")
        if checkpoint_every is not None and checkpoint_every < 1:
            raise ValueError(
                f"`checkpoint_every` is {checkpoint_every}, wanted 1 or more cells"
            )
        refusals.pad(pad_id, vocabulary=model.config.vocab_size)
        in_policy = fault if fault in faults.POLICY_FAULTS else None
        if fault is not None and in_policy is None:
            options["fault"] = fault
        if (mtp := head_for(drafter)) is not None:
            options.setdefault("mtp", mtp)
        self.model = model
        self.histories = Histories.made(
            sampling, adjustments, drafter=drafter, pad_id=pad_id, fault=in_policy
        )
        self._length = FREE if length is None else length
        self._every = checkpoint_every
        self._options = options
        self._now = Place(model.engine(**options), ())
        self._text = Transcript()
        self._ring = Ring(checkpoints)
        self._spell = spell.Spell()
        self._lock = threading.Lock()
        self.trace = Trace(provenance=self._now.engine.trace.provenance)

    def __repr__(self) -> str:
        return f"Session({self.model.name!r}, position={self.position})"

    @property
    def position(self) -> int:
        """Committed cells."""
        return len(self._now.cells)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and emitted tokens of the last request; the last is not run yet."""
        return self._text.ids

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Cells of each checkpoint, the oldest first."""
        return self._ring.positions

    def leaves(self) -> Leaves:
        """Copies of the whole state: the engine's parts, penalties, drafter."""
        return {**self._now.engine.leaves(), **self.histories.leaves()}

    def engine(self) -> Engine:
        """A copy of the engine as it stands, to take apart."""
        return self._now.engine.fork()

    def reply(
        self,
        prompt: str | Sequence[int],
        *,
        max_new: int,
        stop: Sequence[str] = (),
        stop_ids: Collection[int] | None = None,
        show: Callable[[str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
        cancel: Callable[[], bool] | None = None,
    ) -> Reply:
        """Answer a request.

        Args:
            prompt: its whole text, or its tokens.
            max_new: tokens to emit at most; 0 does nothing.
            stop: strings that end the text, wherever token borders lie.
            stop_ids: tokens that end the text; None takes the model's.
            show: called with each piece of text as soon as it is certain.
            progress: called with (rows done, rows in all) while a prompt is read.
            cancel: asked between windows, True ends the text there; another thread may
                set what it looks at.

        Raises:
            ValueError: no prompt, a token outside the vocabulary, a negative `max_new`,
                an empty stop string.
            ContextLimitError: the prompt leaves no cell for an answer.
            EngineBusyError: another thread is inside a request.
        """
        ids = self.model.encode(prompt) if isinstance(prompt, str) else prompt
        tokens = refusals.prompt(ids, vocabulary=self.model.config.vocab_size)
        text = Transcript(tokens, len(tokens))
        return self._reply(
            Request(text, max_new, stop, stop_ids, show, progress, cancel)
        )

    def chat(self, messages: Sequence[Mapping[str, object]], **how: Any) -> Reply:
        """Answer a conversation, by the checkpoint's chat template.

        Args:
            messages: each with "role" and "content", oldest first.
            how: as `reply` takes it.

        Raises:
            CheckpointError: the checkpoint has no template, or it refuses.
        """
        return self.reply(self.model.chat(messages), **how)

    def go_on(self, *, max_new: int, **how: Any) -> Reply:
        """Emit more after the last request, as if it had been allowed more.

        Args:
            max_new: tokens to emit at most.
            how: as `reply` takes it.

        Raises:
            ValueError: there was no request yet.
        """
        return self._reply(Request(self._text, max_new, **how))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to one file, whole or not at all; checkpoints stay here.

        Raises:
            OSError: the file cannot be written; an older one survives.
            EngineBusyError: another thread is inside a request.
        """
        refusals.busy(self._lock)
        with self._lock:
            saved.save(path, self._now.engine, self._text)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Take up a session from its file; checkpoints and trace stay as they are.

        Raises:
            SavedStateError: the file is damaged or does not fit; nothing has changed.
            ContextLimitError: its text is longer than this session's context.
        """
        refusals.busy(self._lock)
        with self._lock, _Undo(self):
            engine = self.model.engine(**self._options)
            self._text = saved.restore(path, engine)
            self._now = Place(engine, self._text.ids[:-1])
            self._ring.add(self._now)
            self.histories.assign(self._text)

    def _reply(self, request: Request) -> Reply:
        if request.text.ids[-1] == self.histories.pad_id:
            raise ValueError(
                "a request wants a token to go on from, got a pad at its end; leave "
                "pads out there"
            )
        stream = TextStream(self.model.tokenizer, stop=request.stop, show=request.show)
        refusals.busy(self._lock)
        with self._lock, _Undo(self):
            return self._answer(request, stream)

    def _answer(self, request: Request, stream: TextStream) -> Reply:
        tally = _Tally(request.text.prompt)
        if request.max_new == 0:
            return tally.reply(stream, "limit")
        place = self._nearest(request.text.ids[:-1])
        tally.reused = len(place.cells)
        try:
            engine = self._read(place, request)
        except _Cancelled:
            return tally.reply(stream, "cancelled")
        for record in engine.trace:
            self._note(record)
        self.histories.assign(request.text)
        tally.decode()
        stop = self._decode(engine, request, stream, tally)
        stream.close()
        ids = (*request.text.ids, *tally.emitted)
        self._text = Transcript(ids, request.text.prompt)
        # A fork has no trace of its own, and nobody will move it.
        self._now = Place(engine.fork(), ids[:-1])
        self._ring.add(self._now)
        return tally.reply(stream, stop)

    def _nearest(self, cells: tuple[int, ...]) -> Place:
        """The place from which least is left to do to hold `cells`."""
        found = self._ring.longest(cells)
        if self._now.leads_to(cells) and (
            found is None or self.position >= len(found.cells)
        ):
            return self._now
        return found or Place(self.model.engine(**self._options), ())

    def _read(self, place: Place, request: Request) -> Engine:
        """An engine that holds all tokens of the request but the last."""
        cells, reused = request.text.ids[:-1], len(place.cells)
        engine = place.engine.fork()
        refusals.room(len(cells) - reused + 1, reused, engine.context)
        cancel, progress, at = request.cancel, request.progress, reused

        def tell(done: int, _: int) -> None:
            if cancel is not None and cancel():
                raise _Cancelled
            if progress is not None:
                progress(at - reused + done, len(cells) - reused)

        if cancel is not None and cancel():
            raise _Cancelled
        for end in self._ends(reused, len(cells)):
            engine.prefill(cells[at:end], progress=tell)
            at = end
            self._ring.add(Place(engine.fork(), cells[:end]))
        return engine

    def _ends(self, first: int, last: int) -> list[int]:
        """Where pieces of a prompt end, and a checkpoint is made."""
        every = self._every
        between = range(first - first % every + every, last, every) if every else ()
        return [*between, last] if last > first else []

    def _decode(
        self, engine: Engine, request: Request, stream: TextStream, tally: "_Tally"
    ) -> End:
        """Windows until the text ends; what ended it."""
        histories = self.histories
        follow(histories.drafter, engine)
        how = How(
            name=histories.drafter.name if histories.drafter else "none",
            who=lambda: chosen_of(histories.drafter),
            propose=histories.propose,
            choose=histories.choose,
            length=self._length,
            stop_ids=request.stop_ids,
            cut=stream.feed,
        )
        root = request.text.ids[-1]
        while (left := request.max_new - len(tally.emitted)) > 0:
            if request.cancel is not None and request.cancel():
                return "cancelled"
            done = advance(engine, root, left=left, how=how)
            if done is None:
                break
            tally.add(done)
            root = tally.emitted[-1]
            self._gain(done)
            if stream.stopped_by is not None:
                return "text"
            if done.result.stop is not None:
                return done.result.stop
        return "limit"

    def _gain(self, done: Done) -> None:
        """The histories gain what was emitted, and nothing else."""
        record = done.report.record
        self._note(record)
        self.histories.append(record.emitted)
        was = self._spell.note(record.offered, record.accepted)
        if was is not None:
            spell.warn(was)

    def _note(self, record: WindowRecord) -> None:
        self.trace.append(record)
        tell_routes(self.histories.drafter, record)


class _Cancelled(Exception):
    """The request is to end before its first window."""


class _Undo:
    """A block after which a session has moved on, or is exactly as before."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before = (session._now, session._text, session._ring.copy())
        self._records = len(session.trace)

    def __enter__(self) -> None:
        """Nothing to do: all was remembered when this was made."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Set back if the block raised; the exception goes on."""
        if kind is None:
            return
        session = self._session
        session._now, session._text, session._ring = self._before
        session.trace.truncate(self._records)
        session.histories.assign(session._text)


class _Tally:
    """Counts what was emitted, and nothing that was not."""

    def __init__(self, prompt: int) -> None:
        self._began = time.perf_counter()
        self._decoding: float | None = None
        self._prompt, self.reused = prompt, 0
        self.emitted: list[int] = []
        self._windows = self._offered = self._accepted = 0

    def decode(self) -> None:
        """The prompt has been read: windows begin."""
        self._decoding = time.perf_counter()

    def add(self, done: Done) -> None:
        """One window more."""
        record = done.report.record
        self.emitted += record.emitted
        self._windows += 1
        self._offered += record.offered
        self._accepted += record.accepted

    def reply(self, stream: TextStream, stop: End) -> Reply:
        """All of it."""
        now = time.perf_counter()
        decoding = now if self._decoding is None else self._decoding
        return Reply(
            text=stream.text,
            tokens=tuple(self.emitted),
            stop=stop,
            stop_string=stream.stopped_by,
            prompt=self._prompt,
            reused=self.reused,
            windows=self._windows,
            offered=self._offered,
            accepted=self._accepted,
            prefill_ms=(decoding - self._began) * 1e3,
            decode_ms=(now - decoding) * 1e3,
        )
