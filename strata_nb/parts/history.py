"""The last rows that a short convolution looks back on: GDN's and PLE's."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.parts.part import Part


@dataclass(frozen=True)
class RowHistory(Part[mx.array, mx.array]):
    """The last `length` rows, zeros before the start; [length, channels].

    `gdn_conv` holds projected rows before convolution, `ple_conv` normed values.
    """

    name: str
    length: int
    channels: int
    dtype: mx.Dtype

    def initial(self) -> mx.array:
        """Zeros."""
        return mx.zeros((self.length, self.channels), dtype=self.dtype)

    def run(self, committed: mx.array, rows: mx.array) -> tuple[mx.array, mx.array]:
        """History and window in order, [length + T, channels], for both uses."""
        joined = mx.concatenate([committed, rows])
        return joined, joined

    def commit(self, committed: mx.array, pending: mx.array, *, keep: int) -> mx.array:
        """Shift in the kept rows."""
        # A copy: a view would hold the whole window, and so every window before it.
        return mx.contiguous(pending[keep : keep + self.length])

    def leaves(self, committed: mx.array) -> dict[str, mx.array]:
        """`rows`, [length, channels]."""
        return {"rows": committed}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Always the same."""
        return {"rows": (self.length, self.channels)}

    def restore(self, leaves: Mapping[str, mx.array]) -> mx.array:
        """The history from its rows."""
        return leaves["rows"].astype(self.dtype)
