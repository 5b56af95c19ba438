"""Which draft nodes are worth the experts that they add, as EcoSpec reckons it."""

import math
import operator
from collections.abc import Callable, Sequence, Set
from typing import Literal, NamedTuple, TypeAlias, get_args

Experts: TypeAlias = Sequence[Set[int]]
"""For each layer, experts of it."""
Layers: TypeAlias = Literal["mean", "sum"]
Price: TypeAlias = Callable[[int, int], float]
"""Of an expert that is new, by layer and number."""


class Pick(NamedTuple):
    """A node that was chosen, and its score when it was."""

    node: int
    score: float


def new_experts(
    wanted: Experts,
    covered: Experts,
    *,
    layers: Layers = "mean",
    price: Price | None = None,
) -> float:
    """EcoSpec's marginal cost: experts of `wanted` that are not `covered` yet.

    Papers, 9, which leave open how layers are taken together.

    Args:
        wanted: by layer.
        covered: by layer, as many layers.
        layers: "mean" of the layers' counts, or their "sum".
        price: what a new expert counts; None: 1. Where experts are streamed, more if it
            has to be read than if it is in a slot.

    Raises:
        ValueError: numbers of layers that differ, or `layers` is neither.
    """
    if layers not in get_args(Layers):
        raise ValueError(f"`layers` is {layers!r}, wanted 'mean' or 'sum'")
    if len(wanted) != len(covered):
        raise ValueError(
            f"`wanted` has {len(wanted)} layers and `covered` {len(covered)}, wanted "
            "as many"
        )
    counts = [
        len(own - known)
        if price is None
        else math.fsum(price(layer, expert) for expert in sorted(own - known))
        for layer, (own, known) in enumerate(zip(wanted, covered, strict=True))
    ]
    whole = math.fsum(counts)
    return whole / len(counts) if counts and layers == "mean" else whole


def worth(probability: float, cost: float, *, eps: float = 1.0) -> float:
    """EcoSpec's score: S = P / (DeltaCost + eps).

    Args:
        probability: that the node lies on the accepted path, P, 0 or more.
        cost: experts that it adds, 0 or more.
        eps: above 0; small: what adds nothing comes first, whatever its chance; large:
            the likeliest first. Not published.

    Raises:
        ValueError: a number is out of range.
    """
    if not 0 <= probability < math.inf or not 0 <= cost < math.inf:
        raise ValueError(
            f"`probability` is {probability} and `cost` {cost}, wanted 0 or more"
        )
    if not 0 < eps < math.inf:
        raise ValueError(f"`eps` is {eps}, wanted a number above 0")
    return probability / (cost + eps)


def economical_nodes(
    parents: Sequence[int],
    probabilities: Sequence[float],
    experts: Sequence[Experts],
    *,
    budget: int,
    covered: Experts | None = None,
    eps: float = 1.0,
    layers: Layers = "mean",
    price: Price | None = None,
) -> list[Pick]:
    """EcoSpec: up to `budget` nodes of a draft tree, in the order they are chosen.

    Of those whose parent is chosen, or the root, the one with the largest `worth`; its
    experts are covered from then on; again, until the budget is used. Of equals the
    first. Papers, 9.

    Args:
        parents: [N], the index of each node's parent; -1 is the root.
        probabilities: [N], of each node and all before it.
        experts: [N], what each node is expected to use.
        budget: nodes that may be verified, 0 or more.
        covered: experts that are paid for, those of the root; None: none.
        eps: as in `worth`.
        layers: as in `new_experts`.
        price: as there.

    Raises:
        ValueError: lengths that differ, or a number out of range.
    """
    if not len(parents) == len(probabilities) == len(experts):
        raise ValueError(
            f"there are {len(parents)} parents, {len(probabilities)} probabilities and "
            f"{len(experts)} sets of experts, wanted one of each for a node"
        )
    if operator.index(budget) < 0:
        raise ValueError(f"`budget` is {budget}, wanted 0 or more nodes")
    depth = len(experts[0]) if experts else 0
    buffer = [set(known) for known in covered or [set()] * depth]
    open_, picked = set(range(len(parents))), [-1]
    order: list[Pick] = []
    while open_ and len(order) < budget:
        scores = {
            node: worth(
                probabilities[node],
                new_experts(experts[node], buffer, layers=layers, price=price),
                eps=eps,
            )
            for node in sorted(open_)
            if parents[node] in picked
        }
        if not scores:
            break
        node = max(scores, key=lambda each: scores[each])
        order.append(Pick(node, scores[node]))
        open_.discard(node)
        picked.append(node)
        for known, own in zip(buffer, experts[node], strict=True):
            known |= own
    return order
