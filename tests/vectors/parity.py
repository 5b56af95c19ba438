"""Writes the golden vectors, or checks them, the engine and the oracle against them.

Run at the root of the repository, with PyTorch and transformers installed:
`PYTHONPATH=tests python -m vectors.parity --check` (or `--write`).
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import strata_nb
from vectors import reference
from vectors.answers import in_many_windows, in_one_window
from vectors.cases import ALL, Case
from vectors.golden import Answer, Comparison, compare

# What is compared with the reference as it answers now; `stored` are the vectors.
COLUMNS = ("stored", "engine", "windows", "oracle")


def write(case: Case, folder: Path) -> Iterator[str]:
    """Run the reference, store what it says, and tell how near a tie it came."""
    golden = reference.golden(
        reference.load(folder),
        case.prompt(),
        stride=case.stride,
        weights=case.fingerprint(),
    )
    golden.save(case.path)
    gaps = np.concatenate([golden.expert_gaps.ravel(), golden.block_gaps.ravel()])
    say(
        f"{case.name:18s} {len(golden.ids)} rows, "
        f"{case.path.stat().st_size / 1000:4.0f} kB, "
        f"logits to {np.abs(golden.logits).max():4.1f}, "
        f"smallest gap {gaps[gaps > 0].min():.1e}, {(gaps == 0).sum()} ties"
    )
    yield from ()


def check(case: Case, folder: Path) -> Iterator[str]:
    """Compare with the reference; yields what is wrong.

    The full logits are compared here, also where only some columns are stored.
    """
    stored = case.golden()
    if not np.array_equal(stored.ids, case.prompt()):
        yield "the stored prompt is not this one: write the vectors anew"
    if stored.weights != case.fingerprint():
        yield "the stored weights are not these: write the vectors anew"
    now = reference.golden(reference.load(folder), stored.ids, stride=1, weights="")
    engine = strata_nb.load(folder, dtype="float32")
    oracle = strata_nb.load(folder, backend="oracle")
    found = {
        "stored": compare(stored, Answer(now.logits, now.experts, now.blocks)),
        "engine": compare(now, in_one_window(engine, now)),
        "windows": compare(now, in_many_windows(engine, now)),
        "oracle": compare(now, in_one_window(oracle, now)),
    }
    say(table_row(case.name, found))
    for name, comparison in found.items():
        if fault := comparison.fault(case.bound):
            yield f"{name}: {fault}"


def table_row(name: str, found: dict[str, Comparison]) -> str:
    """Worst logit error of each, then the flips."""
    errors = "".join(f"{found[column].error:10.1e}" for column in COLUMNS)
    flips = [f"{column}: {c.flip}" for column, c in found.items() if c.flip]
    return f"{name:18s}{errors}  {'; '.join(flips) or 'no flip'}"


def say(line: str) -> None:
    """One line at once: a whole run takes a minute."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code 1 when anything is outside its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", dest="task", action="store_const", const=write)
    task.add_argument("--check", dest="task", action="store_const", const=check)
    chosen = parser.parse_args().task
    if chosen is check:
        say(f"{'case':18s}" + "".join(f"{column:>10s}" for column in COLUMNS))
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in ALL:
            folder = case.checkpoint(Path(scratch))
            faults += [f"{case.name}: {fault}" for fault in chosen(case, folder)]
    if chosen is check:
        say("\n".join(faults) or "everything within its bound")
    return bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
