"""Windows: what they keep, cost and need, and how many rows the rule gives them."""

import itertools
import math
import operator
from collections.abc import Sequence

# Differences of sums of floats are off by this share of the largest number in them.
_ROUNDING = 1e-9
# Halvings of the interval 0 to 1: past what a float can tell apart.
_HALVINGS = 60


def survival(acceptance: Sequence[float]) -> tuple[float, ...]:
    """Chance that each row of a window is kept.

    q_i = a_1 a_2 ... a_i, and q_0 = 1 of the root. The rule; papers, 0.3, identity 1.

    Args:
        acceptance: [D], a_i: chance that draft i is accepted if all before it were,
            each 0 to 1.

    Returns:
        [D + 1], q_0 to q_D; it never rises.

    Raises:
        ValueError: an a_i is outside 0..1, or NaN.
    """
    kept = [1.0]
    for place, chance in enumerate(acceptance, 1):
        if not 0 <= chance <= 1:
            raise ValueError(
                f"`acceptance` of draft {place} is {chance}, wanted 0 to 1; a chance "
                "is accepted over offered"
            )
        kept.append(kept[-1] * chance)
    return tuple(kept)


def expected_keep(acceptance: Sequence[float]) -> float:
    """Rows that a window commits, which is what it emits, on average.

    E[keep] = q_0 + q_1 + ... + q_D. With a = 0.7 throughout 2.533 at T = 4 and 2.19 at
    T = 3. The rule; papers, 0.3, identity 1 (where E[A] = E[keep] - 1).

    Args:
        acceptance: [D], as in `survival`; none at all is plain decoding.

    Returns:
        Tokens, 1 to D + 1.

    Raises:
        ValueError: as `survival` raises.
    """
    return math.fsum(survival(acceptance))


def keeps(acceptance: Sequence[float]) -> tuple[float, ...]:
    """E[keep] of windows of 1, 2, ... rows that verify the first drafts of a chain.

    The rule; what `marginal_rows` and `best_rows` ask for.

    Args:
        acceptance: [D], as in `survival`.

    Returns:
        [D + 1], rows, of T = 1 to D + 1.

    Raises:
        ValueError: as `survival` raises.
    """
    return tuple(itertools.accumulate(survival(acceptance)))


def break_even_ms(serial_ms: float, acceptance: Sequence[float]) -> float:
    """Time in which a window is just as fast as decoding one token after the other.

    serial_ms * E[keep]: at 44.4 ms a token and a = 0.7, 112.5 ms for four rows. All
    that a window costs counts: drafting, reads, commit and fold. A threshold, not a
    prediction. The rule.

    Args:
        serial_ms: of one token without drafts.
        acceptance: [D], as in `survival`.

    Returns:
        Milliseconds.

    Raises:
        ValueError: as `survival` raises, or `serial_ms` is not above 0.
    """
    return _above("serial_ms", serial_ms) * expected_keep(acceptance)


def break_even_acceptance(
    window_ms: float, *, serial_ms: float, drafts: int
) -> float | None:
    """Acceptance of each draft that a window of this price needs to pay for itself.

    The constant a with E[keep] = window_ms / serial_ms; the inverse of `break_even_ms`.

    Args:
        window_ms: of a window with `drafts` drafts.
        serial_ms: of one token without drafts.
        drafts: D, 1 or more.

    Returns:
        0 to 1; None: not even drafts that are always right pay, for a window costs more
        than D + 1 tokens without.

    Raises:
        ValueError: a time is not above 0, or there is no draft.
    """
    rows = _count("drafts", drafts, least=1) + 1
    wanted = _above("window_ms", window_ms) / _above("serial_ms", serial_ms)
    if wanted > rows:
        return None
    low, high = 0.0, 1.0
    # E[keep] rises with a, so halving finds it.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if expected_keep((middle,) * (rows - 1)) < wanted:
            low = middle
        else:
            high = middle
    return 0.0 if wanted <= 1 else high


def gain(tokens: float, drafts: float, price: float) -> float:
    """How many times as cheap as plain decoding windows with drafts are.

    tokens / (1 + price * drafts): plain decoding pays 1 for each token, a window 1 for
    its root and `price` for each draft, right or wrong. What a drafter takes is left
    out.

    Args:
        tokens: emitted by a window, on average.
        drafts: rows of drafts in a window, on average.
        price: of a further row; 0: it is free, 1: as dear as a window of its own.

    Raises:
        ValueError: a number is below 0, or NaN.
    """
    rows = _at_least_0("price", price) * _at_least_0("drafts", drafts)
    return _at_least_0("tokens", tokens) / (1 + rows)


