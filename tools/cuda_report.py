"""Run every kernel on this machine's GPU: against its reference, and against the clock.

    PYTHONPATH=.:kernels python -m tools.cuda_report --out reports

It wants numpy, MLX built with CUDA (or Metal) and this repository. A kernel that fails
stops none of the others; the exit status is 1 if any did. `--target host --small` tries
the script itself where there is no GPU.

A time is that of one call in a chain of calls, each of which waits for the one before,
as layers of a model do; made and evaluated together, so that one wait for the GPU is
shared by all of them. Medians.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels._prelude.kernel import Target
from tools.kernel_cases import RELEASED, SMALL, Arrays, Case, cases

ENOUGH = 1.3
"""A kernel is kept if it is so many times as fast as plain MLX."""
CHAIN, REPEATS = 32, 9
_TF32 = "MLX_ENABLE_TF32"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write the report; 1 if a kernel failed."""
    args = _parser().parse_args(arguments)
    # As the engine has it: single-precision products are not rounded to fewer bits.
    os.environ.setdefault(_TF32, "0")
    target: Target = args.target or ("metal" if mx.metal.is_available() else "cuda")
    available = {"metal": mx.metal.is_available(), "cuda": mx.cuda.is_available()}
    if not available.get(target, True):
        say(f"MLX {_version('mlx')} has no {target} here; wanted a build that has")
        return 2
    sizes, rows = (SMALL, (1, 3)) if args.small else (RELEASED, (1, 2, 4, 8))
    chain, repeats = (2, 2) if target == "host" else (CHAIN, REPEATS)
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"kernels-{target}"
    found: list[dict[str, Any]] = []
    report = {
        "machine": machine(target),
        "sizes": sizes._asdict(),
        "chain": chain,
        "repeats": repeats,
        "cases": found,
    }
    for make in cases(sizes, rows=rows):
        found.append(look_at(make, target, chain=chain, repeats=repeats))
        say(_line(found[-1]))
        # After each one: a run that is stopped leaves what it knew.
        text = json.dumps(report, indent=1) + "\n"
        stem.with_suffix(".json").write_text(text, encoding="utf-8")
        stem.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    failed = [c["name"] for c in found if not c["well"]]
    say(f"{len(found) - len(failed)} of {len(found)} well; wrote {stem}.json and .md")
    return 1 if failed else 0


