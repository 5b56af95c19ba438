"""Each known mistake, planted into the engine, is caught by the golden vectors."""

import sys
from pathlib import Path

import pytest

import strata_nb
from mistakes import MISTAKES, MODEL, NOTHING
from planting import Mistake, StaleEditError, planted
from vectors import cases
from vectors.answers import in_one_window
from vectors.golden import RANDOM_BOUND, Comparison, Golden, compare

CASES = {case.name: case for case in (cases.MISTAKES, cases.TIES, cases.SHORT_KEYS)}
# A mistake is far from rounding: this many times the bound on right answers.
CLEAR = 30


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Golden]]:
    """The folders and the reference's answers, by name."""
    scratch = tmp_path_factory.mktemp("models")
    return {n: (case.checkpoint(scratch), case.golden()) for n, case in CASES.items()}


def compared(mistake: Mistake, folder: Path, golden: Golden) -> Comparison:
    with planted(mistake) as package:
        model = package.load(folder, dtype="float32")
        return compare(golden, in_one_window(model, golden))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistake_is_caught(
    mistake: Mistake, models: dict[str, tuple[Path, Golden]]
) -> None:
    comparison = compared(mistake, *models[mistake.case])
    assert comparison.fault(RANDOM_BOUND) is not None
    assert comparison.worst > CLEAR * RANDOM_BOUND


@pytest.mark.parametrize("case", CASES)
def test_an_edit_that_changes_nothing_is_not_caught(
    case: str, models: dict[str, tuple[Path, Golden]]
) -> None:
    comparison = compared(NOTHING, *models[case])
    assert comparison.fault(RANDOM_BOUND) is None
    assert comparison.flip is None


def test_the_sound_package_is_back_afterwards() -> None:
    before = {n: m for n, m in sys.modules.items() if n.startswith("strata_")}
    with planted(NOTHING) as package:
        assert package is not strata_nb
    after = {n: m for n, m in sys.modules.items() if n.startswith("strata_")}
    assert after == before


@pytest.mark.parametrize("text", ["row = no such text", "import"])
def test_an_edit_that_does_not_fit_is_an_error(text: str) -> None:
    stale = Mistake("stale", f"{MODEL}.mixer", ((text, ""),))
    with pytest.raises(StaleEditError, match="wanted the text once"), planted(stale):
        pytest.fail("an edit took place")