def uniform_union(experts: int, chosen: int, rows: int) -> float:
    """Experts that a window needs if each row draws its own at random, by itself.

    E (1 - (1 - K/E)^T): 38.8 of 512 for four rows that draw 10 each. An expectation,
    not a bound, and rows of one text share more. The rule; papers, 0.3, identity 3.

    Args:
        experts: of a layer, E, 1 or more.
        chosen: experts that a row uses, K, 0 to E.
        rows: of the window, T, 0 or more.

    Returns:
        Experts, at most `largest_union`.

    Raises:
        ValueError: a number is out of range.
        TypeError: a number is not whole.
    """
    total, each, many = _layer(experts, chosen, rows)
    return float(total * (1 - (1 - each / total) ** many))


def largest_union(experts: int, chosen: int, rows: int) -> int:
    """The most experts that a window can need: min(E, T K), when no two rows share one.

    Papers, 0.3, identity 3.

    Args:
        experts: of a layer, E, 1 or more.
        chosen: experts that a row uses, K, 0 to E.
        rows: of the window, T, 0 or more.

    Raises:
        ValueError: a number is out of range.
        TypeError: a number is not whole.
    """
    total, each, many = _layer(experts, chosen, rows)
    return min(total, many * each)


def cap_without_io(serial_ms: float, *, rest_ms: float) -> float:
    """Speed-up that is left when every wait for reads is gone, and nothing else.

    serial_ms / rest_ms: with 44.4 ms a token of which 38 are computing, 1.17 times.
    What is more must come from rows that share dense weights. The rule.

    Args:
        serial_ms: of one token, waits included.
        rest_ms: of it, what is no wait.

    Raises:
        ValueError: a time is not above 0, or `rest_ms` is more than `serial_ms`.
    """
    whole, rest = _above("serial_ms", serial_ms), _above("rest_ms", rest_ms)
    if rest > whole:
        raise ValueError(
            f"`rest_ms` is {rest_ms}, wanted at most `serial_ms` = {serial_ms}, of "
            "which it is a part"
        )
    return whole / rest


def window_ms(
    rows: int,
    union: float,
    *,
    dense_ms: float,
    expert_ms: float,
    row_ms: float = 0.0,
) -> float:
    """What a window costs: a part that rows share, and a part that grows with them.

    dense_ms + expert_ms * union + row_ms * (T - 1). Dense weights are read once however
    many rows there are; experts are read once for all rows that use them, so their part
    goes with the union. The rule; papers, 0.3, identity 4, without what overlaps.

    Args:
        rows: T, 1 or more.
        union: distinct experts that are paid for, of all layers together: the union, or
            what of it is in no slot.
        dense_ms: of a window of one row, without its experts.
        expert_ms: of one expert.
        row_ms: of each further row, for what rows do not share (attention, recurrence).

    Returns:
        Milliseconds.

    Raises:
        ValueError: a number is out of range.
        TypeError: `rows` is not whole.
    """
    further = _count("rows", rows, least=1) - 1
    experts = _at_least_0("expert_ms", expert_ms) * _at_least_0("union", union)
    dense = _at_least_0("dense_ms", dense_ms)
    return dense + experts + _at_least_0("row_ms", row_ms) * further


def marginal_rows(keeps: Sequence[float], costs: Sequence[float]) -> int:
    """Rows by the marginal rule: one more while it brings more than it costs.

    Goes on from T to T + 1 while (E' - E) / (C' - C) > E / C, and stops at the first
    row that does not pay, though a later one might: see `rules_agree`. A row that
    lowers the cost pays if the ratio rises. The rule.

    Args:
        keeps: E[keep] of T = 1, 2, ... rows, each 0 or more.
        costs: of the same windows, above 0, in any one unit.

    Returns:
        T, 1 to the number of entries.

    Raises:
        ValueError: nothing, lengths that differ, or a number out of range.
    """
    _curves(keeps, costs)
    rows = 1
    # (E' - E) C > E (C' - C), with both sides less E C: holds whatever C' - C is.
    while rows < len(keeps) and _is_better(keeps, costs, rows, rows - 1):
        rows += 1
    return rows


