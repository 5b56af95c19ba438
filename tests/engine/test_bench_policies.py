"""Every policy side by side: what the tables count, and who may do the counting."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from strata_nb import Model, load, prompts
from strata_nb.bench import policies, policy_cases
from strata_nb.bench.policy_arms import (
    ARMS,
    PLAIN,
    QUICK,
    ROUTINGS,
    SAMPLINGS,
    skip_tail,
)
from strata_nb.cli import main
from strata_nb.errors import GateError, StrataError
from strata_nb.experts import Streaming
from strata_nb.gates.records import Case
from strata_nb.prompts import WRITTEN, Kind

LOGGED = (
    *("coverage", "match_length", "offered", "accepted", "rows", "mean_ms", "p95_ms"),
    *("tokens_per_s", "union", "cold_beyond_root", "miss", "prefetched_bytes", "late"),
    *("bytes_read", "warm_up_ms"),
)
"""The seed's list for its second gate."""


def small(**how: int) -> list[Case]:
    size = {"count": 1, "max_new": 6, "experts": 128} | how
    return policy_cases.cases(quick=True, **size)


def of_prose(case: Case) -> Case:
    return replace(case, params=(*{**dict(case.params), "kind": "prose"}.items(),))


def test_other_processes_count_the_same(trained: Model) -> None:
    # Prompts of prose are the shortest, and another process reads them whole.
    cases = [of_prose(small(max_new=most)[0]) for most in (3, 2)]
    here, there = (
        policies.measured(trained, cases, processes=n)["lossless"] for n in (1, 2)
    )
    # What was tried to learn from times is another matter.
    same = pl.col("arm") != "lookup, best ratio"
    counted = ("arm", "tokens", "windows", "accepted", "rows", "union")
    assert here.filter(same).select(counted).equals(there.filter(same).select(counted))


@pytest.fixture(scope="module")
def short() -> Iterator[None]:
    """Reading prompts would take the most time: the ends of them are enough."""
    whole = prompts.prompts

    def ends(model: Model, kind: Kind) -> list[list[int]]:
        return [ids[-16:] for ids in whole(model, kind)[:2]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompts, "prompts", ends)
        # Nor is a slow disk waited for, whose reads take so much of this.
        patch.setattr(policy_cases, "_layer_ms", lambda _: 0.01)
        yield


@pytest.fixture(scope="module")
def tables(trained: Model, short: None) -> dict[str, pl.DataFrame]:
    return policies.measured(trained, small())


def test_the_lossless_table_has_what_is_to_be_logged(
    tables: dict[str, pl.DataFrame],
) -> None:
    table = tables["lossless"]
    assert set(LOGGED) <= set(table.columns)
    assert table.select("memory", "arm").rows() == [
        (memory, arm) for memory in ("resident", "load 1") for arm in QUICK
    ]
    for row in table.iter_rows(named=True):
        assert row["tokens"] == 6
        assert sum(row["rows"]) == row["windows"]
        assert row["accepted"] <= row["offered"]
        assert 0 <= row["coverage"] <= 1
        assert (row["miss"] is None) == (row["memory"] == "resident")
        assert (row["speed"] == 1.0) == (row["arm"] == PLAIN)
    plain = table.filter(pl.col("arm") == PLAIN)
    assert plain["windows"].to_list() == [6, 6]
    assert plain["offered"].to_list() == [0, 0]
    fixed = table.filter(pl.col("arm") == "lookup, T = 4")
    # The experts' place changes times alone.
    (a, b) = fixed.select("windows", "offered", "accepted", "rows", "union").rows()
    assert a == b
    assert fixed["bytes_read"][1] > 0


def test_the_approximate_table_is_another_and_says_quality(
    tables: dict[str, pl.DataFrame],
) -> None:
    table = tables["approximate"]
    assert not {"speed", "tokens_per_s"} & set(table.columns)
    assert {"kl", "agreement", "nats", "exact_nats"} <= set(table.columns)
    assert table["policy"].str.contains("approximate").all()
    assert len(table) == 4
    assert table["kl"].min() > 0  # type: ignore[operator]
    assert not set(table["policy"]) & set(tables["lossless"]["arm"])
    text = "\n".join(policies.lines("approximate", table))
    assert "KL" in text
    assert "tok/s" not in text
    assert "tok/s" in "\n".join(policies.lines("lossless", tables["lossless"]))


