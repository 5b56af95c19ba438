"""`strata-nb generate`: one answer on the terminal, and what it took."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from strata_nb.draft import Drafter, MtpDrafter, SuffixLookup, SuffixTrees
from strata_nb.errors import StrataError
from strata_nb.experts import Streaming
from strata_nb.files import refuse_name
from strata_nb.model import Model, load
from strata_nb.sampling import GREEDY, Adjustment, Penalties, Sampling
from strata_nb.session.presets import PRESETS
from strata_nb.session.reply import Reply
from strata_nb.session.session import Session
from strata_nb.trace.quoting import escaped

DRAFTERS: Mapping[str, Callable[[argparse.Namespace, Sampling], Drafter | None]] = {
    "none": lambda *_: None,
    "suffix_lookup": lambda *_: SuffixLookup(),
    "suffix_trees": lambda *_: SuffixTrees(),
    "mtp": lambda args, sampling: MtpDrafter(
        depth=args.draft_depth,
        stop_below=args.stop_below,
        cut=args.draft_vocabulary,
        # Where the model's own draw has to be the draft, its likeliest token is best.
        sampling=sampling if sampling.rule == "ratio" else GREEDY,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `strata-nb generate`."""
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("prompt", nargs="?", help="the text to go on from")
    text.add_argument("--file", type=Path, help="read it from a file; - is the input")
    parser.add_argument(
        "--chat", action="store_true", help="it is what a user says, not a text"
    )
    parser.add_argument("--model", default="strata-tiny", metavar="PATH")
    parser.add_argument(
        "--experts", type=Path, metavar="FILE", help="experts from a packed file"
    )
    parser.add_argument(
        "--slots", type=int, metavar="N", help="experts of a layer in memory at a time"
    )
    parser.add_argument("--max-new", type=int, default=128, metavar="N")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT")
    parser.add_argument("--preset", choices=tuple(PRESETS))
    parser.add_argument("--drafter", choices=tuple(DRAFTERS), default="none")
    parser.add_argument("--draft-depth", type=int, default=2, metavar="N")
    parser.add_argument("--stop-below", type=float, default=0.0, metavar="X")
    parser.add_argument(
        "--draft-vocabulary", type=Path, metavar="FILE", help="tokens to draft, by id"
    )
    parser.add_argument("--temperature", type=float, default=0.0, metavar="X")
    parser.add_argument("--top-k", type=int, default=0, metavar="N")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="X")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="X")
    parser.add_argument("--rule", choices=("equality", "ratio"), default="equality")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X")
    parser.add_argument("--presence-penalty", type=float, default=0.0, metavar="X")
    parser.add_argument("--frequency-penalty", type=float, default=0.0, metavar="X")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the record")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")


def main(args: argparse.Namespace) -> int:
    """Answer; the text goes to the output, all else to the error output.

    Raises:
        StrataError: a setting or the prompt is refused, the model cannot be read.
    """
    if args.trace is not None:
        # Now, and not after the answer.
        refuse_name(args.trace)
    try:
        session = _session(args)
        prompt = _prompt(args, session)
        reply = session.reply(
            prompt,
            max_new=args.max_new,
            stop=args.stop,
            show=_show,
            progress=None if args.quiet else _progress,
        )
    except ValueError as error:
        raise StrataError(str(error)) from error
    _show("\n")
    if args.trace is not None:
        session.trace.save(args.trace)
    if not args.quiet:
        sys.stderr.write(summary(reply) + "\n")
    return 0


def _session(args: argparse.Namespace) -> Session:
    penalties = {
        "repetition": args.repetition_penalty,
        "presence": args.presence_penalty,
        "frequency": args.frequency_penalty,
    }
    adjustments: list[Adjustment] = []
    if penalties != {"repetition": 1.0, "presence": 0.0, "frequency": 0.0}:
        adjustments.append(Penalties(**penalties))
    sampling = Sampling(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        seed=args.seed,
        rule=args.rule,
    )
    return Session(
        _model(args),
        preset=args.preset,
        drafter=DRAFTERS[args.drafter](args, sampling),
        sampling=sampling,
        adjustments=adjustments,
    )


def _model(args: argparse.Namespace) -> Model:
    if args.experts is None and args.slots is None:
        return load(args.model)
    return load(args.model, experts=Streaming(file=args.experts, slots=args.slots))


def _prompt(args: argparse.Namespace, session: Session) -> str:
    text: str = args.prompt
    if args.file is not None:
        try:
            read = sys.stdin.read() if str(args.file) == "-" else None
            text = args.file.read_text(encoding="utf-8") if read is None else read
        except UnicodeDecodeError as error:
            name = "the input" if str(args.file) == "-" else args.file
            raise StrataError(f"{name} is no text in UTF-8: {error}") from error
    if args.chat:
        return session.model.chat([{"role": "user", "content": text}])
    return text


def _show(piece: str) -> None:
    """Text as a terminal may have it: what moves a cursor is spelled out."""
    sys.stdout.write("".join(c if c in "\n\t" else escaped(c) for c in piece))
    sys.stdout.flush()


def _progress(done: int, rows: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == rows else ""
        sys.stderr.write(f"\rprompt: {done} of {rows} tokens{end}")


def summary(reply: Reply) -> str:
    """What the answer took, in two lines."""
    seconds = reply.decode_ms / 1e3
    speed = f", {len(reply.tokens) / seconds:.1f} a second" if seconds else ""
    lines = [
        f"prompt: {reply.prompt} tokens in {reply.prefill_ms / 1e3:.2f} s",
        f"answer: {len(reply.tokens)} tokens in {seconds:.2f} s{speed}; it ended by "
        f"{reply.stop}; {reply.windows} windows, "
        f"{reply.tokens_per_window:.2f} tokens a window",
    ]
    if reply.acceptance is not None:
        lines.append(
            f"drafts: {reply.offered} offered, {reply.accepted} accepted "
            f"({reply.acceptance:.0%})"
        )
    return "\n".join(lines)