def marginal_rows_at(
    keeps: Sequence[float], costs: Sequence[float], *, rate: float
) -> int:
    """Rows by the marginal rule at a throughput that is known.

    Goes on from T to T + 1 while (E' - E) > rate * (C' - C), and stops at the first row
    that brings no more than the same time brings elsewhere. The rule's "current
    throughput", where windows differ: with `rate` that of all windows together, each
    one's best length is the one with the highest E - rate * C.

    Args:
        keeps: E[keep] of T = 1, 2, ... rows, each 0 or more.
        costs: of the same windows, above 0, in any one unit.
        rate: rows kept for each such unit, 0 or more.

    Returns:
        T, 1 to the number of entries.

    Raises:
        ValueError: nothing, lengths that differ, or a number out of range.
    """
    _curves(keeps, costs)
    _at_least_0("rate", rate)
    rows = 1
    while rows < len(keeps) and (
        keeps[rows] - keeps[rows - 1] > rate * (costs[rows] - costs[rows - 1])
    ):
        rows += 1
    return rows


def best_rows(keeps: Sequence[float], costs: Sequence[float]) -> int:
    """Rows with the highest E[keep] / cost of all; of equals the fewest.

    The governor of MoE-SpeQ and the cut of EVICT look for this (papers, 4 and 8).

    Args:
        keeps: E[keep] of T = 1, 2, ... rows, each 0 or more.
        costs: of the same windows, above 0, in any one unit.

    Returns:
        T, 1 to the number of entries.

    Raises:
        ValueError: nothing, lengths that differ, or a number out of range.
    """
    _curves(keeps, costs)
    best = 0
    for row in range(1, len(keeps)):
        if _is_better(keeps, costs, row, best):
            best = row
    return best + 1


def rules_agree(keeps: Sequence[float], costs: Sequence[float]) -> bool:
    """Whether `marginal_rows` is sure to find `best_rows`: E concave and C convex.

    E - r C is then concave for any ratio r >= 0, so that E / C rises to one top and
    falls: the first row that does not pay is followed by none that does. Otherwise they
    may agree, or not. E[keep] is always concave, as q_i never rises; measured costs
    often are not convex (papers, 11: a sixth row dearer than the seventh).

    Args:
        keeps: E[keep] of T = 1, 2, ... rows, each 0 or more.
        costs: of the same windows, above 0, in any one unit.

    Raises:
        ValueError: nothing, lengths that differ, or a number out of range.
    """
    _curves(keeps, costs)
    return _is_convex([-keep for keep in keeps]) and _is_convex(costs)


def _is_convex(values: Sequence[float]) -> bool:
    slack = _ROUNDING * max(abs(value) for value in values)
    return all(
        values[at] - 2 * values[at + 1] + values[at + 2] >= -slack
        for at in range(len(values) - 2)
    )


def _is_better(
    keeps: Sequence[float], costs: Sequence[float], row: int, other: int
) -> bool:
    # Multiplied out, so that whole numbers are compared exactly.
    return keeps[row] * costs[other] > keeps[other] * costs[row]


def _curves(keeps: Sequence[float], costs: Sequence[float]) -> None:
    if not len(keeps) or len(keeps) != len(costs):
        raise ValueError(
            f"`keeps` has {len(keeps)} entries and `costs` {len(costs)}, wanted one of "
            "each for T = 1, 2, ... rows"
        )
    for keep, cost in zip(keeps, costs, strict=True):
        _at_least_0("keeps", keep)
        _above("costs", cost)


def _layer(experts: int, chosen: int, rows: int) -> tuple[int, int, int]:
    total = _count("experts", experts, least=1)
    each = _count("chosen", chosen, least=0)
    if each > total:
        raise ValueError(
            f"`chosen` is {chosen}, wanted at most `experts` = {experts}; a row uses "
            "an expert once"
        )
    return total, each, _count("rows", rows, least=0)


def _count(name: str, value: int, *, least: int) -> int:
    count = operator.index(value)
    if count < least:
        raise ValueError(f"`{name}` is {value}, wanted {least} or more")
    return count


def _above(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"`{name}` is {value}, wanted more than 0")
    return value


def _at_least_0(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise ValueError(f"`{name}` is {value}, wanted 0 or more")
    return value
