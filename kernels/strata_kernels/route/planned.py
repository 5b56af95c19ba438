"""What the router's kernels compute, in NumPy and float64, one row at a time."""

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_kernels.route.launch import Routed, Rules, Slots
from strata_kernels.route.reference import shares

Ids = npt.NDArray[np.int32]


def route_reference(
    logits: mx.array, rules: Rules, there: Slots, *, top_k: int, renormalise: bool
) -> Routed:
    """As `route_fused`."""
    ids = choose_reference(logits, rules, np.array(there.ready) != 0, top_k=top_k)
    chosen = mx.array(ids)
    weights = shares(logits, chosen, renormalise=renormalise)
    plan = plan_reference(ids, logits.shape[1], there)
    return Routed(chosen, weights, *(mx.array(a) for a in plan))


def choose_reference(
    logits: mx.array, rules: Rules, ready: npt.NDArray[np.bool_], *, top_k: int
) -> Ids:
    """Experts of each row by natural rank, int32 [T, K]."""
    scores = np.array(logits).astype(np.float64)
    order = np.argsort(-scores, axis=1, kind="stable")
    natural = order[:, :top_k].astype(np.int32)
    if rules.kind == "natural" or not np.isfinite(scores).all():
        return natural
    found = [
        _row(scores[t], order[t], rules, ready, natural[0], draft=t > 0, top_k=top_k)
        for t in range(len(scores))
    ]
    return np.stack(found)


def _row(
    scores: npt.NDArray[np.float64],
    order: npt.NDArray[np.intp],
    rules: Rules,
    ready: npt.NDArray[np.bool_],
    root: Ids,
    *,
    draft: bool,
    top_k: int,
) -> Ids:
    if rules.kind == "budget":
        competing = np.where(eligible(root, ready, rules.anchors), scores, -np.inf)
        if not draft:
            competing = scores
    else:
        competing = _raised(scores, order, rules, ready, draft=draft, top_k=top_k)
    chosen = set(np.argsort(-competing, kind="stable")[:top_k].tolist())
    return np.array([e for e in order if int(e) in chosen], dtype=np.int32)


def _raised(
    scores: npt.NDArray[np.float64],
    order: npt.NDArray[np.intp],
    rules: Rules,
    ready: npt.NDArray[np.bool_],
    *,
    draft: bool,
    top_k: int,
) -> npt.NDArray[np.float64]:
    # The kernel has these as float32.
    bonus = float(np.float32(rules.draft_bonus if draft else rules.bonus))
    least = float(np.float32(rules.draft_second if draft else rules.second))
    raised = np.where(ready, scores + bonus, scores)
    second = order[1]
    raised[second] = max(raised[second], scores[second] + least)
    protect = rules.draft_protect if draft else rules.protect
    raised[order[: min(protect, top_k)]] = np.inf
    return raised


def eligible(
    root: Ids, ready: npt.NDArray[np.bool_], anchors: int
) -> npt.NDArray[np.bool_]:
    """What drafts may use under a budget, bool [E]; at least K experts."""
    allowed = ready.copy()
    allowed[root[:anchors]] = True
    for expert in root:
        if allowed.sum() < len(root):
            allowed[expert] = True
    return allowed


def plan_reference(ids: Ids, experts: int, there: Slots) -> tuple[Ids, Ids, Ids, Ids]:
    """The union's members, each choice's place, slots, and counts; as in `Routed`."""
    members = np.unique(ids)
    slots, order, owner = (np.array(a) for a in there[1:])
    spare = iter([s for s in order if owner[s] < 0 or owner[s] not in members])
    own = slots[members]
    taken = [int(s) if s >= 0 else int(next(spare, -1)) for s in own]
    padding = ids.size - len(members)
    return (
        np.pad(members, (0, padding), constant_values=experts).astype(np.int32),
        np.searchsorted(members, ids).astype(np.int32),
        np.pad(taken, (0, padding), constant_values=-1).astype(np.int32),
        np.array([len(members), int((own < 0).sum())], dtype=np.int32),
    )
