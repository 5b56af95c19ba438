"""Rooflines, and the time of operations that wait for each other (SpecMoEOff)."""

import math
from collections.abc import Mapping, Sequence


def ridge(flops: float, bytes_per_s: float) -> float:
    """Operations for each byte at which computing takes as long as moving it.

    peak / bandwidth: 6600 for 165 TFLOPS behind a link of 25 GB/s. Weights of two bytes
    need two operations for each token, so there it is also the number of tokens that a
    loaded expert has to serve (papers, 2).

    Args:
        flops: operations a second, at most.
        bytes_per_s: of the link or the memory.

    Raises:
        ValueError: a number is not above 0.
    """
    return _above("flops", flops) / _above("bytes_per_s", bytes_per_s)


def attainable(flops: float, bytes_per_s: float, *, intensity: float) -> float:
    """Operations a second under the roof: min(peak, bandwidth * intensity).

    Args:
        flops: operations a second, at most.
        bytes_per_s: of the link or the memory.
        intensity: operations for each byte.

    Raises:
        ValueError: a number is not above 0.
    """
    slope = _above("bytes_per_s", bytes_per_s) * _above("intensity", intensity)
    return min(_above("flops", flops), slope)


def tokens_per_expert(
    requests: float, *, drafts: int, chosen: int, experts: int
) -> float:
    """Tokens that an expert of a layer serves in a window: b (k + 1) K / E.

    If all are used alike. Papers, 2.

    Args:
        requests: windows verified together, b.
        drafts: of each, k.
        chosen: experts that a row uses, K.
        experts: of a layer, E.

    Raises:
        ValueError: a number is out of range.
    """
    if drafts < 0 or not 0 < chosen <= experts:
        raise ValueError(
            f"`drafts` is {drafts}, `chosen` {chosen} and `experts` {experts}; wanted "
            "0 or more, and 1 to `experts`"
        )
    return _above("requests", requests) * (drafts + 1) * chosen / experts


def longest_path(ms: Mapping[str, float], after: Mapping[str, Sequence[str]]) -> float:
    """When the last of these operations ends, if each starts as soon as it can.

    SpecMoEOff's estimate of an iteration (papers, 2): operations that need each other's
    results, or share a device and so have an order, wait; all others run side by side.

    Args:
        ms: time of each operation, by name.
        after: for an operation, those that have to end before it starts.

    Raises:
        ValueError: an operation without a time, a time below 0, or operations that wait
            for each other in a circle.
    """
    names = {*after, *(name for names in after.values() for name in names)}
    unknown = sorted(names - {*ms})
    if unknown:
        raise ValueError(f"`ms` has no time of {', '.join(unknown)}; give all of them")
    for name, time in ms.items():
        if not 0 <= time < math.inf:
            raise ValueError(f"`ms` of {name} is {time}, wanted 0 or more")
    ends: dict[str, float] = {}
    waiting = list(ms)
    while waiting:
        ready = [n for n in waiting if all(o in ends for o in after.get(n, ()))]
        if not ready:
            raise ValueError(
                f"{', '.join(waiting)} wait for each other in a circle; wanted an order"
            )
        for name in ready:
            begin = max((ends[other] for other in after.get(name, ())), default=0.0)
            ends[name] = begin + ms[name]
        waiting = [name for name in waiting if name not in ends]
    return max(ends.values(), default=0.0)


def _above(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"`{name}` is {value}, wanted more than 0")
    return value
