"""A policy beside the exact model: quality first, work next to it, never work alone."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

APPROXIMATE = "approximate"
"""The word that whatever is not exact carries, in names, records and reports."""


@dataclass(frozen=True)
class Setting:
    """What the policy and the exact model share; both begin with an empty sequence.

    Attributes:
        texts: name of each text and its tokens.
        rows: of a window under teacher forcing.
        decoded: tokens decoded freely after the first half of each text.
        start: of the experts.
        seed: greedy decoding draws nothing, and says so.
    """

    texts: tuple[tuple[str, int], ...]
    rows: int
    decoded: int
    start: str = "every expert resident"
    seed: int | None = None


@dataclass(frozen=True)
class Quality:
    """How a policy predicts one text, against the exact model.

    Attributes:
        predictions: rows under teacher forcing that have a next token.
        exact_nats: cross entropy of the exact model, nats a token.
        nats: cross entropy under the policy.
        agreement: share of rows with the same best token, 0 to 1.
        kl: mean divergence of the policy from the exact model, nats.
        alike: tokens decoded freely before the first that differs.
        decoded: tokens decoded freely.
    """

    predictions: int
    exact_nats: float
    nats: float
    agreement: float
    kl: float
    alike: int
    decoded: int

    def __post_init__(self) -> None:
        numbers = (self.exact_nats, self.nats, self.agreement, self.kl)
        if self.predictions < 1 or not all(map(math.isfinite, numbers)):
            raise ValueError(
                f"quality wants finite figures over one prediction or more, got "
                f"{self.predictions} predictions with {numbers}; measure it on a text"
            )


@dataclass(frozen=True)
class Work:
    """What it took.

    Attributes:
        windows: that were run.
        experts_read: distinct experts of each layer and window, added up.
        ms: time of the windows, ms; it differs from run to run and is not compared.
        misses: of the experts read, those that were in no slot and came from disk; 0
            where all are in memory.
        bytes_read: for them.
    """

    windows: int = 0
    experts_read: int = 0
    ms: float = field(default=0.0, compare=False)
    misses: int = 0
    bytes_read: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.windows + other.windows,
            self.experts_read + other.experts_read,
            self.ms + other.ms,
            self.misses + other.misses,
            self.bytes_read + other.bytes_read,
        )


@dataclass(frozen=True)
class Comparison:
    """A policy and the exact model over the same texts from the same start.

    Attributes:
        policy: its name; that of an approximate one carries the word.
        lossless: what the policy claims.
        setting: what both share.
        quality: by text; there is no comparison without it.
        exact_work: of the exact model.
        work: under the policy.

    Raises:
        ValueError: there is no quality for one of the texts, or for any: speed alone
            says nothing; or an approximate policy does not call itself so.
    """

    policy: str
    lossless: bool
    setting: Setting
    quality: Mapping[str, Quality]
    exact_work: Work
    work: Work

    def __post_init__(self) -> None:
        wanted = [name for name, _ in self.setting.texts]
        if not self.quality or sorted(self.quality) != sorted(wanted):
            raise ValueError(
                f"a comparison wants quality of {', '.join(wanted) or 'some text'}, "
                f"got {', '.join(self.quality) or 'none'}: never speed alone; measure "
                "it on the same texts"
            )
        if not self.lossless and APPROXIMATE not in self.policy:
            raise ValueError(
                f"`policy` is {self.policy!r} and not lossless, wanted the word "
                f"{APPROXIMATE!r} in its name; say it there"
            )

    @property
    def same(self) -> bool:
        """Whether no probability differs."""
        return all(
            q.kl == 0 and q.agreement == 1 and q.nats == q.exact_nats
            for q in self.quality.values()
        )

    def rows(self) -> Iterator[dict[str, object]]:
        """One a text, for a table; all that they hold repeats from run to run."""
        for name, quality in self.quality.items():
            yield {
                "policy": self.policy,
                "lossless": self.lossless,
                "text": name,
                "predictions": quality.predictions,
                "exact nats": quality.exact_nats,
                "nats": quality.nats,
                "agreement": quality.agreement,
                "KL": quality.kl,
                "alike": quality.alike,
                "decoded": quality.decoded,
            }

    def __str__(self) -> str:
        """Quality by text, then work; times are left out, since they do not repeat."""
        head = f"{self.policy}, {'claimed lossless' if self.lossless else 'not exact'}"
        lines = [head, "text     tokens  exact nats    nats  agreement      KL  alike"]
        for name, q in self.quality.items():
            lines.append(
                f"{name:<8} {q.predictions:>6} {q.exact_nats:>11.4f} {q.nats:>7.4f} "
                f"{q.agreement:>10.4f} {q.kl:>7.4f} {q.alike:>3}/{q.decoded}"
            )
        lines.append(
            f"work: {self.work.windows} windows against {self.exact_work.windows}, "
            f"{self.work.experts_read} experts read against "
            f"{self.exact_work.experts_read}"
        )
        return "\n".join(lines)
