"""`strata-nb bench policies`: every policy on the same prompts, seeds and empty slots.

Two tables that are never one: lossless policies, which differ in speed alone, and
approximate ones, which say first what they cost in quality.
"""

import argparse
import io
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from strata_nb.bench import policy_cases
from strata_nb.bench.memory import LOADS
from strata_nb.bench.options import whole
from strata_nb.bench.policy_arms import SAMPLINGS
from strata_nb.bench.policy_cases import Measured
from strata_nb.errors import StrataError
from strata_nb.files import refuse_name, write_bytes
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.report.provenance import versions
from strata_nb.gates.spread import sweep, workers
from strata_nb.gates.spread.tasks import plan
from strata_nb.model import Model, load

ABOUT_KEY = "strata_nb.policies.about"
TABLES = ("lossless", "approximate")

Say = Callable[[str], object]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--model", default="strata-tiny", metavar="PATH")
    parser.add_argument(
        "--prompts", type=whole(1, 9), default=4, metavar="N", help="of each kind"
    )
    parser.add_argument("--max-new", type=whole(1, 4096), default=96, metavar="N")
    parser.add_argument("--rounds", type=whole(1, 20), default=1, metavar="N")
    parser.add_argument(
        "--quick", action="store_true", help="a few arms, one kind, greedy"
    )
    parser.add_argument(
        "--only", choices=TABLES, help="one of the two tables, not both"
    )
    parser.add_argument(
        "--sampling", choices=SAMPLINGS, action="append", help="all where none is given"
    )
    parser.add_argument(
        "--load",
        type=float,
        choices=(0.0, *LOADS),
        action="append",
        help="of one expert, in times of a layer; 0: all are in memory; all where none "
        "is given",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the lossless table to FILE, a Parquet file, and the approximate "
        "one beside it",
    )
    parser.add_argument(
        "--workers",
        type=whole(1, 64),
        default=1,
        metavar="N",
        help="processes that share the cases; times are best with one",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of dask, to share the cases with"
    )


def main(args: argparse.Namespace) -> int:
    """Measure, print both tables, write them, return 0."""
    files = {} if args.out is None else paths(args.out)
    for file in files.values():
        refuse_name(file)
    model = load(args.model, dtype="float32")
    wanted = policy_cases.cases(
        quick=args.quick,
        count=args.prompts,
        max_new=args.max_new,
        experts=model.config.num_experts,
        rounds=args.rounds,
    )
    chosen = [case for case in wanted if _asked(case, args)]
    err = sys.stderr
    found = measured(
        model,
        chosen,
        processes=args.workers,
        scheduler=args.scheduler,
        say=err.write if err.isatty() else None,
    )
    about = {
        "command": _command(args),
        "model": model.name,
        "digest": model.digest,
        "machine": f"{platform.system()} {platform.machine()}",
        "workers": args.workers,
        **versions(),
    }
    for table in TABLES:
        if table in found:
            sys.stdout.writelines(f"{line}\n" for line in lines(table, found[table]))
            if files:
                save(files[table], found[table], about)
    return 0


def _asked(case: Case, args: argparse.Namespace) -> bool:
    params = dict(case.params)
    sampling = params.get("sampling")
    return (
        args.only in (None, case.family)
        and (not args.sampling or sampling is None or sampling in args.sampling)
        and (not args.load or params["load"] in args.load)
    )


def paths(out: Path) -> dict[str, Path]:
    """The files of the two tables, when the first is `out`."""
    return {
        "lossless": out,
        "approximate": out.with_name(f"{out.stem}.approximate{out.suffix}"),
    }


