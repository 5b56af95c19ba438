"""How long a draft is worth verifying, as EVICT and MoE-SpeQ reckon it."""

import itertools
import math
import operator
from collections.abc import Sequence

from strata_nb.theory.windows import keeps

# Ratios this close are equal: on paper they often are.
_EQUAL = 1e-9


def path_products(parents: Sequence[int], chances: Sequence[float]) -> list[float]:
    """Chance that each node of a draft tree lies on the accepted path.

    The product of the chances down to it; on a chain the survival q_i. EVICT's score
    (papers, 8).

    Args:
        parents: [N], the index of each node's parent, which comes before it; -1 is the
            root, which is always accepted.
        chances: [N], of each node if its parent is accepted, 0 to 1.

    Raises:
        ValueError: lengths that differ, a parent that does not come before its child,
            or a chance out of range.
    """
    if len(parents) != len(chances):
        raise ValueError(
            f"`parents` has {len(parents)} entries and `chances` {len(chances)}, "
            "wanted one of each for a node"
        )
    products: list[float] = []
    for node, (parent, chance) in enumerate(zip(parents, chances, strict=True)):
        if not -1 <= operator.index(parent) < node:
            raise ValueError(
                f"the parent of node {node} is {parent}, wanted -1 or an earlier node"
            )
        if not 0 <= chance <= 1:
            raise ValueError(f"`chances` of node {node} is {chance}, wanted 0 to 1")
        products.append(chance * (products[parent] if parent >= 0 else 1.0))
    return products


def best_prefix(
    scores: Sequence[float], costs: Sequence[float], *, count_bonus: bool = False
) -> int:
    """EVICT: how many nodes to verify, argmax over k of Ehat(k) / C(k).

    Ehat(k) is the sum of the k best scores, the drafts expected to be accepted. Papers,
    8. Of equal ratios the smallest k.

    Args:
        scores: [N], of each node, 0 or more, in any order; see `path_products`.
        costs: [N], of verifying 1 to N nodes beside the root, above 0.
        count_bonus: the token that each window brings anyhow counts too: 1 + Ehat. The
            paper leaves it open, and it changes the answer.

    Returns:
        k, 1 to N; 0 where there is no node.

    Raises:
        ValueError: lengths that differ, or a number out of range.
    """
    if len(scores) != len(costs):
        raise ValueError(
            f"`scores` has {len(scores)} entries and `costs` {len(costs)}, wanted one "
            "of each for a node"
        )
    best, found = 0, 0.0
    expected = itertools.accumulate(sorted(scores, reverse=True))
    for count, (gain, cost) in enumerate(zip(expected, costs, strict=True), 1):
        if not 0 <= gain < math.inf or not 0 < cost < math.inf:
            raise ValueError(
                f"{count} nodes bring {gain} and cost {cost}, wanted numbers of 0 or "
                "more and above 0"
            )
        ratio = (gain + count_bonus) / cost
        if not best or ratio > found * (1 + _EQUAL):
            best, found = count, ratio
    return best


def kept_nodes(
    parents: Sequence[int],
    chances: Sequence[float],
    costs: Sequence[float],
    *,
    count_bonus: bool = False,
) -> list[int]:
    """EVICT on a tree: the nodes to verify, the best first, parents before children.

    A child's score is never above its parent's, so that the k best are a tree. The
    engine verifies chains; this is the paper's own form. Papers, 8.

    Args:
        parents: as in `path_products`.
        chances: as there.
        costs: as in `best_prefix`.
        count_bonus: as there.

    Raises:
        ValueError: as both raise.
    """
    scores = path_products(parents, chances)
    count = best_prefix(scores, costs, count_bonus=count_bonus)
    # Stable, and parents come before children: so does a parent of an equal score.
    order = sorted(range(len(scores)), key=lambda node: -scores[node])
    return order[:count]


