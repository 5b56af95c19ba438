"""The SHA-256 of a trace file, inside the file, and a parser that may be killed.

One wrong byte in a page makes polars ask for any amount of memory, and what is refused
there ends the process: nothing can be caught. So a file is looked at before polars is.
"""

import hashlib
import os
import subprocess
import sys

from strata_nb.errors import TraceError

SEAL_KEY = "strata_nb.trace.sha256"
# Zeros while it is counted, so that the file can hold the sum of itself.
UNSEALED = "0" * 64
# As Parquet's footer (Thrift's compact protocol) has a text of 64 bytes after its key.
_MARK = SEAL_KEY.encode() + b"\x18\x40"

_PARSE = """
import sys, polars
data = sys.stdin.buffer.read()
polars.read_parquet_metadata(data)
polars.read_parquet(data)
"""


def sealed(data: bytes) -> bytes:
    """A Parquet file that has `UNSEALED` in its metadata, its sum put there instead."""
    head, mark, tail = data.rpartition(_MARK)
    sum_ = hashlib.sha256(data).hexdigest().encode()
    return head + mark + sum_ + tail[len(sum_) :] if mark else data


def check(data: bytes, name: str) -> None:
    """Refuse a file that polars had better not see.

    With a sum in it the file must agree. Without one, a child process parses it first.

    Raises:
        TraceError: the sum is another one, or the child did not survive.
    """
    # Polars itself refuses what has no end, before it believes any number in it.
    if not data.endswith(b"PAR1"):
        return
    head, mark, tail = data.rpartition(_MARK)
    if not mark:
        _check_by_trial(data, name)
    elif sealed(b"".join((head, mark, UNSEALED.encode(), tail[64:]))) != data:
        raise TraceError(
            f"{name} must be as it was written, but its SHA-256 is another one: bytes "
            "were changed on the way; copy or record it again (a program that rewrites "
            f"a trace leaves out `{SEAL_KEY}`)"
        )


def _check_by_trial(data: bytes, name: str) -> None:
    child = subprocess.run(
        [sys.executable, "-P", "-c", _PARSE],
        input=data,
        capture_output=True,
        check=False,
        # The same polars, wherever this process has it from.
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    # 1 is an exception: it will be met again, and caught.
    if child.returncode not in (0, 1):
        raise TraceError(
            f"{name} must be a whole Parquet file, got {len(data)} bytes that end the "
            f"process that parses them (status {child.returncode}); copy or record it "
            "again"
        )
