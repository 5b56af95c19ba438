"""What slots and reads have cost so far."""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class LayerCounters:
    """Of one layer, or of all of them together.

    Every expert that was wanted is a hit, a miss or late.

    Attributes:
        hits: were in a slot when wanted.
        misses: were in no slot, and had to be read.
        late: were on their way already, and had to be waited for.
        prefetched: were read ahead.
        wasted: were read ahead and lost their slot before anybody wanted them.
        evicted: lost their slot.
        bytes_read: all bytes read, those read ahead included.
        bytes_prefetched: the share of `bytes_read` that was read ahead.
        failures: reads that failed, a second try counted again.
        wait_seconds: spent waiting in `take`, of all threads.
    """

    hits: int = 0
    misses: int = 0
    late: int = 0
    prefetched: int = 0
    wasted: int = 0
    evicted: int = 0
    bytes_read: int = 0
    bytes_prefetched: int = 0
    failures: int = 0
    wait_seconds: float = 0.0

    def __add__(self, other: "LayerCounters") -> "LayerCounters":
        """Both together."""
        return LayerCounters(**{n: getattr(self, n) + getattr(other, n) for n in NAMES})

    def __sub__(self, other: "LayerCounters") -> "LayerCounters":
        """What was added since `other`."""
        return LayerCounters(**{n: getattr(self, n) - getattr(other, n) for n in NAMES})

    def reading(self, other: "LayerCounters") -> "LayerCounters":
        """What was wanted and waited for here, with what `other` has read for it."""
        return replace(other, **{n: getattr(self, n) for n in WANTED})


WANTED = ("hits", "misses", "late", "wait_seconds")
NAMES = tuple(field.name for field in fields(LayerCounters))
TALLIED = tuple(name for name in NAMES if name != "wait_seconds")


@dataclass(frozen=True)
class Counters:
    """Of a whole model at one moment; the difference of two is what lies between.

    Attributes:
        layers: one for each layer.
    """

    layers: tuple[LayerCounters, ...]

    @property
    def total(self) -> LayerCounters:
        """Of all layers together."""
        return sum(self.layers, LayerCounters())

    def __sub__(self, before: "Counters") -> "Counters":
        """What was added since `before`, layer by layer."""
        return Counters(
            tuple(
                now - then for now, then in zip(self.layers, before.layers, strict=True)
            )
        )

    def reading(self, other: "Counters") -> "Counters":
        """What was wanted and waited for here, with what `other` has read for it."""
        pairs = zip(self.layers, other.layers, strict=True)
        return Counters(tuple(own.reading(theirs) for own, theirs in pairs))
