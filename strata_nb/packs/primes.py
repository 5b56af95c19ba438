"""Exact integers for the n-gram hash: SplitMix64 and primes above a base."""

from collections.abc import Iterator

_MASK = (1 << 64) - 1
_SMALL = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def split_mix(value: int) -> int:
    """One step of SplitMix64 on `value` modulo 2**64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def primes_from(base: int) -> Iterator[int]:
    """The primes from `base` on, itself included when prime, ascending."""
    if base <= 2:
        yield 2
    candidate = max(base, 3) | 1
    while True:
        if is_prime(candidate):
            yield candidate
        candidate += 2


def is_prime(n: int) -> bool:
    """Whether `n` is prime; exact below 3.3e24 (Miller-Rabin to the first 12 primes).

    A sieve to the root would need memory that grows with a number from a config.
    """
    if n < 2:
        return False
    for p in _SMALL:
        if n % p == 0:
            return n == p
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    return all(_passes(n, witness, twos) for witness in _SMALL)


def _passes(n: int, witness: int, twos: int) -> bool:
    """Whether `witness` fails to show that `n` is composite."""
    x = pow(witness, (n - 1) >> twos, n)
    if x in (1, n - 1):
        return True
    for _ in range(twos - 1):
        x = x * x % n
        if x == n - 1:
            return True
    return False
