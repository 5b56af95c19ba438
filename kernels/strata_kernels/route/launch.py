"""The router's kernels: all in one launch, or rows first and the plan after them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import mlx.core as mx

from strata_kernels._prelude import Kernel, Launch
from strata_kernels._prelude.kernel import Target

MOST_ROWS = 8
MOST_EXPERTS = 1024
# MLX passes smaller arrays in another memory than the helpers read.
_LEAST_EXPERTS = 8

_PLANNED = ("members", "place", "slot_of", "counts")
FUSED = Kernel.read(
    __file__,
    "fused",
    headers=("row.h",),
    inputs=("logits", "settings", "ready", "slots", "order", "owner"),
    outputs=("ids", "weights", *_PLANNED),
)
CHOOSE = Kernel.read(
    __file__,
    "choose",
    headers=("row.h",),
    inputs=("logits", "settings", "ready", "root"),
    outputs=("ids", "weights"),
)
PLAN = Kernel.read(
    __file__, "plan", inputs=("ids", "slots", "order", "owner"), outputs=_PLANNED
)

_KINDS = {"natural": 0, "bonus": 1, "budget": 2}


@dataclass(frozen=True)
class Rules:
    """How experts compete; numbers of a launch's data, so that they change no launch.

    Attributes:
        kind: "natural": by logit alone. "bonus": ready experts have a bonus on their
            logits, but the strongest `protect` of a row are chosen in any case.
            "budget": drafts choose among ready experts and the root's.
        protect, bonus, second: of row 0; `second` is the least bonus of the second
            strongest.
        draft_protect, draft_bonus, draft_second: of the others.
        anchors: strongest experts of the root that drafts may use though they be cold.
    """

    kind: Literal["natural", "bonus", "budget"] = "natural"
    protect: int = 0
    bonus: float = 0.0
    second: float = 0.0
    draft_protect: int = 0
    draft_bonus: float = 0.0
    draft_second: float = 0.0
    anchors: int = MOST_EXPERTS
    settings: mx.array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(
                f"`kind` is {self.kind!r}, wanted one of {', '.join(_KINDS)}"
            )
        numbers = [
            *(_KINDS[self.kind], self.protect, self.bonus, self.second),
            *(self.draft_protect, self.draft_bonus, self.draft_second, self.anchors),
        ]
        object.__setattr__(self, "settings", mx.array(numbers, dtype=mx.float32))


NATURAL = Rules()


class Slots(NamedTuple):
    """Where experts are when a window begins; int32 all.

    Attributes:
        ready: 1 for experts that were ready, else 0, [E].
        slots: the slot of each expert, -1: none, [E].
        order: slots in the order in which they may be taken, [S].
        owner: the expert in each slot, -1: none, [S].
    """

    ready: mx.array
    slots: mx.array
    order: mx.array
    owner: mx.array


class Routed(NamedTuple):
    """What a window wants of its experts.

    Attributes:
        ids: experts of each row, the naturally strongest first, int32 [T, K].
        weights: float32 [T, K].
        members: the union, ascending, then E, int32 [T K].
        place: of each choice in the union, int32 [T, K].
        slot_of: of each member its slot, or one to read it into; -1: none is left;
            int32 [T K].
        counts: members, and members without a slot of their own, int32 [2].
    """

    ids: mx.array
    weights: mx.array
    members: mx.array
    place: mx.array
    slot_of: mx.array
    counts: mx.array


def fits(experts: int, top_k: int) -> bool:
    """Whether `choose_kernel` takes so many experts; `route_fused` wants 8 rows too."""
    return _LEAST_EXPERTS <= experts <= MOST_EXPERTS and 0 < top_k <= experts


def route_fused(
    logits: mx.array,
    rules: Rules,
    there: Slots,
    *,
    top_k: int,
    renormalise: bool,
    target: Target,
    kernel: Kernel = FUSED,
) -> Routed:
    """Choice, weights, union and plan in one launch.

    Args:
        logits: router logits, float32 [T, E]; T at most 8, E 8 to 1024.
        rules: how experts compete.
        there: where experts are.
        top_k: experts a row, K.
        renormalise: divide the chosen probabilities by their sum.
        target: where.
        kernel: another text, for tests.
    """
    rows, experts = logits.shape
    constants = {
        "E": experts,
        "K": top_k,
        "ROWS": rows,
        "SLOTS": there.order.shape[0],
        "RENORMALISE": int(renormalise),
    }
    outputs = [*_chosen(rows, top_k), *_planned(rows, top_k)]
    launch = Launch(1, rows, constants, outputs)
    return Routed(*kernel([logits, rules.settings, *there], launch, target=target))


def route_unfused(
    logits: mx.array,
    rules: Rules,
    there: Slots,
    *,
    top_k: int,
    renormalise: bool,
    target: Target,
    choose: Kernel = CHOOSE,
    plan: Kernel = PLAN,
) -> Routed:
    """`route_fused` in three launches: the root, the drafts that read it, the plan."""
    rows, experts = logits.shape
    # Nobody reads the root of the root.
    root = mx.zeros((top_k,), dtype=mx.int32)
    parts = []
    for part in [(0, 1), (1, rows)][:rows]:
        launch = _choosing(experts, part, rows, top_k=top_k, renormalise=renormalise)
        arrays = [logits, rules.settings, there.ready, root]
        parts.append(choose(arrays, launch, target=target))
        root = parts[0][0][0]
    ids, weights = (mx.concatenate(list(a)) for a in zip(*parts, strict=True))
    constants = {
        "E": experts,
        "K": top_k,
        "ROWS": rows,
        "SLOTS": there.order.shape[0],
    }
    launch = Launch(1, 1, constants, _planned(rows, top_k))
    arrays = [ids, there.slots, there.order, there.owner]
    return Routed(ids, weights, *plan(arrays, launch, target=target))


def choose_kernel(
    logits: mx.array,
    *,
    top_k: int,
    renormalise: bool,
    target: Target,
    kernel: Kernel = CHOOSE,
) -> tuple[mx.array, mx.array]:
    """The natural choice and its weights, one launch; no union, no plan."""
    rows, experts = logits.shape
    unused = mx.zeros((experts,), dtype=mx.int32)
    # Without rows to look for no number in: a natural choice plans nothing.
    launch = _choosing(experts, (0, rows), 0, top_k=top_k, renormalise=renormalise)
    arrays = [logits, NATURAL.settings, unused, unused]
    ids, weights = kernel(arrays, launch, target=target)
    return ids, weights


def _choosing(
    experts: int, rows: tuple[int, int], total: int, *, top_k: int, renormalise: bool
) -> Launch:
    first, end = rows
    constants = {
        "E": experts,
        "K": top_k,
        "FIRST": first,
        "TOTAL": total,
        "RENORMALISE": int(renormalise),
    }
    return Launch(end - first, 1, constants, _chosen(end - first, top_k))


def _chosen(rows: int, top_k: int) -> Sequence[tuple[tuple[int, ...], mx.Dtype]]:
    return [((rows, top_k), mx.int32), ((rows, top_k), mx.float32)]


def _planned(rows: int, top_k: int) -> Sequence[tuple[tuple[int, ...], mx.Dtype]]:
    flat, each = (rows * top_k,), (rows, top_k)
    return [(flat, mx.int32), (each, mx.int32), (flat, mx.int32), ((2,), mx.int32)]
