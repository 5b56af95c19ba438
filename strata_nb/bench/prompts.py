"""What drafts are worth on the package's own prompts: acceptance, and time beside none.

Ratios of one process, the arms in turns on each prompt, so that a busy machine slows
all of them alike. A drafter pays where its windows emit more than the break-even says.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from strata_nb.bench.options import whole
from strata_nb.draft import (
    Drafter,
    Hybrid,
    MtpDrafter,
    SuffixLookup,
    SuffixTrees,
    Timed,
)
from strata_nb.model import Model, load
from strata_nb.prompts import KINDS, Kind, prompts
from strata_nb.sampling import GREEDY, RECOMMENDED, Sampling
from strata_nb.session import Reply, Session


@dataclass(frozen=True)
class Arm:
    """One way to decode.

    Attributes:
        name: in the table.
        sampling: how tokens are chosen.
        preset: of the session, or None.
        drafter: makes the drafter of a session, or None.
        fed: the draft head's pairs run in every window, whoever drafts.
    """

    name: str
    sampling: Sampling
    preset: str | None = None
    drafter: Callable[[], Drafter] | None = None
    fed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is one that others are compared with."""
        return self.preset is None and self.drafter is None

    @property
    def words(self) -> list[str]:
        """Of its name."""
        return self.name.replace(",", "").split()


_RATIO = replace(RECOMMENDED, rule="ratio")


def _head(sampling: Sampling = GREEDY) -> Drafter:
    return MtpDrafter(depth=2, sampling=sampling)


def _hybrid(sampling: Sampling = GREEDY) -> Drafter:
    return Hybrid(SuffixLookup(), _head(sampling))


def _timed() -> Drafter:
    return Hybrid(SuffixLookup(), _head(), prices=Timed())


ARMS = (
    Arm("greedy, no drafts", GREEDY),
    Arm("greedy, seed_stage1", GREEDY, preset="seed_stage1"),
    Arm("greedy, lookup", GREEDY, drafter=lambda: SuffixLookup()),
    Arm("greedy, lookup of 7", GREEDY, drafter=lambda: SuffixLookup(most=7)),
    Arm("greedy, suffix trees", GREEDY, drafter=lambda: SuffixTrees()),
    Arm("greedy, head", GREEDY, drafter=_head),
    Arm("greedy, hybrid", GREEDY, drafter=_hybrid),
    Arm("greedy, hybrid, timed", GREEDY, drafter=_timed),
    Arm("greedy, lookup, head fed", GREEDY, drafter=lambda: SuffixLookup(), fed=True),
    Arm("recommended, no drafts", RECOMMENDED),
    Arm("recommended, equality", RECOMMENDED, drafter=lambda: SuffixLookup()),
    Arm("recommended, ratio", _RATIO, drafter=lambda: SuffixLookup()),
    Arm("equality, head", RECOMMENDED, drafter=_head),
    Arm("equality, hybrid", RECOMMENDED, drafter=_hybrid),
    Arm("ratio, head", _RATIO, drafter=lambda: _head(_RATIO)),
    Arm("ratio, hybrid", _RATIO, drafter=lambda: _hybrid(_RATIO)),
)
"""The first arm of each sampling is what the others are compared with."""


