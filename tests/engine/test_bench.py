"""The benchmark's options: what would measure nothing is refused before it starts."""

import argparse

import pytest

from strata_nb.bench import engine as bench
from strata_nb.errors import StrataError


def options(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(given)


@pytest.mark.parametrize("option", ["--rounds", "--context"])
@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "x", "1" + "0" * 26, "9" * 5000])
def test_numbers_that_are_no_measurement_are_refused(
    option: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options(option, wrong)
    message = capsys.readouterr().err
    assert f"argument {option}: wanted a whole number from 1 to 1" in message
    assert len(message) < 500


def test_the_limits_themselves_are_taken() -> None:
    assert options("--rounds", "1").rounds == 1
    assert options("--rounds", "1000", "--context", "1").rounds == 1000
    assert (options().rounds, options().context) == (40, 200)


@pytest.mark.parametrize(
    ("given", "cells"),
    [
        (["--context", "99999999"], 99999999 + 45 * 8),
        (["--context", "7833"], 7833 + 45 * 8),
        (["--rounds", "1000"], 200 + 1005 * 8),
    ],
)
def test_what_the_model_has_no_cells_for_is_refused(
    given: list[str], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before anything is measured: the next step would fail otherwise.
    monkeypatch.setattr(bench, "_memory_ratio", None)
    with pytest.raises(StrataError, match=f"take {cells} cells, strata-tiny has 8192;"):
        bench.main(options(*given))


def test_the_default_and_the_largest_context_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class MeasuredError(Exception):
        pass

    def measured(*_: object) -> None:
        raise MeasuredError

    monkeypatch.setattr(bench, "_memory_ratio", measured)
    for given in ([], ["--context", "7832"]):
        with pytest.raises(MeasuredError):
            bench.main(options(*given))
