"""Charts of a gate's report: what each square, cell and dot stands for."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import pytest

import gate_samples as samples
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.records import PARTS, CaseResult, Finding
from strata_nb.gates.report import Report
from strata_nb.gates.report.tally import Planted
from strata_widgets import LiveChart, gate_charts, theme
from toy_gate import FAULT, NEAR, case, result

FLOOR = Floor(logits=1e-5, experts=1e-6, blocks=0.0)
CAUGHT = (
    Planted("qsa_ring", "qsa_tail", {"qsa_tail": {"twin": 3, "serial": 2}}),
    Planted("qsa_block_count", "qsa_blocks", {"token": {"rule": 1}}),
    Planted("kv_cells_kept", "kv", {}),
)


def flip(**about: Any) -> Finding:
    fields: dict[str, Any] = {"what": "token", "cell": 3, "size": 1e-5, "gap": 1e-6}
    kind = about.pop("kind", "near-tie")
    return Finding(kind, "serial", "commit", **(fields | about))


ALL: dict[str, Callable[[], alt.LayerChart]] = {
    "board": lambda: gate_charts.board(samples.full()),
    "matrix": lambda: gate_charts.matrix(CAUGHT),
    "near-ties": lambda: gate_charts.near_ties([flip()], FLOOR),
}
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: alt.LayerChart, field: str) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    rows: list[dict[str, Any]] = spec["datasets"][spec["data"]["name"]]
    return [row for row in rows if field in row]


def axes(spec: Any) -> list[dict[str, Any]]:
    """Every position channel with a field, wherever it is in `spec`."""
    found = []
    if isinstance(spec, list):
        for part in spec:
            found += axes(part)
    elif isinstance(spec, dict):
        for name, part in spec.items():
            if name in ("x", "y") and isinstance(part, dict) and "field" in part:
                found.append(part)
            found += axes(part)
    return found


def many(count: int, family: str, *findings: Finding) -> list[CaseResult]:
    return [
        result(case(number=n, family=family), *findings, changed=PARTS)
        for n in range(count)
    ]


def verdicts(chart: alt.LayerChart) -> Counter[str]:
    return Counter(row["verdict"] for row in rows_of(chart, "verdict"))


@each_chart
def test_it_says_what_it_shows_and_in_which_unit(name: str) -> None:
    spec = ALL[name]().to_dict()
    assert len(spec["description"]) > 40
    assert spec["title"]["text"]
    titles = {axis["title"] for axis in axes(spec)}
    assert len(titles) == 2
    assert all("(" in title for title in titles)


@each_chart
def test_every_mark_of_data_can_be_read_aloud(name: str) -> None:
    chart = ALL[name]()
    (spoken,) = [
        la for la in chart.to_dict()["layer"] if "description" in la["encoding"]
    ]
    assert spoken["encoding"]["description"]["field"] == "says"
    says = [row["says"] for row in rows_of(chart, "says")]
    assert says
    assert all(says)


@each_chart
def test_it_can_be_live_and_equal_data_gives_equal_drawings(name: str) -> None:
    chart, again = (LiveChart(ALL[name]()) for _ in range(2))
    assert chart.spec == again.spec
    assert chart.rows == again.rows


def test_a_verdict_has_a_colour_of_the_palette_and_a_sign() -> None:
    assert set(gate_charts.COLOURS.values()) <= set(theme.PALETTE.values())
    assert len({*gate_charts.COLOURS.values()}) == len(gate_charts.COLOURS) == 4
    assert len({*gate_charts.SIGNS.values()}) == len(gate_charts.SIGNS) == 4


def test_the_board_has_a_square_a_case() -> None:
    cases = [*many(2, "a"), *many(1, "a", NEAR), *many(3, "b", FAULT)]
    chart = gate_charts.board(samples.report(samples.gate(*cases)))
    assert verdicts(chart) == {"same": 2, "near-tie ≈": 1, "fault \u00d7": 3}
    rows = rows_of(chart, "verdict")
    assert [(row["line"], row["place"]) for row in rows] == [
        (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)
    ]  # fmt: skip
    assert rows[-1]["says"].startswith(f"{cases[-1].case.id}: fault, ")
    assert FAULT.what in rows[-1]["says"]


def test_a_long_family_goes_on_in_the_next_line_under_one_name() -> None:
    chart = gate_charts.board(samples.report(samples.gate(*many(40, "a"))))
    lines = Counter(row["line"] for row in rows_of(chart, "verdict"))
    assert lines == {0: 32, 1: 8}
    (axis,) = {
        a["axis"]["labelExpr"]
        for a in axes(chart.to_dict())
        if "labelExpr" in a["axis"]
    }
    assert axis == '["a (40)", ""][datum.value]'


def test_the_board_of_several_gates_names_each() -> None:
    first = samples.gate(*many(1, "a"), name="one")
    second = samples.gate(*many(1, "a"), name="two")
    spec = gate_charts.board(samples.report(first, second)).to_dict()
    labels = str(axes(spec))
    assert "one a (1)" in labels
    assert "two a (1)" in labels


def test_cases_that_could_not_have_failed_are_vacuous() -> None:
    still = [result(case(number=n), changed=("kv",)) for n in range(3)]
    report = samples.report(samples.gate(*still))
    assert report.verdict == "vacuous"
    assert verdicts(gate_charts.board(report)) == {"vacuous ?": 3}


def test_a_report_from_a_file_has_the_same_squares(tmp_path: Path) -> None:
    report = samples.full()
    report.save(tmp_path / "report.json")
    read = Report.load(tmp_path / "report.json")
    assert not any(gate.results for gate in read.gates)
    assert verdicts(gate_charts.board(read)) == verdicts(gate_charts.board(report))


def test_a_board_without_cases_is_refused() -> None:
    with pytest.raises(ValueError, match="a board wants cases, got none; run a gate"):
        gate_charts.board(samples.report())


def test_a_fault_and_a_part_say_who_caught_it_there() -> None:
    rows = rows_of(gate_charts.matrix(CAUGHT), "letters")
    seen = {(r["fault"], r["what"]): r for r in rows if r["letters"] or r["planted"]}
    assert {k: (r["letters"], r["cases"]) for k, r in seen.items()} == {
        ("qsa_ring", "qsa|tail"): ("TS", 3),
        ("qsa_block_count", "qsa|blocks"): ("", 0),
        ("qsa_block_count", "token"): ("#", 1),
        ("kv_cells_kept", "kv"): ("missed", 0),
    }
    ring = seen["qsa_ring", "qsa|tail"]
    assert ring["says"] == (
        "qsa_ring in qsa_tail (planted here): twin in 3 cases, serial in 2 cases"
    )
    # All parts have a column, and what else was caught comes behind them.
    assert len(rows) == len(CAUGHT) * (len(PARTS) + 1)


def test_a_matrix_without_faults_is_refused() -> None:
    with pytest.raises(ValueError, match="wants planted faults, got none; run a gate"):
        gate_charts.matrix([])


def test_gap_and_difference_are_counted_in_floors_of_their_own() -> None:
    found = [
        flip(size=2e-5, gap=3e-5, kind="fault"),
        flip(what="experts", layer=2, size=5e-7, gap=2e-7),
    ]
    rows = rows_of(gate_charts.near_ties(found, FLOOR), "kind")
    assert [row["kind"] for row in rows] == ["fault", "near-tie"]
    assert [row["gap"] for row in rows] == pytest.approx([3, 0.2])
    assert [row["difference"] for row in rows] == pytest.approx([2, 0.5])
    assert "experts layer 2 cell 3" in rows[1]["says"]


@pytest.mark.parametrize(
    ("about", "gap", "difference"),
    [
        ({"gap": 0.0}, 1e-2, 1.0),
        ({"size": float("inf")}, 0.1, 1e6),
        # Without a floor nothing is small.
        ({"what": "blocks"}, 1e6, 1e6),
    ],
)
def test_what_is_past_an_end_is_drawn_at_that_end(
    about: dict[str, Any], gap: float, difference: float
) -> None:
    (row,) = rows_of(gate_charts.near_ties([flip(**about)], FLOOR), "kind")
    assert (row["gap"], row["difference"]) == pytest.approx((gap, difference))


def test_the_line_of_twice_the_difference_stays_on_both_axes() -> None:
    ends = rows_of(gate_charts.near_ties([flip()], FLOOR), "line")
    assert [(end["x"], end["low"]) for end in ends] == [(2e-2, 1e-2), (1e6, 5e5)]


def test_findings_about_no_decision_are_left_out() -> None:
    assert len(rows_of(gate_charts.near_ties([flip(), FAULT], FLOOR), "kind")) == 1
    with pytest.raises(
        ValueError, match="findings with a gap, got none; decisions are"
    ):
        gate_charts.near_ties([FAULT], FLOOR)