@dataclass(frozen=True)
class Row:
    """One arm on one kind of prompts.

    Attributes:
        kind: of the prompts.
        arm: its name.
        tokens: emitted in all.
        tokens_per_window: mean over all windows.
        acceptance: of offered drafts; None without any.
        speed: decode time without drafts over decode time, the median over prompts of
            the ratio of the same prompt, per token, of the quickest of all rounds.
        draft_ms: what the drafter takes for a draft, ms, the median over windows that
            have one; None without any.
        even: tokens that a window must emit to cost no more than decoding without
            drafts: its time over that of a window without, as `speed`.
    """

    kind: Kind
    arm: str
    tokens: int
    tokens_per_window: float
    acceptance: float | None
    speed: float
    draft_ms: float | None
    even: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `strata-nb bench prompts`."""
    parser.add_argument("--model", default="strata-tiny", metavar="PATH")
    parser.add_argument("--max-new", type=whole(1, 4096), default=160, metavar="N")
    parser.add_argument(
        "--prompts", type=whole(1, 20), default=20, metavar="N", help="of each kind"
    )
    parser.add_argument(
        "--rounds", type=whole(1, 100), default=1, metavar="N", help="quickest of N"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD",
        help="arms of this word, such as greedy; and those without drafts",
    )


def main(args: argparse.Namespace) -> int:
    """Measure and print a table."""
    model = load(args.model)
    named = [arm for arm in ARMS if args.only in ("", *arm.words)]
    arms = [arm for arm in ARMS if arm.is_plain or arm in named]
    if not named:
        sys.stderr.write(
            f"--only is {args.only!r}, wanted a word of an arm's name, such as greedy\n"
        )
        return 2
    how = {"count": args.prompts, "max_new": args.max_new, "rounds": args.rounds}
    say = sys.stdout.write
    heads = ("tokens", "a window", "accepted", "speed", "draft ms", "even at")
    say(f"{'':8}{'arm':24}{''.join(f'{head:>10}' for head in heads)}\n")
    for kind in KINDS:
        for row in measure(model, kind, arms=arms, **how):
            accepted = "" if row.acceptance is None else f"{row.acceptance:.0%}"
            cost = "" if row.draft_ms is None else f"{row.draft_ms:.2f}"
            say(
                f"{row.kind:8}{row.arm:24}{row.tokens:10}{row.tokens_per_window:10.2f}"
                f"{accepted:>10}{row.speed:10.2f}{cost:>10}{row.even:10.2f}\n"
            )
    return 0


def measure(
    model: Model,
    kind: Kind,
    *,
    count: int,
    max_new: int,
    rounds: int = 1,
    arms: Sequence[Arm] = ARMS,
) -> Iterator[Row]:
    """Each arm on `count` prompts of a kind.

    Args:
        model: a loaded model.
        kind: of prompts.
        count: prompts.
        max_new: tokens of each answer at most.
        rounds: how often; of each prompt the quickest counts.
        arms: some of `ARMS`, in their order, one without drafts before others.

    Raises:
        CheckpointError: the model has no tokenizer or no chat template.
    """
    found: dict[str, list[Reply]] = {arm.name: [] for arm in arms}
    costs: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for ids in prompts(model, kind)[:count]:
        tried: dict[str, list[Reply]] = {arm.name: [] for arm in arms}
        for _ in range(rounds):
            for arm in arms:
                session = _session(model, arm)
                tried[arm.name].append(session.reply(ids, max_new=max_new))
                costs[arm.name] += [
                    record.draft_ms
                    for record in session.trace
                    if record.offered and record.draft_ms is not None
                ]
        for name, replies in tried.items():
            found[name].append(min(replies, key=lambda reply: reply.decode_ms))
    plain: list[Reply] = []
    for arm in arms:
        replies = found[arm.name]
        if arm.is_plain:
            plain = replies
        offered = sum(reply.offered for reply in replies)
        tokens = sum(len(reply.tokens) for reply in replies)
        yield Row(
            kind=kind,
            arm=arm.name,
            tokens=tokens,
            tokens_per_window=tokens / sum(reply.windows for reply in replies),
            acceptance=sum(r.accepted for r in replies) / offered if offered else None,
            speed=median(
                _per_token(base) / _per_token(reply)
                for base, reply in zip(plain, replies, strict=True)
            ),
            draft_ms=median(costs[arm.name]) if costs[arm.name] else None,
            even=median(
                _per_window(reply) / _per_window(base)
                for base, reply in zip(plain, replies, strict=True)
            ),
        )


def _session(model: Model, arm: Arm) -> Session:
    drafter = arm.drafter() if arm.drafter else None
    more: dict[str, Any] = {"mtp": True} if arm.fed else {}
    return Session(
        model, preset=arm.preset, drafter=drafter, sampling=arm.sampling, **more
    )


def _per_token(reply: Reply) -> float:
    return reply.decode_ms / len(reply.tokens)


def _per_window(reply: Reply) -> float:
    return reply.decode_ms / reply.windows
