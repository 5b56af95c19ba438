"""A damaged trace is refused before the parser that would die of it sees it."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from strata_nb.errors import TraceError
from strata_nb.trace import Trace
from strata_nb.trace.columns import VERSION_KEY
from strata_nb.trace.quoting import escaped, shown
from strata_nb.trace.seal import SEAL_KEY, UNSEALED, sealed
from strata_nb.trace.tables import to_file_frame
from trace_samples import plain, window

# Without a sum of its own: as another program writes it.
FOREIGN = {VERSION_KEY: "1"}
LOAD = """
import sys
from strata_nb.errors import TraceError
from strata_nb.trace import Trace

try:
    Trace.load(sys.argv[1])
except TraceError as error:
    print(error)
    sys.exit(3)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.parquet"


def loaded_elsewhere(path: Path) -> tuple[int, str]:
    """The exit status of a process that loads `path`, and what it printed."""
    command = [sys.executable, "-c", LOAD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def one_wrong_byte(path: Path) -> None:
    """A page says that it holds -8 values: polars asks for 2**61 bytes and aborts.

    Rust aborts the process: no panic, nothing can be caught.
    """
    seven, minus_eight = b",\x15\x0e\x15", b",\x15\x0f\x15"
    assert seven in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(seven, minus_eight, 1))


def test_one_wrong_byte_does_not_end_the_process(path: Path) -> None:
    Trace([window()] * 7).save(path)
    one_wrong_byte(path)
    status, printed = loaded_elsewhere(path)
    assert status == 3
    assert "t.parquet must be as it was written, but its SHA-256 is another" in printed


def test_one_wrong_byte_of_another_program_does_neither(path: Path) -> None:
    to_file_frame([window()] * 7).write_parquet(path, metadata=FOREIGN)
    assert loaded_elsewhere(path) == (0, "")
    one_wrong_byte(path)
    status, printed = loaded_elsewhere(path)
    assert status == 3
    assert "bytes that end the process that parses them (status -" in printed


def test_every_wrong_byte_is_noticed(path: Path) -> None:
    Trace([window(), plain(1, 1)], provenance={"a": 1}).save(path)
    whole = path.read_bytes()
    # The key without which there is no sum is met by the trial: slow, so left out.
    key = whole.rindex(SEAL_KEY.encode())
    looked_at = [*range(0, key, 41), *range(key + len(SEAL_KEY) + 2, len(whole), 7)]
    for at in [*looked_at, len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(TraceError, match=r"t\.parquet must be"):
            Trace.load(path)
    path.write_bytes(whole)
    assert len(Trace.load(path)) == 2


def test_a_wrong_byte_in_the_key_leaves_a_file_like_others(path: Path) -> None:
    trace = Trace([window()])
    trace.save(path)
    path.write_bytes(
        path.read_bytes().replace(SEAL_KEY.encode(), SEAL_KEY[:-1].encode() + b"7")
    )
    assert Trace.load(path) == trace


def test_a_saved_trace_is_plain_parquet_with_its_sum(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace([window()] * 3)
    trace.save(path)
    assert pl.read_parquet(path).height == 3
    assert pl.read_parquet_metadata(path)[SEAL_KEY] != UNSEALED
    # No trial is needed: it would take the time of an import.
    monkeypatch.setattr(subprocess, "run", None)
    assert Trace.load(path) == trace


def test_what_has_no_place_for_a_sum_stays_as_it_is() -> None:
    assert sealed(b"PAR1 and so on") == b"PAR1 and so on"


def test_a_quotation_moves_no_cursor() -> None:
    assert escaped("Größe ✓ \x1b[2J\x9b\n\u202e") == r"Größe ✓ \x1b[2J\x9b\n\u202e"
    assert escaped("\ud800") == r"\ud800"
    assert shown(["\x1b"]) == r"['\x1b']"
    assert shown(10**5000) == "a int too large to show"
    assert len(shown("x" * 5000)) == 120
