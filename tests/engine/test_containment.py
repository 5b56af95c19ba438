"""The price of containment: exact, drawn by lot, and measured on the engine."""

import itertools

import numpy as np
import pytest

from helpers import EXACT, after, prompt
from helpers import greedy as decoded
from strata_nb import Model
from strata_nb.gates.tail.containment import (
    GreedyText,
    Measured,
    measure,
    price,
    rows_at,
    simulate,
    stationary,
)

# Tokens a window at acceptance 0.7 and 0.9, at most four rows, blocks of four cells.
FREE = {0.7: 2.533, 0.9: 3.439}
CONTAINED = {0.7: 40 / 19, 0.9: 40 / 13}
LOSS = {0.7: 0.169, 0.9: 0.105}
ACCEPTANCES = (0.7, 0.9)


@pytest.mark.parametrize("acceptance", ACCEPTANCES)
def test_the_exact_price(acceptance: float) -> None:
    found = price(acceptance)
    assert found.free == pytest.approx(FREE[acceptance], abs=1e-12)
    assert found.contained == pytest.approx(CONTAINED[acceptance], abs=1e-12)
    assert found.loss == pytest.approx(LOSS[acceptance], abs=5e-4)


@pytest.mark.parametrize(
    ("acceptance", "ratio"),
    [*itertools.product((0.0, 0.3, 0.7, 0.9, 1.0), (1, 2, 4, 8))],
)
def test_the_chain_agrees_with_counting_first_cells(
    acceptance: float, ratio: int
) -> None:
    """Where blocks are no longer than windows, a window begins at each first cell of a
    block, and at another cell if the draft that would have been there was wrong."""
    windows_a_block = 1 + (ratio - 1) * (1 - acceptance)
    found = price(acceptance, rows=8, ratio=ratio)
    assert found.contained == pytest.approx(ratio / windows_a_block)
    # A block's first cell begins one of its windows.
    first = stationary(acceptance, rows=8, ratio=ratio)[0]
    assert first == pytest.approx(1 / windows_a_block)


def test_windows_shorter_than_blocks() -> None:
    """Two rows in blocks of three cells: from cell 0 to 1 or 2, from 1 to 2 or 0."""
    q = 0.6
    visits = np.array([1, 1 - q, q + (1 - q) ** 2])  # for each visit of cell 0
    share = visits / visits.sum()
    assert stationary(q, rows=2, ratio=3) == pytest.approx(share)
    found = price(q, rows=2, ratio=3)
    # All windows but those at cell 2 have a draft.
    assert found.contained == pytest.approx(1 + q * (share[0] + share[1]))
    assert found.free == pytest.approx(1.6)


@pytest.mark.parametrize("acceptance", ACCEPTANCES)
@pytest.mark.parametrize("contained", [False, True])
def test_drawn_by_lot(acceptance: float, contained: bool) -> None:
    found = simulate(acceptance, contained=contained, windows=20_000, seed=3)
    exact = (CONTAINED if contained else FREE)[acceptance]
    assert found.windows == 20_000
    assert 0.002 < found.error < 0.02
    assert abs(found.tokens_per_window - exact) < 3 * found.error
    again = simulate(acceptance, contained=contained, windows=20_000, seed=3)
    assert found == again
    other = simulate(acceptance, contained=contained, windows=20_000, seed=4)
    assert found != other


def test_the_error_is_that_of_many_repetitions() -> None:
    runs = [simulate(0.7, contained=True, windows=640, seed=s) for s in range(200)]
    spread = np.std([r.tokens_per_window for r in runs])
    assert np.mean([r.error for r in runs]) == pytest.approx(spread, rel=0.15)


def test_certain_drafts_and_none() -> None:
    always = simulate(1.0, contained=True, windows=10, seed=0)
    assert always.tokens_per_window == 4.0
    assert always.error == 0.0
    assert simulate(0.0, contained=False, windows=10, seed=0).tokens == 10


def test_rows_at_each_cell() -> None:
    def rows(cell: int, *, contained: bool, most: int = 4) -> int:
        return rows_at(cell, contained=contained, rows=most, ratio=4)

    assert [rows(c, contained=True) for c in range(4, 9)] == [4, 3, 2, 1, 4]
    assert [rows(c, contained=False) for c in range(4)] == [4] * 4
    assert [rows(c, contained=True, most=2) for c in range(4)] == [2, 2, 2, 1]
    assert [rows(c, contained=True, most=8) for c in range(4)] == [4, 3, 2, 1]


@pytest.fixture(scope="module")
def text(trained: Model) -> GreedyText:
    source = "def total(values):\n    count = 0\n    for value in values:\n"
    return GreedyText(trained, trained.encode(source))


@pytest.mark.parametrize("acceptance", ACCEPTANCES)
def test_measured_on_the_bundled_model(text: GreedyText, acceptance: float) -> None:
    """The engine's mean lies within three standard errors of the exact one."""
    found = measure(text, acceptance, contained=True, windows=200, seed=5)
    sample = found.sample
    assert sample.windows == 200
    assert 0.03 < sample.error < 0.12
    assert abs(sample.tokens_per_window - CONTAINED[acceptance]) < 3 * sample.error
    if EXACT:
        # The engine accepted what was right and nothing else.
        assert (found.lucky, found.lossless) == (sample.tokens, True)
    assert found.wrong_blocks == 0
    # All is committed but the last token emitted, the next root.
    assert found.blocks == (len(text.prompt) - 1 + sample.tokens) // 4


def test_containment_makes_the_ring_harmless(tiny: Model) -> None:
    text = GreedyText(tiny, prompt(tiny, 11))

    def run(*, contained: bool, fault: str | None) -> Measured:
        return measure(text, 0.6, contained=contained, windows=40, seed=6, fault=fault)

    sound = run(contained=False, fault=None)
    free = run(contained=False, fault="qsa_ring")
    held = run(contained=True, fault="qsa_ring")
    assert (sound.wrong_blocks, held.wrong_blocks) == (0, 0)
    assert 0 < free.wrong_blocks < free.blocks
    assert sound.lossless
    assert held.lossless
    # Fewer tokens for as many windows: what it costs.
    assert held.sample.tokens < sound.sample.tokens


def test_the_text_is_that_of_plain_decoding(tiny: Model) -> None:
    ids = prompt(tiny, 9)
    text = GreedyText(tiny, ids)
    want = decoded(after(tiny, ids[:-1]), ids[-1], 12)
    assert text.tokens(3, 2) == want[3:5]
    assert text.tokens(0, 12) == want
    assert text.tokens(5, 0) == []


def test_refusals(tiny: Model) -> None:
    with pytest.raises(ValueError, match=r"got acceptance 1\.1, 4 rows, 4 cells a b"):
        price(1.1)
    with pytest.raises(
        ValueError, match=r"0 rows.*wanted 0 to 1, 1 or more, 1 or more"
    ):
        stationary(0.5, rows=0)
    with pytest.raises(ValueError, match=r"1 windows; wanted .*, 2 or more"):
        simulate(0.5, contained=True, windows=1, seed=0)
    with pytest.raises(ValueError, match="`prompt` is empty, wanted 1 token or more"):
        GreedyText(tiny, [])
    with pytest.raises(ValueError, match="1 windows"):
        measure(GreedyText(tiny, [1]), 0.5, contained=True, windows=1, seed=0)
