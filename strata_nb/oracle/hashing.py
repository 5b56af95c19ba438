"""Which table rows n-grams read (spec 5.1 to 5.3), from the configuration alone."""

import itertools
import operator
from collections.abc import Sequence
from math import isqrt

from strata_nb.packs import ModelConfig

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def splitmix64(value: int) -> int:
    """One SplitMix64 step on a 64-bit number."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


class NgramHash:
    """The hash of PLE module `module`, counted from 0 along the sorted PLE layers."""

    def __init__(self, config: ModelConfig, module: int) -> None:
        assert config.eos_token_id is not None  # no PLE is read without one
        self._eos, self._heads = config.eos_token_id, config.heads_per_ngram
        half = max(1, (2**63 - 1) // max(config.vocab_size, 1) // 2)
        seed = config.seed + 10007 * module
        self.multipliers = [
            2 * (splitmix64(seed + _GOLDEN * (i + 1)) % half) + 1
            for i in range(config.ngram_size)
        ]
        # Module j goes on in the list of primes where module j - 1 stopped.
        candidates = itertools.count(max(2, config.ngram_vocab_size_base))
        primes = (n for n in candidates if all(n % d for d in range(2, 1 + isqrt(n))))
        count = (config.ngram_size - 1) * self._heads
        self.sizes = [*itertools.islice(primes, module * count, (module + 1) * count)]
        self.offsets = [*itertools.accumulate(self.sizes[:-1], initial=0)]

    def rows(self, ids: Sequence[int]) -> list[int]:
        """Rows read at the newest of the last N ids (oldest first), one per head."""
        shifted, blocked = [ids[-1]], False
        for token in reversed(ids[:-1]):
            # An eos behind the newest id hides itself and all before it.
            blocked = blocked or token == self._eos
            shifted.append(self._eos if blocked else token)
        products = map(operator.mul, shifted, self.multipliers)
        mixes = [*itertools.accumulate(products, operator.xor)]  # of order 1, 2, ...
        per_head = [mix for mix in mixes[1:] for _ in range(self._heads)]
        heads = zip(per_head, self.sizes, self.offsets, strict=True)
        return [mix % size + offset for mix, size, offset in heads]
