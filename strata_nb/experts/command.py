"""`strata-nb pack`: the experts of a checkpoint into one file."""

import argparse
import sys
import time
from pathlib import Path

from strata_nb.errors import StrataError
from strata_nb.experts.pack import Packed, pack
from strata_nb.experts.record import KINDS
from strata_nb.packs import open_checkpoint
from strata_nb.packs.bundled import checkpoint_folder
from strata_nb.trace.quoting import escaped

_BAR = 24
_REDRAW_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `strata-nb pack`."""
    parser.add_argument(
        "checkpoint", help="a folder in Hugging Face layout, or a bundled model"
    )
    parser.add_argument("file", type=Path, help="the file to make")
    parser.add_argument(
        "--experts",
        choices=KINDS,
        help="how to store them: as they are (unless told otherwise), affine with "
        "2 to 8 bits, or mxfp4",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def main(args: argparse.Namespace) -> int:
    """Pack as the command line says.

    Raises:
        StrataError: it could not be done; the message says why.
        OSError: the file cannot be written.
    """
    checkpoint = open_checkpoint(checkpoint_folder(args.checkpoint))
    bar = Bar(shown=sys.stderr.isatty() and not args.quiet)
    begun = time.perf_counter()
    try:
        done = pack(
            checkpoint, args.file, kind=args.experts, progress=bar.show, say=bar.say
        )
    except KeyboardInterrupt:
        bar.say("stopped; the same command goes on from here")
        raise
    except ValueError as error:
        raise StrataError(str(error)) from error
    finally:
        bar.clear()
    sys.stdout.write(summary(done, time.perf_counter() - begun) + "\n")
    return 0


def summary(done: Packed, seconds: float) -> str:
    """What was made, in one line."""
    header = done.header
    group = f" in groups of {header.layout.group}" if header.layout.group else ""
    what = (
        f"{header.records} experts ({header.layers} layers x {header.experts}) as "
        f"{header.kind}{group}, {size(header.file_bytes)}"
    )
    if not done.written:
        return f"{done.path} is whole already: {what}, every digest checked"
    kept = f", {done.kept} of them from before" if done.kept else ""
    return f"wrote {done.path}: {what}{kept}, in {seconds:.1f} s"


def size(count: int) -> str:
    """Bytes for people."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


class Bar:
    """A line on a terminal that fills up, and is gone afterwards.

    Args:
        shown: whether to draw at all; words are said either way.
    """

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        self._begun = self._drawn = time.perf_counter()

    def show(self, done: int, total: int) -> None:
        """Draw, not more often than an eye sees."""
        now = time.perf_counter()
        if not self.shown or (now - self._drawn < _REDRAW_S and done < total):
            return
        self._drawn = now
        left = (now - self._begun) / done * (total - done)
        filled = _BAR * done // total
        sys.stderr.write(
            f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {total} experts, "
            f"{left:.0f} s left\033[K"
        )
        sys.stderr.flush()

    def say(self, words: str) -> None:
        """A line of its own."""
        self.clear()
        sys.stderr.write(escaped(words) + "\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Wipe the line."""
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
