"""What the verbs hand out: an open window, its result, the report of a commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from strata_nb.accept import Rule, Stop
from strata_nb.backend import Forward
from strata_nb.trace import LayerDecisions, WindowRecord, window_record

Phase: TypeAlias = Literal["run", "finished", "committed", "aborted"]


@dataclass(frozen=True)
class Result:
    """What `finish` found.

    Attributes:
        predictions: the next token after each input row; empty for a headless window.
        accepted: drafts that the rule accepted.
        offered: drafts that the end of the text left room for.
        keep: the natural keep, `accepted` + 1; all rows of a headless window.
        emitted: predictions 0 to `accepted`; the last is the bonus.
        stop: "stop" (a stop id was emitted), "limit" (no tokens are left), or None.
        rule: that chose the predictions.
    """

    predictions: tuple[int, ...]
    accepted: int
    offered: int
    keep: int
    emitted: tuple[int, ...]
    stop: Stop | None
    rule: Rule = "greedy"


@dataclass(eq=False)
class Window:
    """The rows of one pass: run, and not yet committed.

    Attributes:
        start: the cell of row 0.
        inputs: root and drafts, or a piece of a prompt.
        headless: nothing is predicted and all rows will be kept.
        phase: "run", "finished", "committed" or "aborted".
        result: what `finish` found.
    """

    start: int
    inputs: tuple[int, ...]
    headless: bool
    run_ms: float
    warm: bool
    owner: Any = field(repr=False)
    forward: Forward = field(repr=False)
    phase: Phase = "run"
    result: Result | None = None
    finish_ms: float = 0.0
    drafter: str = "none"
    match_length: int | None = None
    draft_ms: float | None = None

    @property
    def T(self) -> int:
        """Rows."""
        return len(self.inputs)

    @cached_property
    def logits(self) -> np.ndarray:
        """Next-token logits of each row, float [T, V].

        Raises:
            ValueError: the window is headless.
        """
        if self.headless:
            raise ValueError(
                "a headless window has no logits; use `run(..., head=True)`"
            )
        return np.array(self.forward.logits, dtype=np.float64)

    @cached_property
    def layers(self) -> tuple[LayerDecisions, ...]:
        """What each layer chose for the rows: experts, blocks, and their scores."""
        return self.forward.layers()


@dataclass(frozen=True)
class CommitReport:
    """What a commit moved.

    Attributes:
        root: the prediction of the last kept row: the next window's row 0. None after
            a headless window.
        position: committed cells afterwards.
        keep: rows kept.
        emitted: tokens that left the engine, the new root last.
        record: the window as it enters the trace.
        digests: call it for a SHA-256 of each part of the state just committed; the
            report keeps that state alive as long as it lives.
    """

    root: int | None
    position: int
    keep: int
    emitted: tuple[int, ...]
    record: WindowRecord
    digests: Callable[[], dict[str, str]] = field(repr=False)


@dataclass(frozen=True)
class Committed:
    """All that an engine knows between two verbs; replaced whole, never changed."""

    state: Any
    root: int | None
    window: Window | None


def _emitted(window: Window, result: Result, keep: int) -> tuple[int, ...]:
    """The kept drafts and the new root: what the text gains."""
    if window.headless:
        return ()
    return (*window.inputs[1:keep], result.predictions[keep - 1])


def recorded(
    window: Window,
    result: Result,
    keep: int,
    *,
    options: Mapping[str, Any],
    commit_ms: float,
) -> WindowRecord:
    """The record of a window of which `keep` rows were kept.

    Args:
        window: a finished window.
        result: what `finish` found.
        keep: rows kept.
        options: the engine's; `fold`, `partial` and `approximate` are recorded.
        commit_ms: time of the commit, ms.
    """
    natural = keep == result.keep
    # Drafts that a smaller keep gives up are in no counter, like those behind a stop.
    given_up = keep < result.keep
    return window_record(
        position=window.start,
        inputs=window.inputs,
        keep=keep,
        decisions=window.layers,
        predictions=result.predictions,
        emitted=_emitted(window, result, keep),
        offered=keep - 1 if given_up else result.offered,
        accepted=min(result.accepted, keep - 1),
        forced=not natural,
        stop=result.stop if natural else None,
        rule="none" if window.headless else result.rule,
        drafter=window.drafter,
        match_length=window.match_length,
        headless=window.headless,
        approximate=(options["approximate"],) if "approximate" in options else (),
        fold=options.get("fold"),
        partial=options.get("partial"),
        warm=window.warm,
        draft_ms=window.draft_ms,
        run_ms=window.run_ms,
        finish_ms=window.finish_ms,
        commit_ms=commit_ms,
    )
