"""What was found: plain numbers, causes in order, and the same in words."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["faster", "even", "slower", "unknown"]


@dataclass(frozen=True)
class Number:
    """One number of the evidence.

    Attributes:
        name: in words.
        value: as measured.
        unit: "ms", "ms for 1,000 cells" or "%"; empty for what is counted.
    """

    name: str
    value: float
    unit: str

    def __str__(self) -> str:
        whole = self.value == round(self.value) or abs(self.value) >= 100
        value = f"{self.value:,.0f}" if whole else f"{self.value:.3g}"
        return f"{self.name} {value}{' ' if self.unit[:1].isalpha() else ''}{self.unit}"


@dataclass(frozen=True)
class Cause:
    """One reason, with what it costs.

    Attributes:
        name: one word or two, for programs: "rejected", "drafter" …
        share_ms: what an emitted token would take less without it, ms.
        numbers: what it rests on.
        what: one sentence that says what it is.
        advice: one sentence that says what to try.
    """

    name: str
    share_ms: float
    numbers: tuple[Number, ...]
    what: str
    advice: str


@dataclass(frozen=True)
class Share:
    """Where an emitted token's time goes.

    Attributes:
        name: "target" (run and finish without what follows), "waits" (for experts),
            "drafter", "commit" (with a lazy fold), "building" (what windows that were
            not warm took more than warm ones).
        now_ms: of a token with drafts, ms.
        plain_ms: of a token without, ms.
    """

    name: str
    now_ms: float
    plain_ms: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What drafts did to a text's speed; None is "not known", never zero.

    Windows of one row that are not warm count nowhere as plain decoding. What drafts
    cost is counted over all windows for which a drafter was asked, those included in
    which it found nothing.

    Attributes:
        verdict: "faster" or "slower" by 5 % at least, "even" between, or "unknown".
        speedup: times as fast as without drafts.
        windows: windows that a drafter was asked for, or that had drafts.
        drafted: of them, those with drafts.
        tokens: emitted by `windows`.
        serial_ms: of a token without drafts, ms.
        token_ms: of a token with drafts, ms.
        drafted_tokens_per_s: of windows with drafts alone.
        plain_tokens_per_s: without drafts.
        window_ms: of a window with drafts, ms, the drafter included.
        break_even_ms: what it may take to be as fast as without drafts, ms.
        row_ms: what a row of a draft adds to a window, ms.
        acceptance: of each draft position, if all before were accepted.
        expected_keep: rows that the formulas expect of `acceptance`, a window.
        observed_keep: tokens emitted, a window with drafts.
        shares: where the time of a token goes.
        causes: the largest first; empty where nothing is wrong or nothing is known. If
            drafts pay, what still costs most.
        missing: what the trace does not say, and what to do.
    """

    verdict: Verdict
    speedup: float | None = None
    windows: int = 0
    drafted: int = 0
    tokens: int = 0
    serial_ms: float | None = None
    token_ms: float | None = None
    drafted_tokens_per_s: float | None = None
    plain_tokens_per_s: float | None = None
    window_ms: float | None = None
    break_even_ms: float | None = None
    row_ms: float | None = None
    acceptance: tuple[float, ...] = ()
    expected_keep: float | None = None
    observed_keep: float | None = None
    shares: tuple[Share, ...] = ()
    causes: tuple[Cause, ...] = ()
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """All of it in words, the same for the same trace."""
        lines = [self._headline(), *self._numbers()]
        for place, cause in enumerate(self.causes, 1):
            lines += [
                f"{place}. {cause.name}: {cause.share_ms:.2f} ms of each token. "
                f"{cause.what}",
                f"   {'; '.join(map(str, cause.numbers))}",
                f"   {cause.advice}",
            ]
        if self.verdict == "slower" and not self.causes:
            lines.append("no cause is large enough to be named; the shares say more")
        return "\n".join([*lines, *(f"not known: {line}" for line in self.missing)])

    def _headline(self) -> str:
        if self.speedup is None:
            return "it cannot be said whether drafts make this slower"
        times = f"{self.speedup:.2f}x"
        return {
            "faster": f"you are not slower: {times}"
            + ("; what still costs most follows" if self.causes else ""),
            "even": f"drafts change nothing: {times}",
            "slower": f"you are slower with drafts: {times}",
        }[self.verdict]

    def _numbers(self) -> list[str]:
        lines = []
        if self.token_ms is not None and self.serial_ms is not None:
            lines.append(
                f"{self.token_ms:.2f} ms a token over {self.windows} windows, without "
                f"drafts {self.serial_ms:.2f}"
            )
        if self.window_ms is not None and self.break_even_ms is not None:
            lines.append(
                f"a window with drafts takes {self.window_ms:.2f} ms and may take "
                f"{self.break_even_ms:.2f}; it keeps {self.observed_keep:.2f} rows of "
                f"{self.expected_keep:.2f} expected"
            )
        return lines
