"""One row's rule and one window's choice: exact values, no counts."""

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from strata_nb.sampling import (
    EQUALITY,
    RATIO,
    Draws,
    History,
    Penalties,
    Processors,
    Sampler,
    Sampling,
    SamplingRule,
    Stream,
    draw,
    law,
    uniform,
)

# Of 16, so that sums are exact. Impossible tokens, likely ones that are never drafted.
P = np.array([0, 1, 3, 4, 8]) / 16
LAWS = {
    "other": np.array([2, 4, 1, 9, 0]) / 16,
    "equal": P,
    "flat": np.array([4, 3, 3, 3, 3]) / 16,
    "apart": np.array([16, 0, 0, 0, 0]) / 16,
}
FINE = (np.arange(512) + 0.5) / 512
ALMOST_1 = 1 - 2.0**-53


def numbers(**given: float) -> Draws:
    """Those of one row; to ask for any other is an error."""
    by_name: Mapping[str, float] = given

    def of(stream: Stream) -> float:
        return by_name[stream]

    return of


def outcomes(draft: int, q: np.ndarray | None) -> np.ndarray:
    """The law of the ratio rule's token after one draft, by all numbers there are."""
    found = np.zeros(len(P))
    for one in FINE:
        try:
            found[RATIO.token(P, draft, q, numbers(accept=one))] += 1
        except KeyError:
            # It asked for the residual's number: the same law for each of these.
            break
    else:
        return found / len(FINE)
    rejected = len(FINE) - found.sum()
    for two in FINE:
        token = RATIO.token(P, draft, q, numbers(accept=one, residual=two))
        assert token != draft
        found[token] += rejected / len(FINE)
    return found / len(FINE)


@pytest.mark.parametrize("q", LAWS.values(), ids=LAWS.keys())
def test_drawn_drafts_have_the_law_of_the_model(q: np.ndarray) -> None:
    got = sum(q[x] * outcomes(x, q) for x in range(len(P)) if q[x])
    np.testing.assert_allclose(got, P, atol=0.004)


@pytest.mark.parametrize("draft", range(len(P)))
def test_certain_drafts_have_the_law_of_the_model(draft: int) -> None:
    np.testing.assert_allclose(outcomes(draft, None), P, atol=0.004)


def test_what_cannot_come_is_not_accepted() -> None:
    for q in (None, LAWS["apart"]):
        got = RATIO.token(P, 0, q, numbers(accept=0.0, residual=0.0))
        assert got == 1


def test_equal_laws_but_for_rounding_accept() -> None:
    p = np.array([0.5 - 2.0**-54, 0.5])
    assert RATIO.token(p, 0, np.array([0.5, 0.5]), numbers(accept=ALMOST_1)) == 0
    sure = np.array([0.0, 1.0])
    assert RATIO.token(sure, 1, None, numbers(accept=ALMOST_1)) == 1


def test_rules_leave_the_laws_as_they_are() -> None:
    p, q = P.copy(), LAWS["other"].copy()
    rules: tuple[SamplingRule, ...] = (EQUALITY, RATIO)
    for rule, one in itertools.product(rules, (None, q)):
        rule.token(p, 3, one, numbers(accept=0.99, residual=0.5, target=0.5))
    np.testing.assert_array_equal(p, P)
    np.testing.assert_array_equal(q, LAWS["other"])


@pytest.mark.parametrize("number", [0.0, 0.06, 0.3, 0.9])
def test_equality_looks_at_no_draft_and_no_other_number(number: float) -> None:
    for draft, q in itertools.product((None, 0, 4), (None, LAWS["other"])):
        assert EQUALITY.token(P, draft, q, numbers(target=number)) == draw(P, number)
    # The last row of the ratio rule is the same.
    assert RATIO.token(P, None, None, numbers(target=number)) == draw(P, number)


@pytest.mark.parametrize("rule", [EQUALITY, RATIO])
@pytest.mark.parametrize("certain", [True, False])
def test_each_row_decides_by_its_own_law_draft_and_cell(
    rule: SamplingRule, certain: bool
) -> None:
    rng = np.random.default_rng(1)
    differ = 0
    for seed, width in itertools.product(range(20), range(1, 9)):
        logits = rng.normal(size=(width, 6))
        laws = rng.dirichlet(np.ones(6), width - 1)
        inputs = rng.integers(0, 6, width).tolist()
        sampling = Sampling(temperature=0.8, top_k=4, seed=seed, rule=rule.name)
        choice = Sampler(sampling).choice(None if certain else laws)
        got = list(choice(inputs, logits, start=100))
        wanted = []
        for row in range(width):
            cell = 100 + row
            streams = ("target", "accept", "residual")
            own = {name: uniform(seed, name, cell) for name in streams}  # type: ignore[arg-type]
            last = row == width - 1
            token = rule.token(
                law(logits[row], sampling),
                None if last else inputs[row + 1],
                None if last or certain else laws[row],
                numbers(**own),
            )
            wanted.append(token)
        assert got == wanted
        assert choice.rule == rule.name
        differ += got != list(choice(inputs, logits, start=200))
    assert differ > 100


def test_at_temperature_0_the_rule_is_greedy() -> None:
    for rule in ("equality", "ratio"):
        choice = Sampler(Sampling(rule=rule)).choice()
        assert choice.rule == "greedy"
        assert list(choice([0, 1], np.array([[0, 2], [1, 0.0]]), start=0)) == [1, 0]


def test_a_rule_may_stand_in_for_another() -> None:
    sampler = Sampler(Sampling(temperature=1.0, rule="ratio"), rule=EQUALITY)
    assert sampler.rule == "equality"


def test_adjustments_apply_in_order_and_know_the_history() -> None:
    seen = []

    def look(tokens: History, logits: np.ndarray) -> np.ndarray:
        seen.append((list(tokens), tokens.prompt, logits.tolist()))
        logits[:] = [0, 0, 7]
        return logits

    sampler = Sampler(Sampling(), [Penalties(frequency=1), Processors(look)])
    sampler.assign([0, 0], [1])
    sampler.append([2, 2])
    logits = np.zeros((2, 3))
    assert list(sampler.choice()([2, 1], logits, start=0)) == [2, 2]
    assert seen == [
        ([0, 0, 1, 2, 2], 2, [0, -1, -2]),
        ([0, 0, 1, 2, 2, 1], 2, [0, -2, -2]),
    ]
    # Not even what a processor writes into its logits is left.
    np.testing.assert_array_equal(logits, np.zeros((2, 3)))
    sampler = Sampler(Sampling(), [Processors(look)])
    sampler.choice()([2, 1], logits, start=0)
    np.testing.assert_array_equal(logits, np.zeros((2, 3)))


def test_processors_are_called_in_order() -> None:
    both = Processors(lambda _, z: z + 1, lambda _, z: z * 3)
    np.testing.assert_array_equal(both.adjust([0], np.zeros((1, 2))), [[3, 3]])
