"""A trace as lines of plain text: a table of its windows, and what they add up to."""

from collections.abc import Iterator, Sequence
from typing import Any

from .records import WindowRecord
from .store import Trace
from .summary import (
    Acceptance,
    acceptance,
    expert_totals,
    latency,
    mean_union,
    row_counts,
    tokens_per_s,
    tokens_per_window,
)

_HEAD = ("window", "cell", "T", "drafter", "match", "offered", "accepted", "keep")
_TAIL = ("emitted", "stop", "union", "ms")


def table(trace: Trace, *, rows: int) -> Iterator[str]:
    """One line a window, the first `rows` of them, and what a `*` among them says.

    `-` is "not measured", `*` behind keep is a forced keep, union a mean over layers.
    """
    lines: list[Sequence[str]] = [_HEAD + _TAIL]
    lines += [_cells(i, record) for i, record in enumerate(trace[:rows])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = (text.rjust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
    if len(trace) > rows:
        yield f"… {counted(len(trace) - rows, 'more window')}"
    if any(record.forced for record in trace[:rows]):
        yield "*  keep was forced: the caller's, and not what `finish` said"


def counted(number: int, thing: str) -> str:
    """`number` of `thing`, which ends in an s unless it is one."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def summary(trace: Trace) -> Iterator[str]:
    """What the whole trace adds up to, one thing a line."""
    found = acceptance(trace)
    prompts = len(trace) - found.windows
    yield f"windows             {found.windows}, and {prompts} of a prompt"
    yield f"rows T              {_counts(row_counts(trace))}"
    yield f"tokens per window   {_number(tokens_per_window(trace))}"
    yield f"tokens per second   {_number(tokens_per_s(trace))}"
    yield f"windows with drafts {_share(found.coverage)}"
    offered, accepted = found.total
    yield f"drafts accepted     {accepted} of {offered}, {_share(found.total.rate)}"
    yield from _by_position(found)
    drafters = sorted({record.drafter for record in trace if record.offered})
    if len(drafters) > 1:
        for name in drafters:
            own = acceptance(record for record in trace if record.drafter == name)
            yield _line(f"drafts of {name}")
            yield from _by_position(own)
    for name, warm in (("warm", True), ("not warm", False)):
        time = latency(trace, warm=warm)
        if time is not None:
            spread = f"mean {time.mean_ms:.1f}, median {time.median_ms:.1f}"
            text = f"{spread}, 95 % within {time.p95_ms:.1f}"
            yield f"ms, {name:<15} {text}; {counted(time.windows, 'window')}"
    yield f"union per layer     {_number(mean_union(trace))}"
    for name, total in expert_totals(trace).items():
        yield f"{name:<19} {total}"
    policies = sorted({name for record in trace for name in record.approximate})
    if policies:
        yield f"approximate         {_line(', '.join(policies))}"
    for key, value in trace.provenance.items():
        yield _line(f"{key}: {value}")


def _by_position(found: Acceptance) -> Iterator[str]:
    for position, rate in enumerate(found.positions, start=1):
        of = f"{rate.accepted} of {rate.offered}, {_share(rate.rate)}"
        yield f"  draft {position}           {of}"


def _cells(index: int, record: WindowRecord) -> tuple[str, ...]:
    return (
        str(index),
        str(record.position),
        str(record.T),
        "prompt" if record.headless else _line(record.drafter),
        _optional(record.match_length),
        str(record.offered),
        str(record.accepted),
        f"{record.keep}*" if record.forced else str(record.keep),
        str(len(record.emitted)),
        record.stop or "",
        _number(mean_union([record])),
        _number(record.total_ms),
    )


def _line(text: str) -> str:
    """`text` without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _counts(counts: dict[int, int]) -> str:
    return ", ".join(f"{rows}: {count}" for rows, count in counts.items()) or "-"


def _optional(value: Any) -> str:
    return "-" if value is None else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
