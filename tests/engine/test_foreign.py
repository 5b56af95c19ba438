"""The gate for other engines, tried on a small one that can be broken at will."""

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import strata_nb.gates.foreign as foreign
from foreign_fakes import (
    PROMPT,
    Breaks,
    Deaf,
    Fake,
    Noisy,
    Rounds,
    Saves,
    Trims,
    V,
    Wide,
)
from strata_nb.gates.foreign import (
    CanSave,
    CanTrim,
    ForeignEngine,
    ForeignEngineError,
    ForeignReport,
    examine,
)
from strata_nb.gates.foreign.rows import Bounds, Judge
from strata_nb.gates.records import PROFILES, Profile


def look(engine: ForeignEngine, **options: Any) -> ForeignReport:
    return examine(engine, prompt=PROMPT, **options)


def faulty(report: ForeignReport) -> set[str]:
    """Families, and ways back, that have a fault."""
    found = report.having("fault")
    return {" by ".join((o.case.family, *_way(o.case.params))) for o in found}


def _way(params: Sequence[tuple[str, Any]]) -> list[str]:
    return [value for name, value in params if name == "way"]


@pytest.mark.parametrize("profile", PROFILES[:2])
@pytest.mark.parametrize("kind", [Trims, Saves])
def test_a_sound_engine_passes(kind: type[Fake], profile: Profile) -> None:
    report = look(kind(), profile=profile)
    assert report.having("fault") == report.having("near-tie") == ()
    assert report.exit_code == 0
    ids = [o.case.id for o in report.outcomes]
    assert len(set(ids)) == len(ids)
    families = {o.case.family for o in report.outcomes}
    assert families == {"reset", "widths", "matters", "rejection", "rounds", "resume"}


def test_the_full_profile_keeps_every_number_of_rows() -> None:
    cases = [o.case for o in look(Saves(), profile="full").outcomes]
    asked = {(c["T"], c["keep"]) for c in cases if c.family == "rejection"}
    assert asked == {(T, keep) for T in range(2, 9) for keep in range(1, T + 1)}


def test_the_exhaustive_profile_starts_at_every_cell() -> None:
    report = look(Saves(), profile="exhaustive", families=["matters"])
    assert [o.case["start"] for o in report.outcomes] == list(range(len(PROMPT) - 7))


DEFECTS = [
    (Trims, "nothing happens", {"rejection by trim", "rounds by trim"}),
    (Trims, "one row stays", {"rejection by trim", "rounds by trim"}),
    (Trims, "it leaves NaN", {"rejection by trim", "rounds by trim"}),
    (Trims, "it refuses too late", {"rejection by trim", "rounds by trim"}),
    (Trims, "it says gone", {"rejection by trim", "rounds by trim"}),
    (Saves, "save aliases", {"rejection by restore", "rounds by restore", "resume"}),
    (Saves, "restore aliases", {"resume"}),
    (
        Saves,
        "the state is not put back",
        {"rejection by restore", "rounds by restore", "resume"},
    ),
]


@pytest.mark.parametrize(("kind", "defect", "where"), DEFECTS)
def test_a_defect_is_caught_where_it_is(
    kind: type[Fake], defect: str, where: set[str]
) -> None:
    report = look(kind(defect))
    assert faulty(report) == where
    assert report.verdict == "fault"
    assert report.exit_code == 1


def test_a_reset_that_keeps_the_state_is_the_first_fault() -> None:
    report = look(Saves("reset keeps the state"))
    assert report.having("fault")[0].case.family == "reset"


def test_a_width_that_changes_the_rows_is_named() -> None:
    report = look(Trims("the width counts"))
    (wrong,) = report.having("fault", family="widths")
    assert wrong.case["T"] == 5
    assert wrong.result.findings[0].by == "serial"
    assert report.having("fault")[0] is wrong


def test_what_a_defect_did_is_said_in_words() -> None:
    again = look(Saves("restore aliases")).having("fault")
    assert all("restored a second time: " in o.words for o in again)
    late = look(Trims("it refuses too late")).having("fault", family="rejection")
    assert all("rows never go; but after it refused: " in o.words for o in late)
    (nan, *_) = look(Trims("it leaves NaN")).having("fault")
    assert "logits differ by inf" in nan.words


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Trims("it refuses"), "`trim` says: rows never go; nothing had changed"),
        (Trims("it fails"), "`trim` says: KeyError: 'rows'; nothing had changed"),
        (Trims("it says 0"), "`trim` dropped 0 of 1 rows; nothing had changed"),
        (Saves("it refuses to save"), "`save` says: OSError: the disk is full"),
        (Saves("it says False"), "`restore` answered False; nothing had changed"),
    ],
)
def test_an_engine_that_says_so_is_no_fault(engine: Fake, words: str) -> None:
    report = look(engine)
    assert report.verdict == "refused"
    assert report.exit_code == 0
    refused = report.having("refused", family="rejection")
    assert len(refused) == 10
    assert refused[0].words.startswith(words)
    # It is in no result of the other gates' report: nothing was answered.
    answered = {result.case.family for result in report.results}
    assert answered == {"reset", "widths", "matters"}
    assert set(refused) <= set(report.refusals)


def test_what_is_not_offered_is_named() -> None:
    assert [o.words for o in look(Fake()).refusals] == [
        "it offers no `save` and `restore`",
        "it offers neither `trim` nor `save` and `restore`",
    ]
    assert [o.case.family for o in look(Trims()).refusals] == ["resume"]


def test_an_engine_that_forgets_proves_nothing() -> None:
    report = look(Deaf())
    assert faulty(report) == {"matters"}
    assert "so the rest proves nothing" in report.having("fault")[0].words


