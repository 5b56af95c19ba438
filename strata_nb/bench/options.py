"""Options that the benchmarks share."""

import argparse
from collections.abc import Callable


def whole(low: int, high: int) -> Callable[[str], int]:
    """The type of an option that is a whole number from `low` to `high`."""

    def read(text: str) -> int:
        # Looked at before `int`, which refuses thousands of digits in its own words.
        if text.isdecimal() and len(text) <= 10 and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(
            f"wanted a whole number from {low} to {high}, got {text[:40]!a}"
        )

    return read
