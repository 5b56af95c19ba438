"""A part whose rows follow the text at a distance: those of the draft head."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from strata_nb.parts.part import Part


@dataclass(frozen=True)
class PendingBehind:
    """Pending of the part itself; the first window of a text has one row fewer."""

    rows: Any  # None: the window has no row for it, or brings it later
    fewer: int  # 0, or 1


@dataclass(frozen=True)
class Behind(Part[Any, PendingBehind]):
    """The part `inner`, which holds a row for each cell but the last `cells`.

    Where its row for a cell needs the token that follows, the first token of a text
    brings none, and a window from cell n on brings those of cells n - 1 on.
    """

    inner: Part[Any, Any]
    cells: int = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the part itself."""
        return self.inner.name

    def initial(self) -> Any:
        """As the part's."""
        return self.inner.initial()

    def commit(self, committed: Any, pending: PendingBehind, *, keep: int) -> Any:
        """Commit the rows of the cells whose next token is kept."""
        if pending.rows is None:
            return committed
        return self.inner.commit(committed, pending.rows, keep=keep - pending.fewer)

    def settle(self, committed: Any) -> Any:
        """As the part does."""
        return self.inner.settle(committed)

    def filled(self, committed: Any, value: float) -> Any:
        """As the part does."""
        return self.inner.filled(committed, value)

    def leaves(self, committed: Any) -> dict[str, mx.array]:
        """As the part's."""
        return self.inner.leaves(committed)

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Those of `cells` cells fewer."""
        return self.inner.shapes(max(0, n - self.cells))

    def restore(self, leaves: Mapping[str, mx.array]) -> Any:
        """As the part does."""
        return self.inner.restore(leaves)
