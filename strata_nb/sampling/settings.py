"""How a token is chosen: the settings that a user gives."""

import math
import operator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Sampling:
    """Settings of the choice; the default is greedy.

    They apply in this order: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: 0 takes the best token; above 0 logits are divided by it.
        top_k: only so many of the likeliest tokens; 0 is no limit.
        top_p: only the likeliest tokens that together have this probability, the one
            that reaches it included; 1 is no limit.
        min_p: only tokens with at least this part of the likeliest one's probability.
        seed: of all random numbers.
        rule: how drafts are accepted at a temperature above 0. "equality": when the
            model's own draw is the draft, so that the text is the one without drafts;
            "ratio": with probability min(1, p / q), so that the law is the same and
            more are accepted.

    Raises:
        ValueError: a setting is out of its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    rule: Literal["equality", "ratio"] = "equality"

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"`temperature` is {self.temperature}, wanted 0 (greedy) or more"
            )
        if operator.index(self.top_k) < 0:
            raise ValueError(f"`top_k` is {self.top_k}, wanted 0 (no limit) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"`top_p` is {self.top_p}, wanted above 0, 1 at most")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"`min_p` is {self.min_p}, wanted 0 to 1")
        if not 0 <= operator.index(self.seed) < 2**64:
            raise ValueError(f"`seed` is {self.seed}, wanted 0 to 2**64 - 1")
        if self.rule not in ("equality", "ratio"):
            raise ValueError(f"`rule` is {self.rule!r}, wanted 'equality' or 'ratio'")


GREEDY = Sampling()
RECOMMENDED = Sampling(temperature=1.0, top_k=20, top_p=0.95)
"""What the makers of the family recommend."""
