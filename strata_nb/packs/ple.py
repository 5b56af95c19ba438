"""N-gram embeddings (PLE): the hash, its constants, rows read from disk as asked."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strata_nb.packs.primes import primes_from, split_mix
from strata_nb.packs.safetensors_file import BITS, DTYPE_NAMES, byte_view, widen

if TYPE_CHECKING:
    from strata_nb.packs.config import ModelConfig
    from strata_nb.packs.safetensors_file import Entry, SafetensorsFile

Int64s = npt.NDArray[np.int64]
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class PleConstants:
    """What the hash of one PLE module multiplies and divides by."""

    multipliers: Int64s  # [N]
    sizes: Int64s  # [G], distinct primes
    offsets: Int64s  # [G], rows of the heads before
    table_rows: int


def derive_constants(config: "ModelConfig") -> tuple[PleConstants, ...]:
    """Constants of every PLE module, in the order of `config.ple_layers`."""
    heads = config.ngram_heads
    wanted = heads * len(config.ple_layers)
    # No prime is used twice: module j continues where module j - 1 stopped.
    primes = list(islice(primes_from(config.ngram_vocab_size_base), wanted))
    return tuple(
        _module_constants(config, j, primes[j * heads : (j + 1) * heads])
        for j in range(len(config.ple_layers))
    )


def _module_constants(config: "ModelConfig", j: int, sizes: list[int]) -> PleConstants:
    half = max(1, (2**63 - 1) // config.vocab_size // 2)
    multipliers = [
        2 * (split_mix(config.seed + 10007 * j + _GOLDEN * (i + 1)) % half) + 1
        for i in range(config.ngram_size)
    ]
    divisor = config.make_ngram_vocab_size_divisible_by
    return PleConstants(
        np.array(multipliers, np.int64),
        np.array(sizes, np.int64),
        np.array(list(accumulate(sizes, initial=0))[:-1], np.int64),
        -(-sum(sizes) // divisor) * divisor,
    )


def hash_rows(
    context: Sequence[int],
    ids: Sequence[int],
    *,
    multipliers: Int64s,
    sizes: Int64s,
    offsets: Int64s,
    eos: int,
) -> Int64s:
    """Table rows of each token of a window.

    Args:
        context: up to N - 1 ids before the window, the latest last; what is missing
            at a sequence's start reads as `eos`.
        ids: the window's T ids.
        multipliers: [N], odd; below 2**63 over the vocabulary, or products would wrap.
        sizes: [G] primes, heads of order 2 first.
        offsets: [G] first row of each head.
        eos: the id that bars the look-back past it.

    Returns:
        [T, G] int64.

    Raises:
        ValueError: `context` holds more than N - 1 ids.
    """
    orders, heads = len(multipliers), len(sizes)
    before = orders - 1
    if len(context) > before:
        raise ValueError(
            f"`context` has {len(context)} ids, wanted at most {before}; "
            f"pass the last {before} ids before the window"
        )
    missing = [eos] * (before - len(context))
    history = [int(i) for i in (*missing, *context, *ids)]
    factors = [int(m) for m in multipliers]
    pairs = list(zip(sizes.tolist(), offsets.tolist(), strict=True))
    per_order = heads // max(before, 1)
    rows = []
    # Python's integers: a window has few rows, and nothing can wrap.
    for at in range(before, len(history)):
        mix, barred = history[at] * factors[0], False
        for shift in range(1, orders):
            token = history[at - shift]
            # An EOS at the token itself bars nothing; one further back bars all beyond
            # it, and reads as EOS itself either way.
            barred = barred or token == eos
            mix ^= (eos if barred else token) * factors[shift]
            span = pairs[(shift - 1) * per_order : shift * per_order]
            rows += [mix % size + offset for size, offset in span]
    return np.array(rows, np.int64).reshape(len(ids), heads)


class PleTable:
    """One PLE module's hash and its table, which stays on disk.

    Attributes:
        multipliers: int64 [N].
        sizes: int64 [G].
        offsets: int64 [G].
    """

    def __init__(
        self,
        multipliers: Int64s,
        sizes: Int64s,
        offsets: Int64s,
        *,
        eos: int,
        shards: "Sequence[tuple[SafetensorsFile, Entry]]",
    ) -> None:
        self.multipliers = multipliers
        self.sizes = sizes
        self.offsets = offsets
        self._eos = eos
        self._shards = tuple(shards)
        lengths = [entry.shape[0] for _, entry in self._shards]
        self._starts = [0, *accumulate(lengths)]
        self._dtype = self._shards[0][1].dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features of the whole table."""
        return self._starts[-1], self._shards[0][1].shape[1]

    def hash(self, context: Sequence[int], ids: Sequence[int]) -> Int64s:
        """Rows [T, G] of `ids` after `context`, the last N - 1 ids; see `hash_rows`."""
        return hash_rows(
            context,
            ids,
            multipliers=self.multipliers,
            sizes=self.sizes,
            offsets=self.offsets,
            eos=self._eos,
        )

    def rows(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """Read just these rows from the file.

        Args:
            rows: integers [...], each from 0 below the table's length.

        Returns:
            float32 [..., d].

        Raises:
            ValueError: a row is outside the table.
        """
        wanted = np.asarray(rows).astype(np.int64, casting="same_kind")
        flat = wanted.ravel().tolist()
        length, features = self.shape
        if flat and not 0 <= min(flat) <= max(flat) < length:
            raise ValueError(
                f"`rows` run from {min(flat)} to {max(flat)}, the table from 0 to "
                f"{length - 1}; take them from `hash`"
            )
        bits = np.empty((len(flat), features), BITS[self._dtype])
        target, size = byte_view(bits), features * bits.itemsize
        # Row by row: a window asks for few rows, far apart, and NumPy calls cost more
        # than reads do.
        for number, row in enumerate(flat):
            # The last shard that starts at or before the row: empty shards hold none.
            owner = bisect_right(self._starts, row) - 1
            file, entry = self._shards[owner]
            place = entry.start + (row - self._starts[owner]) * size
            file.read_into(target[number * size : (number + 1) * size], place)
        return widen(bits, DTYPE_NAMES[self._dtype]).reshape(*wanted.shape, features)
