"""What one window and its layers decided, as plain data."""

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer[Any]]


TIMES = (
    "draft_ms",
    "run_ms",
    "expert_wait_ms",
    "finish_ms",
    "commit_ms",
    "fold_ms",
)


class Leaf(NamedTuple):
    """The address of one array of an engine's state."""

    part: str
    layer: int | None
    field: str


@dataclass(frozen=True, eq=False)
class LayerDecisions:
    """What one layer chose for the rows of a window.

    Attributes:
        expert_ids: chosen experts, int [T, K]; -1 is an unused choice.
        router_logits: float [T, E], None where the backend keeps none.
        blocks: attended blocks, int [T, K_b], padded with -1; None for a layer that
            selects none (a delta net, or an attention that is still dense).
        block_scores: float [T, n_blocks], None as `blocks` or where not kept.
        resident_ids: experts that were ready in a slot when the window began,
            ascending; None where all are in memory.
        measured: `resident`, `miss` and the other counts of `LayerRecord`, where
            experts are not all in memory.
        wait_ms: time the layer waited for experts, ms; None as `measured`.
    """

    expert_ids: Ints
    router_logits: npt.NDArray[np.floating[Any]] | None = None
    blocks: Ints | None = None
    block_scores: npt.NDArray[np.floating[Any]] | None = None
    resident_ids: Ints | None = None
    measured: Mapping[str, int] = field(default_factory=dict)
    wait_ms: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerRecord:
    """The experts of one layer in one window; None is "not measured", never zero.

    Attributes:
        layer: 0-based layer index.
        expert_ids: chosen experts, int32 [T, K], read-only; -1 is an unused choice.
        union_size: distinct experts over all T rows.
        root_only_size: distinct experts of row 0 alone.
        cold_beyond_root: experts of the union that row 0 does not use.
        cold_beyond_kept: experts of the union that no kept row uses.
        resident: experts of the union that were in a slot when the window asked.
        miss: experts of the union that were in no slot and had to be read.
        late: experts that were on their way already, but had to be waited for.
        prefetched: experts read ahead for this layer during the window, and while its
            draft was made.
        evicted: experts that lost their slot.
        bytes_read: bytes read for this layer, those read ahead included.
        prefetched_bytes: the share of `bytes_read` that was read ahead.
    """

    layer: int
    expert_ids: npt.NDArray[np.int32]
    union_size: int
    root_only_size: int
    cold_beyond_root: int
    cold_beyond_kept: int
    resident: int | None = None
    miss: int | None = None
    late: int | None = None
    prefetched: int | None = None
    evicted: int | None = None
    bytes_read: int | None = None
    prefetched_bytes: int | None = None

    def __post_init__(self) -> None:
        # A copy: the engine may hand out a view that its next window overwrites.
        ids = np.array(self.expert_ids, dtype=np.int32)
        ids.setflags(write=False)
        object.__setattr__(self, "expert_ids", ids)
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, operator.index(value))

    @classmethod
    def from_decisions(
        cls,
        layer: int,
        expert_ids: npt.ArrayLike,
        keep: int,
        **measured: int | None,
    ) -> "LayerRecord":
        """Count the experts of `expert_ids` [T, K] when the first `keep` rows stay.

        Args:
            layer: 0-based layer index.
            expert_ids: chosen experts [T, K]; -1 is an unused choice.
            keep: rows that were committed, 1 to T.
            **measured: `resident`, `miss` … where somebody measured them.

        Raises:
            ValueError: `expert_ids` is not [T, K], or `keep` is outside 1..T.
        """
        ids = np.asarray(expert_ids, dtype=np.int32)
        if ids.ndim != 2:
            raise ValueError(f"`expert_ids` must be [T, K], got shape {ids.shape}")
        if not 1 <= keep <= len(ids):
            raise ValueError(f"`keep` must be 1 to T = {len(ids)}, got {keep}")
        # Sets: for the few rows of a decode window much faster than np.unique.
        root = _experts(ids[:1])
        kept = _experts(ids[:keep])
        union = kept | _experts(ids[keep:])
        return cls(
            layer=layer,
            expert_ids=ids,
            union_size=len(union),
            root_only_size=len(root),
            cold_beyond_root=len(union) - len(root),
            cold_beyond_kept=len(union) - len(kept),
            **measured,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LayerRecord):
            return NotImplemented
        return np.array_equal(self.expert_ids, other.expert_ids) and all(
            getattr(self, name) == getattr(other, name) for name in _COUNTS
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, as a list is


_COUNTS = tuple(f.name for f in fields(LayerRecord) if f.name != "expert_ids")


@dataclass(frozen=True, kw_only=True)
class WindowRecord:
    """What one committed window did; None is "not measured", never zero.

    Attributes:
        position: cell of row 0.
        inputs: the T tokens of the rows: root and drafts, or a piece of the prompt.
        predictions: the next token after each row; empty for a headless window.
        emitted: tokens handed to the caller by this window, the bonus last.
        offered: drafts that took part, 0 to T - 1.
        accepted: drafts that the rule accepted and that were kept, at most `offered`.
        keep: rows committed, 1 to T.
        forced: `keep` was the caller's and not the natural one.
        stop: why the text ended here, "stop" (a stop id) or "limit"; None: it goes on.
        rule: the acceptance rule, "greedy", "equality" or "ratio"; "none" if headless.
        drafter: who proposed the drafts, "none" if nobody was asked.
        match_length: tokens of history that the drafter matched.
        headless: a prompt window: nothing was predicted.
        approximate: names of the policies in force that can change the text.
        fold: "lazy" or "eager".
        partial: the fold starts from the state after row 0.
        warm: nothing had to be built or compiled for this window's shape.
        draft_ms: time to find the drafts, ms.
        run_ms: time of `run`, ms; `expert_wait_ms` is part of it.
        expert_wait_ms: time the layers waited for experts, ms.
        finish_ms: time of `finish`, ms.
        commit_ms: time of `commit`, ms.
        fold_ms: time to advance the recurrent state over kept rows, ms.
        layers: one record a layer that has experts, in layer order.
    """

    position: int
    inputs: tuple[int, ...]
    keep: int
    predictions: tuple[int, ...] = ()
    emitted: tuple[int, ...] = ()
    offered: int = 0
    accepted: int = 0
    forced: bool = False
    stop: Literal["stop", "limit"] | None = None
    rule: str = "none"
    drafter: str = "none"
    match_length: int | None = None
    headless: bool = False
    approximate: tuple[str, ...] = ()
    fold: Literal["lazy", "eager"] | None = None
    partial: bool | None = None
    warm: bool | None = None
    draft_ms: float | None = None
    run_ms: float | None = None
    expert_wait_ms: float | None = None
    finish_ms: float | None = None
    commit_ms: float | None = None
    fold_ms: float | None = None
    layers: tuple[LayerRecord, ...] = ()

    def __post_init__(self) -> None:
        for name in ("inputs", "predictions", "emitted"):
            object.__setattr__(self, name, _ints(name, getattr(self, name)))
        for name in ("position", "keep", "offered", "accepted"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        for name in TIMES:
            object.__setattr__(self, name, _time(name, getattr(self, name)))
        object.__setattr__(
            self, "match_length", _count("match_length", self.match_length)
        )
        for name in ("forced", "headless", "partial", "warm"):
            _check_flag(name, getattr(self, name))
        for name in ("rule", "drafter"):
            _check_text(name, getattr(self, name))
        object.__setattr__(self, "approximate", tuple(self.approximate))
        for name in self.approximate:
            _check_text("approximate", name)
        object.__setattr__(self, "layers", tuple(self.layers))
        _check(self)

    @property
    def T(self) -> int:
        """Rows of the window."""
        return len(self.inputs)

    @property
    def total_ms(self) -> float | None:
        """Time of the whole window, ms; None when `run` was not measured."""
        if self.run_ms is None:
            return None
        # `expert_wait_ms` lies inside `run_ms`, and `fold_ms` inside run or commit.
        return self.run_ms + sum(
            t or 0.0 for t in (self.draft_ms, self.finish_ms, self.commit_ms)
        )


def window_record(
    *,
    position: int,
    inputs: Sequence[int],
    keep: int,
    decisions: Sequence[LayerDecisions | None] = (),
    **rest: Any,
) -> WindowRecord:
    """Build the record of a window from what its layers decided.

    Args:
        position: cell of row 0.
        inputs: the T tokens of the rows.
        keep: rows committed, 1 to T.
        decisions: one entry a layer of the model; None for a layer without experts.
        **rest: any other field of `WindowRecord`.

    Raises:
        ValueError: a field is outside its range; the message names it.
        TypeError: an unknown field.
    """
    layers = tuple(
        LayerRecord.from_decisions(index, made.expert_ids, keep, **made.measured)
        for index, made in enumerate(decisions)
        if made is not None
    )
    waits = [d.wait_ms for d in decisions if d is not None and d.wait_ms is not None]
    if waits:
        rest.setdefault("expert_wait_ms", sum(waits))
    return WindowRecord(
        position=position, inputs=tuple(inputs), keep=keep, layers=layers, **rest
    )


def check_draft(drafter: str, match_length: int | None, draft_ms: float | None) -> None:
    """Refuse what a `WindowRecord` cannot hold, before there is one.

    Args:
        drafter: who proposed the drafts.
        match_length: tokens of history that it matched; None: not measured.
        draft_ms: time to find the drafts, ms; None: not measured.

    Raises:
        TypeError: not a text, an integer, a number.
        ValueError: a text that is no Unicode, a length or time below 0 or too large.
    """
    _check_text("drafter", drafter)
    _count("match_length", match_length)
    _time("draft_ms", draft_ms)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be text, got {value!r}; name it in words")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"`{name}` must be text that UTF-8 can hold, got {value!a}; leave out half "
            "a surrogate pair"
        ) from error


def _check_flag(name: str, value: object) -> None:
    # Text would be true whatever it says, and no file would take it.
    unmeasured = value is None and name in ("partial", "warm")
    if not unmeasured and not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}")