def measured(
    model: Model,
    cases: Sequence[Case],
    *,
    processes: int = 1,
    scheduler: str | None = None,
    say: Say | None = None,
    cancel: Callable[[], bool] | None = None,
) -> dict[str, pl.DataFrame]:
    """Run cases here, in other processes or by a scheduler; a table of each family.

    Args:
        model: with all experts in memory.
        cases: of `policy_cases`.
        processes: of this machine that share the cases.
        scheduler: address of a dask scheduler to share them with instead.
        say: is given the line that counts cases.
        cancel: asked now and then; True ends the run.

    Raises:
        GateError: a case broke, or the run was cancelled.
        StrataError: the model has its experts in slots.
    """
    if model.pool is not None:
        raise StrataError(
            "the cases put the experts in slots themselves, and this model has them "
            "there already; load it without `experts`"
        )

    def progress(done: int, total: int) -> None:
        if say is not None:
            say(f"\r{done} of {total} cases\033[K" if done < total else "\r\033[K")

    path = str(model.checkpoint.path.resolve())
    tasks = plan(policy_cases.__name__, cases, path=path)
    how: dict[str, Any] = {
        "model": model,
        "floor": None,
        "progress": progress,
        "cancel": cancel,
    }
    if scheduler:
        answers = sweep.run_tasks(tasks, address=scheduler, **how)
    else:
        answers = workers.run_tasks(tasks, workers=processes, **how)
    return _tables([result for some in answers for result in some])


def _tables(results: Sequence[CaseResult]) -> dict[str, pl.DataFrame]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        assert isinstance(result, Measured)
        found.setdefault(result.case.family, []).extend(result.rows)
    return {
        family: pl.DataFrame(rows, infer_schema_length=None)
        for family, rows in found.items()
    }


def save(path: Path, table: pl.DataFrame, about: Mapping[str, Any]) -> None:
    """Write a table as one Parquet file, with where it comes from in its metadata.

    Raises:
        OSError: the folder or disk does not take it.
    """
    buffer = io.BytesIO()
    metadata = {ABOUT_KEY: json.dumps(dict(about), sort_keys=True)}
    table.write_parquet(buffer, metadata=metadata, compression_level=19)
    write_bytes(path, buffer.getvalue())


_SHOWN: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "lossless": (
        ("arm", "arm", "<26"),
        ("speed", "speed", ">8.2f"),
        ("tokens_per_s", "tok/s", ">9.1f"),
        ("coverage", "covered", ">9.0%"),
        ("acceptance", "accepted", ">9.0%"),
        ("mean_ms", "mean ms", ">9.2f"),
        ("p95_ms", "95% ms", ">9.2f"),
        ("union", "union", ">7.1f"),
        ("cold_beyond_root", "beyond", ">8"),
        ("miss", "misses", ">8"),
        ("late", "late", ">7"),
    ),
    "approximate": (
        ("policy", "policy", "<42.41"),
        ("kl", "KL", ">9.4f"),
        ("agreement", "agree", ">8.0%"),
        ("nats", "nats", ">8.3f"),
        ("exact_nats", "exact", ">8.3f"),
        ("experts", "experts", ">9"),
        ("exact_experts", "exact", ">8"),
        ("misses", "misses", ">8"),
        ("exact_misses", "exact", ">8"),
    ),
}


def lines(table: str, rows: pl.DataFrame) -> list[str]:
    """A table as text, a block for each case.

    Args:
        table: "lossless" or "approximate".
        rows: its rows.
    """
    shown = _SHOWN[table]
    keys = [name for name in ("kind", "sampling", "memory") if name in rows.columns]
    found = [f"{table} policies"]
    for key, part in rows.group_by(keys, maintain_order=True):
        found.append("")
        head = "".join(f"{head:{form[0]}{_width(form)}}" for _, head, form in shown)
        found.append(f"{', '.join(map(str, key))}\n{head}")
        for row in part.iter_rows(named=True):
            cells = (
                f"{'':{_width(form)}}" if row[name] is None else f"{row[name]:{form}}"
                for name, _, form in shown
            )
            found.append("".join(cells).rstrip())
    return [*found, ""]


def _width(form: str) -> str:
    return form[1:].split(".")[0]


def _command(args: argparse.Namespace) -> str:
    options = "".join(
        f" --{name.replace('_', '-')} {getattr(args, name)}"
        for name in ("prompts", "max_new", "rounds", "workers")
    )
    quick = " --quick" if args.quick else ""
    only = f" --only {args.only}" if args.only else ""
    some = "".join(
        f" --{name} {value}"
        for name in ("sampling", "load")
        for value in getattr(args, name) or ()
    )
    return f"strata-nb bench policies{options}{quick}{only}{some}"
