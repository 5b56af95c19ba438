"""The command `strata-nb`: it reads the command line, the work is done elsewhere."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

from strata_nb.errors import StrataError

# Nothing heavier is imported up here: `--help` is there at once, and `doctor` must run
# where MLX does not.

MISTAKE = 2
DIFFERENT = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; None: those of the process.

    Returns:
        The exit code: 0 done, 1 the answer is no (a difference, something missing), 2
        the command could not do what was asked; 130 and 141 as a shell reports Ctrl-C
        and a closed pipe.
    """
    _open_streams()
    try:
        args = _parse(sys.argv[1:] if argv is None else argv)
        code: int = args.run(args)
        # Here and not at exit, where a closed pipe would print a traceback.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. Later flushes must have somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (StrataError, OSError) as error:
        # A name from outside may hold what moves a cursor.
        words = (c if c.isprintable() else ascii(c)[1:-1] for c in str(error))
        print("strata-nb:", " ".join("".join(words).split()), file=sys.stderr)
        return MISTAKE
    return code


def _open_streams() -> None:
    """Put an empty file where a stream is closed; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Takes the lowest free number, so that no file of ours gets it.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="strata-nb",
        description="Take a mixture-of-experts inference engine apart.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_lab(commands.add_parser("lab", help="open the notebooks in JupyterLab"))
    _add_doctor(
        commands.add_parser("doctor", help="say what works here, what is missing")
    )
    _add_trace(commands.add_parser("trace", help="show, convert or compare traces"))
    _add_gate(commands.add_parser("gate", help="run the release gates"))
    generate = commands.add_parser(
        "generate", help="answer a prompt, with drafts if asked", add_help=False
    )
    generate.set_defaults(run=_generate, rest=[])
    pack = commands.add_parser(
        "pack", help="put a checkpoint's experts into one file", add_help=False
    )
    pack.set_defaults(run=_pack, rest=[])
    _add_bench(commands.add_parser("bench", help="measure"))
    _refuse_bare_trace(argv)
    args, rest = parser.parse_known_args(argv)
    # Some commands hand options on that they do not know.
    if rest and "rest" not in args:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    return args


class _Version(argparse.Action):
    """Look the version up when asked, not at every start."""

    def __call__(
        self, parser: argparse.ArgumentParser, *args: object, **more: object
    ) -> None:
        import strata_nb

        try:
            print("strata-nb", strata_nb.__version__)
        except PackageNotFoundError:
            print("strata-nb (a source tree, not installed)")
        parser.exit()


# ------------------------------------------------------------------ lab and doctor


def _add_lab(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Other options go to JupyterLab: --ip=0.0.0.0 in a container."
    parser.add_argument("--no-browser", action="store_true", help="print the address")
    parser.add_argument("--port", type=_port, help="the next free one if it is taken")
    parser.add_argument("--dir", type=Path, help="folder with the notebooks")
    parser.set_defaults(run=_lab, rest=[])


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() else 0
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port is 1 to 65535, got {text}")
    return port


def _lab(args: argparse.Namespace) -> int:
    from strata_nb import lab

    # Becomes JupyterLab and so returns nothing.
    lab.start(
        folder=args.dir, port=args.port, browser=not args.no_browser, more=args.rest
    )


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what was found to one file (.json, or plain text)",
    )
    parser.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    from strata_nb import doctor

    report = doctor.examine()
    print(doctor.text(report))
    if args.report is not None:
        doctor.save(report, args.report)
        print("wrote", args.report)
    return DIFFERENT if doctor.needed(report) else 0


# ------------------------------------------------------------------ trace


def _add_trace(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="print a trace as a table")
    show.add_argument("file", type=Path)
    show.add_argument("--rows", type=_rows, default=40, help="windows to list (40)")
    show.set_defaults(run=_show)
    convert = commands.add_parser("convert", help="write it as .parquet, .json or .csv")
    convert.add_argument("file", type=Path)
    convert.add_argument("out", type=Path)
    convert.add_argument(
        "--layers", action="store_true", help="a .csv with one row a window and layer"
    )
    convert.set_defaults(run=_convert)
    compare = commands.add_parser(
        "compare", help="do two traces say the same, times aside? 1 if not"
    )
    compare.add_argument("a", type=Path)
    compare.add_argument("b", type=Path)
    compare.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column to leave aside, such as fold; may be repeated",
    )
    compare.set_defaults(run=_compare)


def _refuse_bare_trace(argv: Sequence[str]) -> None:
    """Say what shows a file; argparse would only say that it is no command."""
    # None of the commands has a dot in its name.
    match list(argv):
        case ["trace", file, *_] if Path(file).suffix and not file.startswith("-"):
            words = f"strata-nb trace show {shlex.quote(file)}"
            raise StrataError(f"`trace` takes a command before a file: {words}")


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number of rows, 0 or more, got {text}")
    return int(text)


def _show(args: argparse.Namespace) -> int:
    from strata_nb.trace import Trace
    from strata_nb.trace.text import summary, table

    trace = Trace.load(args.file)
    for line in table(trace, rows=args.rows):
        print(line)
    print()
    for line in summary(trace):
        print(line)
    return 0


def _convert(args: argparse.Namespace) -> int:
    from strata_nb.trace import Trace
    from strata_nb.trace.export import export
    from strata_nb.trace.text import counted

    trace = Trace.load(args.file)
    try:
        export(trace, args.out, layers=args.layers)
    except ValueError as error:
        raise StrataError(str(error)) from error
    print(f"wrote {args.out}: {counted(len(trace), 'window')}")
    return 0


def _compare(args: argparse.Namespace) -> int:
    from strata_nb.trace import Trace, compare
    from strata_nb.trace.text import counted

    a, b = Trace.load(args.a), Trace.load(args.b)
    try:
        found = compare(a, b, ignore=args.ignore)
    except ValueError as error:
        raise StrataError(str(error)) from error
    if a.provenance != b.provenance:
        print("their provenance differs")
    if not found:
        print(f"equal: {counted(len(a), 'window')}")
        return 0
    print(f"{counted(len(found), 'difference')}; the first: {found[0]}")
    return DIFFERENT


# ------------------------------------------------------------------ gate


def _add_gate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the release gates and print the verdict. Exit code 0: all the same, 1: a "
        "fault was found, or a gate proved nothing, 2: it could not run."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="gate_1 to gate_5, known, tail, faults; none: all but the last two, which "
        "test the gates themselves and join in the larger profiles",
    )
    parser.add_argument(
        "--profile", default="quick", choices=("quick", "full", "exhaustive")
    )
    parser.add_argument(
        "--fault", metavar="NAME", help="plant this fault; see --faults"
    )
    parser.add_argument("--faults", action="store_true", help="list faults and exit")
    parser.add_argument("--model", default="strata-tiny", metavar="PATH")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of case ids")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument(
        "--slots",
        type=_rows,
        metavar="N",
        help="run with so many experts of a layer in memory, in this process",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=_rows, metavar="N", help="processes here (one a core)"
    )
    where.add_argument("--scheduler", metavar="ADDRESS", help="of dask.distributed")
    parser.set_defaults(run=_gate)


def _gate(args: argparse.Namespace) -> int:
    # Imports MLX, so it is read only here.
    from strata_nb.gates import command

    return command.main(args)


# ------------------------------------------------------------------ generate


def _generate(args: argparse.Namespace) -> int:
    # Imports MLX; its options are read only here.
    from strata_nb.session import command

    return _handed_on(
        command,
        "generate",
        "Answer a prompt. The text goes to the output, progress and a summary to the "
        "error output.",
        args.rest,
    )


# ------------------------------------------------------------------ pack


def _pack(args: argparse.Namespace) -> int:
    # Imports MLX; its options are read only here.
    from strata_nb.experts import command

    return _handed_on(
        command,
        "pack",
        "Put every expert of a checkpoint into one file, one record each. Stopped, it "
        "goes on when called again.",
        args.rest,
    )


def _handed_on(
    command: ModuleType, name: str, description: str, rest: list[str]
) -> int:
    """Let a room read its own options and run."""
    parser = argparse.ArgumentParser(prog=f"strata-nb {name}", description=description)
    command.add_arguments(parser)
    code: int = command.main(parser.parse_args(rest))
    return code


# ------------------------------------------------------------------ bench


_BENCHES = {
    "engine": "the engine beside other decoders",
    "drafters": "what a drafter takes for a token",
    "prompts": "what drafts are worth on the package's own prompts",
    "experts": "what it costs to keep few experts in memory",
    "real-size": "windows at the released sizes, with random weights",
    "policies": "every policy side by side, lossless and approximate apart",
    "record": "record what length policies would meet, for replays",
}


def _add_bench(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, what in _BENCHES.items():
        # Without help of its own, so that `--help` reaches the benchmark.
        bench = commands.add_parser(name, help=what, add_help=False)
        bench.set_defaults(run=_bench, bench=name, rest=[])


def _bench(args: argparse.Namespace) -> int:
    from importlib import import_module

    # Its options are read here and not with all others, which would import it.
    module = import_module(f"strata_nb.bench.{args.bench.replace('-', '_')}")
    parser = argparse.ArgumentParser(prog=f"strata-nb bench {args.bench}")
    module.add_arguments(parser)
    code: int = module.main(parser.parse_args(args.rest))
    return code


if __name__ == "__main__":
    sys.exit(main())