def test_it_can_be_cancelled_and_tells_how_far_it_is(
    trained: Model, short: None
) -> None:
    said: list[str] = []
    cases = [c for c in small() if c.family == "lossless"]

    def cancel() -> bool:
        return bool(said)

    with pytest.raises(GateError, match="cancelled after 1 of 2 cases"):
        policies.measured(trained, cases, say=said.append, cancel=cancel)
    assert said == ["\r1 of 2 cases\033[K"]


def test_a_model_in_slots_is_refused(tiny: Model) -> None:
    model = load(tiny.checkpoint.path, experts=Streaming(slots=4))
    with pytest.raises(StrataError, match="load it without `experts`"):
        policies.measured(model, [])


def test_the_command_writes_two_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tables: dict[str, pl.DataFrame],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Case] = []

    def measured(_: Model, cases: Sequence[Case], **how: object) -> object:
        asked.extend(cases)
        assert how["processes"] == 3
        return tables

    monkeypatch.setattr(policies, "measured", measured)
    out = tmp_path / "a.parquet"
    assert (
        main(["bench", "policies", "--quick", "--workers", "3", "--out", str(out)]) == 0
    )
    shown = capsys.readouterr().out
    assert shown.index("lossless policies") < shown.index("approximate policies")
    for name, table in (("a", "lossless"), ("a.approximate", "approximate")):
        file = tmp_path / f"{name}.parquet"
        assert pl.read_parquet(file).equals(tables[table])
        about = pl.read_parquet_metadata(file)[policies.ABOUT_KEY]
        assert "bench policies --prompts 4 --max-new 96 --rounds 1 --workers 3" in about
    assert {case.family for case in asked} == set(policies.TABLES)
    asked.clear()
    some = ("--sampling", "greedy", "--load", "0", "--load", "4", "--workers", "3")
    assert main(["bench", "policies", *some]) == 0
    of = {(case.family, case["load"]) for case in asked}
    assert of == {(table, load) for table in policies.TABLES for load in (0.0, 4.0)}
    assert len(asked) == 2 * 2 * len(WRITTEN)


def test_the_whole_run_has_every_policy_and_place() -> None:
    cases = policy_cases.cases(quick=False, count=4, max_new=96, experts=128)
    lossless = [c for c in cases if c.family == "lossless"]
    assert {(c["kind"], c["sampling"], c["load"]) for c in lossless} == {
        (kind, sampling, load)
        for kind in WRITTEN
        for sampling in SAMPLINGS
        for load in (0.0, 0.25, 1.0, 4.0)
    }
    assert len(cases) == len(lossless) + 4 * 4
    assert len({case.group for case in cases}) == len(cases)
    assert {case["slots"] for case in cases} == {32}
    assert not any(routing.lossless for routing in ROUTINGS)
    assert len({arm.name for arm in ARMS}) == len(ARMS)
    assert set(QUICK) < {arm.name for arm in ARMS}


def test_every_arm_answers(trained: Model, short: None) -> None:
    """Under each sampling; but for the ratio rule with the text without drafts."""
    chosen = [
        case
        for sampling, most in (("greedy", 8), ("equality", 4), ("ratio", 2))
        for case in policy_cases.cases(quick=False, count=1, max_new=most, experts=128)
        if case.group == f"lossless/code/{sampling}/0.0"
    ]
    table = policies.measured(trained, chosen)["lossless"]
    for sampling in SAMPLINGS:
        part = table.filter(pl.col("sampling") == sampling)
        arms = [a for a in ARMS if sampling == "greedy" or not a.greedy_only]
        assert part["arm"].to_list() == [arm.name for arm in arms]
        # What is the same under the rule "ratio" is the law.
        same = None if sampling == "ratio" else True
        assert part["same"].to_list() == [same] * len(arms)
    assert table["tokens"].max() == 8
    assert table["what"].str.contains("EcoSpec|SpecMoE|MoE-SpeQ").any()


def test_sparse_verification_has_the_models_own_thresholds(tiny: Model) -> None:
    top_k = tiny.config.num_experts_per_tok
    found = skip_tail(tiny, [*range(1, 40)])
    assert not found.lossless
    assert len(found.beta) == tiny.config.num_hidden_layers
    assert {len(layer) for layer in found.beta} == {min(3, top_k - 1)}
    with pytest.raises(ValueError, match="no windows to calibrate with"):
        skip_tail(tiny, [1, 2, 3])
