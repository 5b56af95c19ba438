"""The command `strata-nb gate`: what it prints and writes."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from strata_nb.errors import StrataError
from strata_nb.experts import Streaming
from strata_nb.faults import DEFECTS
from strata_nb.gates.report import as_text, junit
from strata_nb.gates.runner import run
from strata_nb.gates.spread.tasks import Progress
from strata_nb.model import Model, load

MOST_WORKERS = 8


def main(args: argparse.Namespace) -> int:
    """Run as the command line says.

    Args:
        args: names, profile, fault, faults, model, only, json, junit, workers,
            scheduler.

    Returns:
        The exit code: 0 same or near-ties only, 1 a fault, or nothing proved.

    Raises:
        StrataError: it could not run; the message says why.
        OSError: a file cannot be written.
    """
    if args.faults:
        sys.stdout.writelines(f"{line}\n" for line in fault_lines())
        return 0
    _refuse_paths([path for path in (args.json, args.junit) if path is not None])
    own = 1 if args.slots else min(MOST_WORKERS, os.cpu_count() or 1)
    workers = args.workers or own
    with _progress_line() as progress:
        try:
            report = run(
                *args.names,
                model=_model(args),
                profile=args.profile,
                fault=args.fault,
                only=args.only,
                processes=workers,
                scheduler=args.scheduler,
                progress=progress,
            )
        except ValueError as error:
            raise StrataError(str(error)) from error
    sys.stdout.writelines(f"{line}\n" for line in as_text.lines(report))
    if args.json is not None:
        report.save(args.json)
    if args.junit is not None:
        junit.write(report, args.junit)
    return report.exit_code


def _model(args: argparse.Namespace) -> str | Model:
    """What the gates take: a name, which every worker loads, or a model with slots."""
    if args.slots is None:
        return str(args.model)
    return load(args.model, experts=Streaming(slots=args.slots))


def _refuse_paths(paths: Sequence[Path]) -> None:
    """Now, and not after half an hour."""
    for path in paths:
        if not path.absolute().parent.is_dir():
            raise StrataError(
                f"there is no folder {path.absolute().parent}; make it first"
            )
        if path.exists() and not path.is_file():
            raise StrataError(f"{path} is no file; name one to be written")
    if len({path.absolute() for path in paths}) < len(paths):
        raise StrataError(f"both reports would be written to {paths[0]}; name two")


def fault_lines() -> Iterator[str]:
    """All faults by name, with what each does and where it was reported."""
    for fault in DEFECTS.values():
        yield f"{fault.name}  ({fault.part})"
        yield f"    {fault.what}"
        yield f"    shows {fault.shows}"
        yield f"    {fault.report}"


@contextmanager
def _progress_line() -> Iterator[Progress | None]:
    """A line on a terminal that counts cases, and is gone afterwards."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} cases\033[K")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