def say(words: str) -> None:
    """A line, at once: a run that is stopped has told what it knew."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("reports"))
    parser.add_argument("--target", choices=("cuda", "metal", "host"))
    parser.add_argument("--small", action="store_true", help="sizes of the tests")
    return parser


def look_at(
    make: Callable[[], Case], target: Target, *, chain: int, repeats: int
) -> dict[str, Any]:
    """Everything about one case; what fails is said and stops no other part."""
    found: dict[str, Any] = {"name": "a case", "well": False, "errors": []}
    try:
        case = make()
    except Exception:
        return found | {"errors": [_last_lines()]}
    found["name"] = case.name
    parts: dict[str, Callable[[], Any]] = {
        "equal": lambda: compared(case, target),
        "bits": lambda: same_bits(case, target),
        "microseconds": lambda: timed(case, target, chain=chain, repeats=repeats),
    }
    for name, part in parts.items():
        try:
            found[name] = part()
        except Exception:
            found["errors"].append(f"{name}: {_last_lines()}")
    told = [*found.get("equal", []), *found.get("bits", [])]
    found["well"] = not found["errors"] and all(t["well"] for t in told)
    times = found.get("microseconds", {})
    if "reference" in times and times.get("kernel"):
        found["ratio"] = times["reference"] / times["kernel"]
    return found


def compared(case: Case, target: Target) -> list[dict[str, Any]]:
    """Each output against what is wanted."""
    got, want = case.kernel(case.start, target), case.wanted(case.start)
    return [
        _off(f"output {i}", one, other, rel=0.0 if i in case.exact else case.rel)
        for i, (one, other) in enumerate(zip(got, want, strict=True))
    ]


def same_bits(case: Case, target: Target) -> list[dict[str, Any]]:
    """Each pair that must be equal to the bit."""
    found = []
    for name, pair in case.bits.items():
        one, other = pair(target)
        offs = [_off(name, a, b, rel=0.0) for a, b in zip(one, other, strict=True)]
        found.append(max(offs, key=lambda o: (not o["well"], o["error"])))
    return found


def _off(name: str, got: mx.array, want: mx.array, *, rel: float) -> dict[str, Any]:
    one, other = np.array(got).astype(np.float64), np.array(want).astype(np.float64)
    if one.shape != other.shape:
        return {"what": name, "error": float("inf"), "well": False}
    scale = float(np.sqrt(np.mean(other**2))) if other.size else 1.0
    # A number that is none is far from every number.
    far = np.nan_to_num(np.abs(one - other), nan=np.inf)
    error = float(far.max()) / max(scale, 1e-12) if far.size else 0.0
    return {"what": name, "error": error, "allowed": rel, "well": error <= rel}


def timed(case: Case, target: Target, *, chain: int, repeats: int) -> dict[str, float]:
    """Microseconds a call, of the kernel and of what it replaces."""
    calls = {"kernel": lambda start: case.kernel(start, target), **case.plain}
    return {
        name: _time(call, case.start, chain=chain, repeats=repeats)
        for name, call in calls.items()
    }


def _time(
    call: Callable[[mx.array], Arrays], start: mx.array, *, chain: int, repeats: int
) -> float:
    def once() -> float:
        begun = time.perf_counter()
        kept: list[mx.array] = []
        here = start
        for _ in range(chain):
            outputs = call(here)
            kept += outputs
            # The next call reads the same numbers, once this one is done.
            (here,) = mx.depends([start], [outputs[0]])
        mx.eval(kept)
        return (time.perf_counter() - begun) / chain * 1e6

    for _ in range(2):
        once()
    return statistics.median(once() for _ in range(repeats))


def machine(target: Target) -> dict[str, str]:
    """What ran, where and when."""
    told = {
        "target": target,
        "device": platform.machine(),
        "mlx": _version("mlx"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        _TF32: os.environ.get(_TF32, "unset"),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    if target == "host":
        return told
    with contextlib.suppress(Exception):
        told["device"] = str(mx.device_info().get("device_name", "unknown"))
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20)
        told["driver"] = said.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        told["driver"] = "unknown"
    return told


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def markdown(report: dict[str, Any]) -> str:
    """The report as a page."""
    told = "; ".join(f"{k} {v}" for k, v in report["machine"].items())
    lines = [
        "# Kernels against their references",
        "",
        f"{told}.",
        f"Sizes: {report['sizes']}. Microseconds a call, medians of "
        f"{report['repeats']} chains of {report['chain']} calls. Plain is plain MLX, "
        "of the router the choice and weights alone: it has no union and no plan. A "
        f"kernel that is not {ENOUGH} times as fast is not kept.",
        "",
        "| case | well | largest error | kernel | plain | mx.fast | plain / kernel |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(case) for case in report["cases"]]
    wrong = [f"- {c['name']}: {e}" for c in report["cases"] for e in c["errors"]]
    if wrong:
        lines += ["", "## What failed", "", *wrong]
    return "\n".join(lines) + "\n"


def _row(case: dict[str, Any]) -> str:
    times = case.get("microseconds", {})
    cells = [
        case["name"],
        "yes" if case["well"] else "NO",
        f"{_largest(case):.1e}",
        *(
            f"{times[n]:.1f}" if n in times else ""
            for n in ("kernel", "reference", "mx.fast")
        ),
        f"{case['ratio']:.2f}" if "ratio" in case else "",
    ]
    return f"| {' | '.join(cells)} |"


def _largest(case: dict[str, Any]) -> float:
    told = [*case.get("equal", []), *case.get("bits", [])]
    return max((t["error"] for t in told), default=float("nan"))


def _line(case: dict[str, Any]) -> str:
    wrong = [
        f"{t['what']} off by {t['error']:.1e}"
        for t in [*case.get("equal", []), *case.get("bits", [])]
        if not t["well"]
    ]
    return "\n   ".join([_row(case), *wrong, *case["errors"]])


def _last_lines() -> str:
    return " / ".join(traceback.format_exc().strip().splitlines()[-6:])


if __name__ == "__main__":
    sys.exit(main())
