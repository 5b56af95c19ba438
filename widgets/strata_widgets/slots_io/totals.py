"""What slots and reads add up to over a run, in a few numbers whatever its length."""

from dataclasses import dataclass, field, fields

from strata_nb import WindowRecord
from strata_widgets.slots_io.counts import Counts, counted
from strata_widgets.timeline.bins import Bins


@dataclass
class Totals:
    """Sums over the windows in which a count was measured.

    Attributes:
        windows: all of them.
        measured: those with slots.
        resident: and the others: as in `Counts`; None where no window measured it.
        wait_ms: waited for experts, in windows whose `run` was timed.
        run_ms: of these windows.
        most: largest number of experts wanted, or evicted, by one window.
        most_bytes: read by one window.
        wanted: experts of each piece of the run.
        hits: of them in a slot.
        read: bytes.
        sized: 1 for each window whose bytes were measured.
    """

    windows: int = 0
    measured: int = 0
    resident: int | None = None
    miss: int | None = None
    late: int | None = None
    prefetched: int | None = None
    evicted: int | None = None
    bytes_read: int | None = None
    prefetched_bytes: int | None = None
    wait_ms: float = 0.0
    run_ms: float = 0.0
    most: int = 0
    most_bytes: int = 0
    wanted: Bins = field(default_factory=Bins)
    hits: Bins = field(default_factory=Bins)
    read: Bins = field(default_factory=Bins)
    sized: Bins = field(default_factory=Bins)

    def add(self, record: WindowRecord) -> None:
        """Take in one window."""
        counts = counted(record.layers)
        self.windows += 1
        self.measured += counts.wanted is not None
        for one in fields(Counts):
            value = getattr(counts, one.name)
            if value is not None:
                setattr(self, one.name, (getattr(self, one.name) or 0) + value)
        if record.expert_wait_ms is not None and record.run_ms is not None:
            self.wait_ms += record.expert_wait_ms
            self.run_ms += record.run_ms
        self.most = max(self.most, counts.wanted or 0, counts.evicted or 0)
        self.most_bytes = max(self.most_bytes, counts.bytes_read or 0)
        # A window that was not measured wanted none: it moves no share.
        self.wanted.add(counts.wanted or 0)
        self.hits.add((counts.resident or 0) if counts.wanted is not None else 0)
        self.read.add(counts.bytes_read or 0)
        self.sized.add(counts.bytes_read is not None)

    @property
    def width(self) -> int:
        """Windows of a piece of the run."""
        return self.wanted.width

    def pieces(self, *, begin: int = 0) -> list[dict[str, float]]:
        """Each whole piece of the run that wanted experts, from window `begin` on."""
        sums = (self.wanted, self.hits, self.read, self.sized)
        made = []
        for means in zip(*(each.means() for each in sums), strict=True):
            (first, end, wanted), (_, _, hits), (_, _, read), (_, _, sized) = means
            if not wanted or first < begin or end - first < self.width:
                continue
            piece = {"from": first, "to": end, "hits": round(hits / wanted, 3)}
            made.append(piece | ({"bytes": round(read / sized)} if sized else {}))
        return made
