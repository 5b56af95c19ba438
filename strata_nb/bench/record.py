"""`strata-nb bench record`: record what length policies would meet, and what it costs.

For `strata_nb.bench.played`. Routes and texts repeat from run to run; times do not, so
record on a machine that does nothing else.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from strata_nb.bench import course_file
from strata_nb.bench.courses import Course, Prices, Recording, Spot, bundled
from strata_nb.bench.options import whole
from strata_nb.draft import Drafter, MtpDrafter, SuffixLookup, follow, head_for
from strata_nb.engine import Engine
from strata_nb.experts import CheckpointSource
from strata_nb.files import refuse_name
from strata_nb.gates.report.provenance import versions
from strata_nb.model import Model, load
from strata_nb.prompts import WRITTEN, Kind, prompts
from strata_nb.refusals import MAX_ROWS

DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "lookup": lambda: SuffixLookup(minimum=2, most=MAX_ROWS - 1),
    "head": lambda: MtpDrafter(depth=4),
}
"""By the name of the option: a lookup that always offers all it has, and the head."""

WARM_UP = 3
"""Windows of each length before the first that counts."""
_CONTEXT = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--model", default="strata-tiny", metavar="PATH")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--prompts", type=whole(1, 20), default=6, metavar="N")
    parser.add_argument("--max-new", type=whole(1, 4096), default=96, metavar="N")
    parser.add_argument("--drafter", choices=DRAFTERS, action="append")
    parser.add_argument(
        "--rounds", type=whole(1, 1000), default=60, help="windows of each length"
    )
    parser.add_argument(
        "--held-out", action="store_true", help="the prompts that judge what was tuned"
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="take the times from this recording and measure none; `bundled`: the "
        "package's",
    )


def main(args: argparse.Namespace) -> int:
    """Record, write the file, return 0."""
    refuse_name(args.out)
    # Floats of full width: every row's arithmetic is its own.
    model = load(args.model, dtype="float32")
    chosen = args.drafter or ["lookup"]
    made = recorded(
        model,
        drafters={name: DRAFTERS[name] for name in chosen},
        count=args.prompts,
        max_new=args.max_new,
        rounds=args.rounds,
        held_out=args.held_out,
        prices=_prices(args.prices),
        command=f"strata-nb bench record --model {Path(args.model).name} "
        f"--prompts {args.prompts} --max-new {args.max_new}"
        + (f" --prices {args.prices.name}" if args.prices else "")
        + ("" if args.prices else f" --rounds {args.rounds}")
        + (" --held-out" if args.held_out else "")
        + "".join(f" --drafter {name}" for name in chosen),
        say=sys.stderr.write if sys.stderr.isatty() else None,
    )
    course_file.save(made, args.out)
    spots = sum(len(course.spots) for course in made.courses)
    times = " ".join(f"{ms:.3f}" for ms in made.prices.window_ms)
    sys.stdout.write(
        f"{len(made.courses)} courses, {spots} places, windows of 1 to 8 rows take "
        f"{times} ms: {args.out}\n"
    )
    return 0


def _prices(file: Path | None) -> Prices | None:
    if file is None:
        return None
    found = bundled() if str(file) == "bundled" else course_file.load(file)
    return found.prices


def recorded(
    model: Model,
    *,
    drafters: dict[str, Callable[[], Drafter]],
    count: int,
    max_new: int,
    rounds: int,
    kinds: Sequence[Kind] = WRITTEN,
    held_out: bool = False,
    prices: Prices | None = None,
    command: str = "",
    say: Callable[[str], object] | None = None,
) -> Recording:
    """Record the first prompts of each kind with each drafter.

    Args:
        model: with all experts in memory.
        drafters: makes each drafter, by a name that is not used.
        count: prompts of each kind.
        max_new: tokens of each text at most.
        rounds: windows of each length that are timed.
        kinds: of prompts.
        held_out: those prompts that judge what was tuned on the others.
        prices: of the same model, from a quiet machine; None: they are measured.
        command: for the provenance.
        say: is given lines about what is done so far.

    Raises:
        ValueError: a drafter's shorter draft does not begin its longer one.
        CheckpointError: the model has no tokenizer or no chat template.
    """
    tell = say or (lambda _: None)
    # First, while the machine is still cool and quiet.
    window_ms = (
        time_windows(model, _text(model, rounds), rounds=rounds)
        if prices is None
        else prices.window_ms
    )
    tell(f"\rwindows: {' '.join(f'{ms:.2f}' for ms in window_ms)} ms\n")
    asked = partial(prompts, model, held_out=held_out)
    courses: list[Course] = []
    draft_ms: dict[str, list[float]] = {}
    for make in drafters.values():
        for kind in kinds:
            for number, ids in enumerate(asked(kind)[:count]):
                drafter = make()
                times = draft_ms.setdefault(drafter.name, [])
                spots = walk(model, ids, drafter, max_new=max_new, times=times)
                courses.append(Course(kind, number, drafter.name, max_new, spots))
                tell(f"\r{drafter.name} {kind} {number}\033[K")
    tell("\r\033[K")
    if prices is None:
        layout = CheckpointSource(model.checkpoint, kind="bfloat16").layout
        prices = Prices(
            window_ms=window_ms,
            layer_ms=window_ms[0] / model.config.num_hidden_layers,
            draft_ms={name: statistics.median(ms) for name, ms in draft_ms.items()},
            expert_bytes=layout.record_bytes,
        )
    about = {
        "command": command,
        "model": model.name,
        "digest": model.digest,
        "machine": f"{platform.system()} {platform.machine()}",
        **versions(),
    }
    return Recording(tuple(courses), prices, about)


def walk(
    model: Model,
    ids: Sequence[int],
    drafter: Drafter,
    *,
    max_new: int,
    times: list[float] | None = None,
) -> tuple[Spot, ...]:
    """Go through a prompt's greedy text, one cell a window of the whole draft.

    Args:
        model: with all experts in memory.
        ids: the prompt.
        drafter: proposes at each place; greedy drafts only.
        max_new: tokens of the text at most.
        times: gains what each draft took, ms.

    Raises:
        ValueError: as in `recorded`.
    """
    head = head_for(drafter)
    engine = model.engine() if head is None else model.engine(mtp=head)
    engine.prefill(ids[:-1])
    follow(drafter, engine)
    drafter.assign(ids)
    spots: list[Spot] = []
    root = ids[-1]
    for left in range(max_new, 0, -1):
        most = min(MAX_ROWS, left, engine.context - engine.position)
        if most < 1:
            break
        spot, ended = _spot(engine, root, drafter, most=most, left=left, times=times)
        spots.append(spot)
        if ended:
            break
        root = spot.emits
        drafter.append((root,))
    return tuple(spots)


def _spot(
    engine: Engine,
    root: int,
    drafter: Drafter,
    *,
    most: int,
    left: int,
    times: list[float] | None,
) -> tuple[Spot, bool]:
    """One place, and whether the text ends behind it."""
    position = engine.position
    began = time.perf_counter()
    draft = drafter.propose(most - 1)
    if times is not None and draft.tokens:
        times.append((time.perf_counter() - began) * 1e3)
    for shorter in range(1, len(draft.tokens)):
        if drafter.propose(shorter).tokens != draft.tokens[:shorter]:
            raise ValueError(
                f"a draft of {shorter} by {drafter.name!r} at cell {position} wants to "
                f"begin its draft of {len(draft.tokens)}, got another; only drafters "
                "whose drafts do so can be recorded once for all lengths"
            )
    window = engine.run((root, *draft.tokens))
    accepted = engine.finish(window, tokens_left=left).accepted
    record = engine.commit(window, keep=1).record
    spot = Spot(
        position=position,
        root=root,
        emits=record.emitted[0],
        draft=draft.tokens,
        accepted=accepted,
        routes=np.stack([one.expert_ids for one in record.layers], 1).astype(np.uint16),
        match_length=draft.match_length,
        chances=draft.chances,
    )
    return spot, spot.emits in engine.backend.config.stop_ids


def time_windows(
    model: Model, text: Sequence[int], *, rounds: int
) -> tuple[float, ...]:
    """What windows of 1 to 8 rows take, run, finish and commit: medians, ms.

    The lengths in turns, each on an engine of its own behind the same cells, so that
    whatever else the machine does slows all of them alike.

    Args:
        model: with all experts in memory.
        text: tokens of the context and of the windows.
        rounds: windows of each length that count.
    """
    start = model.engine()
    start.prefill(text[:_CONTEXT])
    engines = [start.fork() for _ in range(MAX_ROWS)]
    times: list[list[float]] = [[] for _ in engines]
    for number in range(WARM_UP + rounds):
        for drafts, engine in enumerate(engines):
            at = engine.position
            window = engine.run(text[at : at + drafts + 1])
            engine.finish(window, stop_ids=())
            engine.commit(window, keep=window.T, force=True)
            if number >= WARM_UP:
                times[drafts].append(engine.trace[-1].total_ms or 0.0)
    return tuple(statistics.median(one) for one in times)


def _text(model: Model, rounds: int) -> list[int]:
    """The package's own prompts, one after the other, as often as needed."""
    count = _CONTEXT + (WARM_UP + rounds) * MAX_ROWS
    told: list[int] = [
        i for kind in WRITTEN for ids in prompts(model, kind) for i in ids
    ]
    return (told * (count // len(told) + 1))[:count]
