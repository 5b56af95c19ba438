"""Greedy acceptance by hand: mismatches, stop ids and limits."""

import pytest

from strata_nb.accept import Accepted, accept

A, B, C, D, E, F, EOS, X = range(8)


@pytest.mark.parametrize(
    ("inputs", "predictions", "left", "want"),
    [
        ([A], [B], None, Accepted(0, 0, None)),
        ([A, B, C], [B, C, D], None, Accepted(2, 2, None)),
        ([A, B, X, C], [B, C, D, D], None, Accepted(1, 3, None)),
        ([A, X, B], [B, C, D], None, Accepted(0, 2, None)),
        # stop ids: wrong guess of one, one met on the way, one guessed right
        ([A, EOS], [B, X], None, Accepted(0, 1, None)),
        ([A, B, C], [B, EOS, D], None, Accepted(1, 1, "stop")),
        ([C, D, E, F, EOS, A], [D, E, F, EOS, X, X], None, Accepted(3, 3, "stop")),
        ([A], [EOS], None, Accepted(0, 0, "stop")),
        # limits
        ([A, B, C], [B, C, D], 3, Accepted(2, 2, "limit")),
        ([A, B, C], [B, C, D], 2, Accepted(1, 1, "limit")),
        ([A, B, C], [B, C, D], 1, Accepted(0, 0, "limit")),
        ([A, X, C], [B, C, D], 2, Accepted(0, 1, None)),
        ([A, B, C], [EOS, C, D], 1, Accepted(0, 0, "stop")),
    ],
)
def test_greedy(
    inputs: list[int], predictions: list[int], left: int | None, want: Accepted
) -> None:
    got = accept(inputs, predictions, stop_ids={EOS}, tokens_left=left)
    assert got == want


def test_a_second_stop_id_stops_too() -> None:
    got = accept([A, B], [X, C], stop_ids=(EOS, X))
    assert got == Accepted(0, 0, "stop")


def test_no_tokens_left_is_an_error() -> None:
    with pytest.raises(ValueError, match="`tokens_left` is 0, wanted 1 or more"):
        accept([A], [B], tokens_left=0)
