"""What a trace says of slots and reads: sums of counts, where all were measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from strata_nb.trace import LayerRecord
from strata_nb.trace.summary import layer_totals

HERE: Final = "in a slot"
LATE: Final = "late"
READ: Final = "read"
"""What an expert was when a layer wanted it; `late`: on its way, and waited for."""


@dataclass(frozen=True)
class Counts:
    """Of a layer, a window or a run; None is "not measured", as in `LayerRecord`.

    Attributes:
        resident: wanted, and in a slot.
        miss: wanted, and read.
        late: wanted, and on their way already.
        prefetched: read ahead.
        evicted: lost their slot.
        bytes_read: all bytes, those read ahead included.
        prefetched_bytes: those read ahead.
    """

    resident: int | None = None
    miss: int | None = None
    late: int | None = None
    prefetched: int | None = None
    evicted: int | None = None
    bytes_read: int | None = None
    prefetched_bytes: int | None = None

    @property
    def wanted(self) -> int | None:
        """Experts that were wanted; None where it was not measured what they were."""
        found = (self.resident, self.miss, self.late)
        return None if None in found else sum(n or 0 for n in found)

    @property
    def hit_rate(self) -> float | None:
        """Share of the wanted experts that were in a slot, 0 to 1."""
        return (self.resident or 0) / self.wanted if self.wanted else None

    @property
    def wanted_bytes(self) -> int | None:
        """Bytes that were read because a layer waited for them."""
        if self.bytes_read is None or self.prefetched_bytes is None:
            return None
        return self.bytes_read - self.prefetched_bytes


def counted(layers: Iterable[LayerRecord]) -> Counts:
    """Sum each count over `layers`; one that a layer lacks is not measured."""
    return Counts(**layer_totals(layers))


def as_wanted(layer: LayerRecord) -> str | None:
    """What every expert of `layer` was when it was wanted, if all were the same.

    A trace counts and does not name them: of a mixture it isn't known which was what.
    """
    wanted = counted([layer]).wanted
    counts = {HERE: layer.resident, LATE: layer.late, READ: layer.miss}
    return next((word for word, n in counts.items() if wanted and n == wanted), None)


def size(count: float) -> str:
    """Bytes in a unit of a thousand, as `1.2 MB`."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count:.0f} B"