def expected_accepted(acceptance: Sequence[float]) -> list[float]:
    """MoE-SpeQ's k_accept: drafts accepted of the first 1, 2, ... of a chain.

    sum over i <= k of p_1 ... p_i: E[keep] less the row that is always kept. Papers, 4,
    and 0.3, identity 1.

    Args:
        acceptance: [D], p_i, as in `survival`.

    Returns:
        [D], for k = 1 to D.

    Raises:
        ValueError: as `survival` raises.
    """
    return [keep - 1 for keep in keeps(acceptance)[1:]]


def cycle_ms(
    *, draft_ms: float, init_ms: float, new_ms: float, verify_ms: float
) -> float:
    """MoE-SpeQ's T_cycle: max(T_draft, T_init) + T_new + T_verify. Papers, 4.

    Args:
        draft_ms: of drafting k tokens.
        init_ms: of the first reads, which run beside it.
        new_ms: of reading the experts that k drafts need and that are in no slot.
        verify_ms: of a window of k + 1 rows.

    Raises:
        ValueError: a time is below 0, or all are 0.
    """
    whole = max(draft_ms, init_ms) + new_ms + verify_ms
    if not min(draft_ms, init_ms, new_ms, verify_ms) >= 0 or not 0 < whole < math.inf:
        raise ValueError(
            f"the times of a window are {draft_ms}, {init_ms}, {new_ms} and "
            f"{verify_ms} ms, wanted 0 or more, and not all 0"
        )
    return whole


def best_draft(
    accepted: Sequence[float],
    cycles: Sequence[float],
    *,
    least: int = 1,
    most: int | None = None,
) -> int:
    """MoE-SpeQ's governor: k* = argmax of Theta(k) = k_accept(k) / T_cycle(k).

    Papers, 4. Of equals the smallest.

    Args:
        accepted: k_accept of k = 1, 2, ... drafts.
        cycles: T_cycle of the same, each above 0.
        least: k_min, 1 or more; where there are fewer, all.
        most: k_SLO, what a bound on the latency leaves; None: all there are. It goes
            before `least`.

    Returns:
        k.

    Raises:
        ValueError: nothing, lengths that differ, or a number out of range.
    """
    if not accepted or len(accepted) != len(cycles):
        raise ValueError(
            f"`accepted` has {len(accepted)} entries and `cycles` {len(cycles)}, "
            "wanted one of each for 1, 2, ... drafts"
        )
    if operator.index(least) < 1 or (most is not None and operator.index(most) < 1):
        raise ValueError(f"`least` is {least} and `most` {most}, wanted 1 or more")
    last = min(len(accepted), most or len(accepted))
    first = min(least, last)
    best, found = first, -1.0
    for drafts in range(first, last + 1):
        gain, cost = accepted[drafts - 1], cycles[drafts - 1]
        if not 0 <= gain < math.inf or not 0 < cost < math.inf:
            raise ValueError(
                f"{drafts} drafts bring {gain} and take {cost} ms, wanted numbers of 0 "
                "or more and above 0"
            )
        if gain / cost > found * (1 + _EQUAL):
            best, found = drafts, gain / cost
    return best


def amortisation(accepted: float, read_bytes: float) -> float:
    """MoE-SpeQ's I_amort: tokens accepted for each byte that was waited for.

    Times the bytes that a link moves in a second it is the roof that reading puts over
    tokens a second. Papers, 4; one note multiplies by the bytes of a token, which would
    leave the roof in bytes.

    Args:
        accepted: tokens of a window, on average.
        read_bytes: of its reads that were waited for; 0: there is no roof.

    Raises:
        ValueError: a number is below 0, or NaN.
    """
    if not 0 <= accepted < math.inf or not 0 <= read_bytes < math.inf:
        raise ValueError(
            f"`accepted` is {accepted} and `read_bytes` {read_bytes}, wanted 0 or more"
        )
    return accepted / read_bytes if read_bytes else math.inf