def _count(name: str, value: SupportsIndex | None) -> int | None:
    """`value` as an integer of the file, which has 64 bits for it."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"`{name}` must be an integer or None, got {value!r}")
    count = operator.index(value)
    if not 0 <= count < 2**63:
        raise ValueError(f"`{name}` must be 0 or more and below 2**63, got {count:#x}")
    return count


def _time(name: str, value: float | None) -> float | None:
    """`value` as a float that a clock can have shown, ms."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number or None, got {value!r}")
    try:
        time = float(value)
    except OverflowError:
        time = math.inf
    if not 0 <= time < math.inf:
        raise ValueError(f"`{name}` must be 0 or more milliseconds, got {time}")
    return time


def _experts(ids: npt.NDArray[np.int32]) -> set[int]:
    """Distinct experts in `ids` [rows, K]."""
    found: set[int] = set(ids.ravel().tolist())
    found.discard(-1)
    return found


def _ints(name: str, values: Sequence[SupportsIndex]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError as error:
        raise TypeError(f"`{name}` must be integers, got {values!r}") from error


def _check(record: WindowRecord) -> None:
    """Refuse numbers that no window can have."""
    rows = record.T
    wanted: tuple[tuple[str, str, bool], ...] = (
        ("position", "0 or more", record.position >= 0),
        ("inputs", "at least one token", rows >= 1),
        ("keep", f"1 to T = {rows}", 1 <= record.keep <= rows),
        (
            "offered",
            "0 in a headless window" if record.headless else f"0 to T - 1 = {rows - 1}",
            0 <= record.offered <= (0 if record.headless else rows - 1),
        ),
        (
            "accepted",
            f"0 to offered = {record.offered}",
            0 <= record.accepted <= record.offered,
        ),
        (
            "predictions",
            "none" if record.headless else f"T = {rows} tokens",
            len(record.predictions) == (0 if record.headless else rows),
        ),
        ("stop", '"stop", "limit" or None', record.stop in (None, "stop", "limit")),
        ("fold", '"lazy", "eager" or None', record.fold in (None, "lazy", "eager")),
    )
    for name, range_, fine in wanted:
        if not fine:
            raise ValueError(f"`{name}` must be {range_}, got {getattr(record, name)}")
    for layer in record.layers:
        if len(layer.expert_ids) != rows:
            raise ValueError(
                f"`expert_ids` of layer {layer.layer} must have T = {rows} rows, "
                f"got {len(layer.expert_ids)}"
            )
