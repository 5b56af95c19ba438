"""Every kernel at one size: what it is run on, what it must equal, what it replaces."""

from collections.abc import Callable, Iterator, Sequence

from tools.kernel_cases.blocks import attended, blocks_chosen, pooled, scored
from tools.kernel_cases.case import RELEASED, SMALL, Arrays, Case, Sizes
from tools.kernel_cases.delta import delta_prompt, delta_replay, delta_window
from tools.kernel_cases.routing import routed

__all__ = ["RELEASED", "SMALL", "Arrays", "Case", "Sizes", "cases"]


def cases(sizes: Sizes, *, rows: Sequence[int]) -> Iterator[Callable[[], Case]]:
    """Makers of all cases, so that one that cannot be made stops no other."""
    yield lambda: delta_prompt(sizes, 16 * max(rows))
    for count in rows:
        yield lambda count=count: delta_window(sizes, count)  # type: ignore[misc]
        yield lambda count=count: delta_replay(sizes, count)  # type: ignore[misc]
        yield lambda count=count: pooled(sizes, count)  # type: ignore[misc]
        yield lambda count=count: scored(sizes, count)  # type: ignore[misc]
        yield lambda count=count: blocks_chosen(sizes, count)  # type: ignore[misc]
        yield lambda count=count: attended(sizes, count)  # type: ignore[misc]
        for kind in ("natural", "bonus", "budget"):
            yield lambda count=count, kind=kind: routed(  # type: ignore[misc]
                sizes, count, kind
            )