def test_an_engine_that_breaks_has_a_fault() -> None:
    report = look(Breaks(), families=["rejection"])
    assert all("`feed` raised IndexError: no rows" in o.words for o in report.outcomes)
    assert {o.verdict for o in report.outcomes} == {"fault"}


def test_a_near_tie_needs_a_floor() -> None:
    flips = look(Rounds(), families=["widths"])
    assert faulty(flips) == {"widths"}
    words = flips.having("fault")[0].words
    assert "1 comes next" in words or "0 comes next" in words
    assert words.endswith("how much rounding makes is unknown")
    known = look(Rounds(), families=["widths"], floor=2e-6)
    assert known.verdict == "near-tie"
    assert known.exit_code == 0
    finding = known.having("near-tie")[0].result.findings[0]
    assert finding.what == "token"
    assert finding.gap is not None
    assert finding.gap < 2 * finding.size
    # A floor below the difference is no licence.
    strict = look(Rounds(), families=["widths"], floor=1e-9)
    assert faulty(strict) == {"widths"}
    assert strict.having("fault")[0].words.endswith("rounding makes 1.0e-09")


def test_a_floor_is_measured_from_a_reference() -> None:
    report = look(Rounds(), reference=Rounds(), families=["widths"])
    assert report.bounds.floor == 0.0
    assert report.outcomes[0].case.family == "reference"
    noisy = look(Noisy(1e-6), reference=Fake(), families=["widths"])
    assert noisy.bounds.floor is not None
    assert 1e-7 < noisy.bounds.floor < 1e-5
    assert "from its reference" in noisy.outcomes[0].words


def test_unrelated_logits_are_never_a_near_tie() -> None:
    free = look(Noisy(100.0), families=["widths", "resume"])
    assert free.having("near-tie") == ()
    largest = 0.1 * free.bounds.scale * 0.9
    for options in ({"floor": largest}, {"reference": Noisy(100.0, seed=2)}):
        report = look(Noisy(100.0), families=["widths", "resume"], **options)
        assert report.having("near-tie") == ()
        assert faulty(report) >= {"widths", "resume"}
    assert report.bounds.floor is None
    assert "more than rounding makes" in report.outcomes[0].words


@pytest.mark.parametrize("seed", range(50))
def test_unrelated_rows_are_never_a_near_tie(seed: int) -> None:
    got, want = np.random.default_rng(seed).normal(size=(2, 4, 50))
    judge = Judge(Bounds(scale=1.0, floor=0.1))
    judge.rows(got, want, cell=0)
    assert [f.kind for f in judge.findings] == ["fault"]


def test_equal_logits_take_the_lowest_index() -> None:
    judge = Judge(Bounds(scale=1.0))
    judge.rows(np.array([[1.0, 1.0]]), np.array([[1.0, 1.0 - 1e-9]]), cell=0)
    assert judge.findings == []


def test_the_report_is_plain_text_and_repeats() -> None:
    report = look(Trims("it refuses"), families=["reset", "widths", "rejection"])
    lines = str(report).splitlines()
    assert lines[0] == "Trims: 20 tokens, profile quick"
    assert "no near-tie is granted" in lines[1]
    assert [re.split(r" {2,}", line.strip())[:2] for line in lines[2:-1]] == [
        ["reset", "2 same"],
        ["widths", "9 same"],
        ["rejection by trim", "10 refused"],
    ]
    assert lines[-1] == "verdict: refused"
    again = look(Trims("it refuses"), families=["reset", "widths", "rejection"])
    assert str(again) == str(report)
    assert again == report


def test_the_example_in_the_documentation_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", str(foreign.__doc__), re.S)
    inner = Fake()

    class model:
        new_state = staticmethod(lambda: np.zeros(6))

        @staticmethod
        def run(tokens: list[int], state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            inner.state = state
            inner.feed(tokens)
            return inner.logits(), inner.state

    names: dict[str, Any] = {"copy": copy, "examine": examine, "prompt": PROMPT}
    names["model"] = model
    exec(block, names)
    assert names["report"].verdict == "same"
    assert isinstance(names["Mine"](), CanSave)
    assert not isinstance(names["Mine"](), CanTrim)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": PROMPT[:11]}, r"`prompt` has 11 tokens, wanted 12 or more"),
        ({"prompt": [*PROMPT, V]}, r"`prompt` has tokens from 0 to 11, wanted 0 to 10"),
        ({"profile": "fast"}, r"`profile` is 'fast', wanted one of quick, full"),
        (
            {"families": ["speed"]},
            r"`families` has speed, wanted some of reset, widths",
        ),
        ({"floor": 5.0}, r"`floor` is 5, .* wanted 0 to 10% of it"),
        ({"floor": -1.0}, r"`floor` is -1, .* no rounding is larger"),
        ({"floor": 0.0, "reference": Fake()}, r"are both given; .* leave one of them"),
    ],
)
def test_arguments_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        examine(Fake(), **({"prompt": PROMPT} | change))


def test_a_reference_of_another_size() -> None:
    small = Fake()
    small.head = small.head[:, :5]
    with pytest.raises(ValueError, match=r"`reference` has 5 columns .* engine 11"):
        look(Fake(), reference=small)


def test_an_engine_that_cannot_be_fed() -> None:
    with pytest.raises(ForeignEngineError, match=r"shape \[11\] after 1 rows, wanted"):
        look(Wide())
    broken = Fake()
    del broken.mix
    with pytest.raises(ForeignEngineError, match=r"`feed` raised AttributeError"):
        look(broken)
    empty = Fake()
    empty.head[:] = np.nan
    with pytest.raises(
        ForeignEngineError, match=r"not finite; nothing can be compared"
    ):
        look(empty)
