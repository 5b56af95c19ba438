"""Settings, laws, random numbers, adjustments: exact values."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from strata_nb.sampling import (
    GREEDY,
    RECOMMENDED,
    Bans,
    Sampler,
    Sampling,
    draw,
    law,
    uniform,
)

HOT = Sampling(temperature=1.0)
HALF = np.log([0.5, 0.25, 0.125, 0.125])


def test_a_number_belongs_to_its_place() -> None:
    places = list(itertools.product((0, 1), ("target", "accept"), (0, 1, 10**6)))
    numbers = [uniform(*place) for place in places]  # type: ignore[arg-type]
    assert [uniform(*place) for place in places[::-1]] == numbers[::-1]  # type: ignore[arg-type]
    assert len(set(numbers)) == len(numbers)
    many = np.array([uniform(7, "target", i) for i in range(4000)])
    assert (many >= 0).all()
    assert (many < 1).all()
    assert abs(many.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(many[1:], many[:-1])[0, 1]) < 0.05


def test_a_known_number() -> None:
    assert uniform(1234, "residual", 56) == uniform(1234, "residual", 56)
    # The same on every machine and in every later version.
    assert f"{uniform(0, 'target', 0):.12f}" == KNOWN


KNOWN = "0.913304712636"


@pytest.mark.parametrize(
    ("number", "token"), [(0.0, 1), (0.2499, 1), (0.25, 3), (0.999999999999, 3)]
)
def test_draw_is_in_order_and_never_takes_what_cannot_come(
    number: float, token: int
) -> None:
    assert draw(np.array([0.0, 0.25, 0.0, 0.75, 0.0]), number) == token
    assert draw(np.array([0.0, 1.0, 0.0, 3.0, 0.0]), number) == token


def test_draw_survives_rounding_at_the_very_end() -> None:
    # The product of the number and the sum is rounded up to the sum.
    assert draw(np.array([0.0, 5e-324, 0.0]), 1 - 2.0**-53) == 1
    assert draw(np.array([5e-324, 5e-324, 0.0]), 1 - 2.0**-53) == 1
    assert draw(np.array([0.0, 1.0, 0.0]), 1 - 2.0**-53) == 1


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({}, [0.5, 0.25, 0.125, 0.125]),
        ({"temperature": 0.5}, [16 / 22, 4 / 22, 1 / 22, 1 / 22]),
        ({"top_k": 1}, [1, 0, 0, 0]),
        ({"top_k": 2}, [2 / 3, 1 / 3, 0, 0]),
        # Of equal ones the lowest index.
        ({"top_k": 3}, [4 / 7, 2 / 7, 1 / 7, 0]),
        ({"top_k": 9}, [0.5, 0.25, 0.125, 0.125]),
        # The token that reaches the mass is in.
        ({"top_p": 0.5}, [1, 0, 0, 0]),
        ({"top_p": 0.51}, [2 / 3, 1 / 3, 0, 0]),
        ({"top_p": 0.76}, [4 / 7, 2 / 7, 1 / 7, 0]),
        ({"min_p": 0.5}, [2 / 3, 1 / 3, 0, 0]),
        ({"min_p": 0.51}, [1, 0, 0, 0]),
        # Top-p looks at what top-k has left.
        ({"top_k": 2, "top_p": 0.66}, [1, 0, 0, 0]),
    ],
)
def test_laws(how: dict[str, Any], wanted: list[float]) -> None:
    got = law(HALF, Sampling(**{"temperature": 1.0, **how}))
    np.testing.assert_allclose(got, wanted, atol=1e-15)


def test_a_law_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no token is left to choose from"):
        law(np.full(3, -np.inf), HOT)
    with pytest.raises(ValueError, match="at temperature 0 there is no law"):
        law(HALF, GREEDY)
    sampler = Sampler(GREEDY, [Bans(range(4))])
    with pytest.raises(ValueError, match="no token is left to choose from"):
        sampler.choice()([0], HALF[None], start=0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_logit_that_is_no_number_is_refused(value: float, temperature: float) -> None:
    choice = Sampler(Sampling(temperature=temperature)).choice()
    logits = np.array([[0.0, 1.0], [0.0, value]])
    with pytest.raises(ValueError, match=rf"a logit is {value} after bans, penalties"):
        choice([0, 1], logits, start=0)


@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_the_lowest_temperatures_are_greedy(temperature: float) -> None:
    got = law(np.array([0.0, 700.0, 699.0, -np.inf]), Sampling(temperature=temperature))
    np.testing.assert_array_equal(got, [0, 1, 0, 0])


def test_top_p_by_the_plain_definition() -> None:
    """Over many tokens, most of them unlikely: in order, until the mass is reached."""
    rng = np.random.default_rng(3)
    for spread, mass in itertools.product((0.0, 0.5, 3.0), (0.011, 0.5, 0.9, 0.999)):
        logits = np.round(rng.normal(0, spread, 300), 1)
        p = law(logits, HOT)
        order = sorted(range(300), key=lambda i: (-logits[i], i))
        kept: list[int] = []
        total = 0.0
        while total < mass:
            kept.append(order[len(kept)])
            total += p[kept[-1]]
        got = law(logits, Sampling(temperature=1.0, top_p=mass))
        assert sorted(np.flatnonzero(got)) == sorted(kept)
        np.testing.assert_allclose(got[kept], p[kept] / p[kept].sum(), atol=1e-14)


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (2,), (0, 4)])
def test_laws_of_drafts_have_to_fit(shape: tuple[int, ...]) -> None:
    sampler = Sampler(Sampling(temperature=1.0, rule="ratio"))
    choice = sampler.choice(np.full(shape, 0.25))
    with pytest.raises(ValueError, match=r"have shape .*, wanted \(2, 4\): one for"):
        choice([0, 1, 2], np.stack([HALF] * 3), start=0)
    # The end of a text may cut drafts.
    sampler.choice(np.full((2, 4), 0.25))([0, 1], np.stack([HALF] * 2), start=0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_adjustment_keeps_the_shape_of_logits(temperature: float) -> None:
    class Cuts(Bans):
        def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
            return logits[:, :3]

    choice = Sampler(Sampling(temperature=temperature), [Cuts([])]).choice()
    with pytest.raises(ValueError, match=r"Cuts.adjust .* \(1, 3\), wanted \(1, 4\)"):
        choice([0], np.stack([HALF]), start=0)


@pytest.mark.parametrize(
    "wrong",
    [
        [0.25, 0.25, 0.25, np.nan],
        [0.0, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.5, -0.5],
        [np.inf, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.5, 0.0, 0.5, 0.0],
    ],
)
def test_what_is_no_law_of_a_draft_is_refused(wrong: list[float]) -> None:
    """Tokens would quietly have another law; the last has no mass where it drew."""
    choice = Sampler(Sampling(temperature=1.0, rule="ratio")).choice(
        np.array([[0.25] * 4, wrong])
    )
    with pytest.raises(ValueError, match=r"the law of draft 1 has .*; wanted 0 or mor"):
        choice([0, 1, 1], np.stack([HALF] * 3), start=0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": -1}, "`temperature` is -1, wanted 0"),
        ({"temperature": float("nan")}, "`temperature` is nan"),
        ({"temperature": float("inf")}, "`temperature` is inf"),
        ({"top_k": -1}, "`top_k` is -1"),
        ({"top_p": 0}, "`top_p` is 0, wanted above 0"),
        ({"top_p": 1.1}, "`top_p` is 1.1"),
        ({"min_p": -0.1}, "`min_p` is -0.1"),
        ({"min_p": 1.1}, "`min_p` is 1.1, wanted 0 to 1"),
        ({"seed": -1}, "`seed` is -1"),
        ({"seed": 2**64}, "`seed` is 18446744073709551616, wanted 0 to"),
        ({"rule": "luck"}, "`rule` is 'luck', wanted 'equality' or 'ratio'"),
    ],
)
def test_settings_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**how)


def test_the_lowest_index_wins_a_tie() -> None:
    logits = np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    assert list(Sampler(GREEDY).choice()([0, 1], logits, start=0)) == [1, 0]


def test_the_recommended_settings() -> None:
    got = (RECOMMENDED.temperature, RECOMMENDED.top_k, RECOMMENDED.top_p)
    assert got == (1.0, 20, 0.95)
