"""What is remembered beside the engine: one text, in all places that remember it."""

import numpy as np
import pytest

from strata_nb import Model, Session
from strata_nb.draft import Sampled, SuffixLookup, SuffixTrees, Typed, history_of
from strata_nb.faults.drafters import KeepsRejected
from strata_nb.sampling import Bans, Penalties, Processors, Sampling, ThinkingBudget
from strata_nb.session.histories import Histories
from strata_nb.session.request import Transcript
from strata_nb.trace import Leaf

PAD = 0


def flat(token: object) -> np.ndarray:
    return np.full(5, 0.2)


def made(**how: object) -> Histories:
    return Histories.made(
        Sampling(),
        [Penalties(frequency=1.0), ThinkingBudget(7, 3), Processors(), Bans([1])],
        drafter=SuffixLookup(),
        pad_id=PAD,
        **how,  # type: ignore[arg-type]
    )


def test_all_hear_of_the_same_tokens_and_of_no_pad() -> None:
    one, other = made(), made()
    one.assign(Transcript((5, PAD, 6, 5, 8), 4))
    other.assign(Transcript((5, 6, 5), 3))
    other.append([8])
    got, wanted = one.leaves(), other.leaves()
    assert set(got) == set(wanted)
    for leaf, array in wanted.items():
        np.testing.assert_array_equal(got[leaf], array)
    assert got[Leaf("drafter", None, "history")].tolist() == [5, 6, 5, 8]
    assert got[Leaf("penalties", None, "0 seen")].tolist() == [[5, 2], [6, 1], [8, 1]]
    assert got[Leaf("penalties", None, "0 emitted")].tolist() == [[8, 1]]
    assert got[Leaf("penalties", None, "1 used")].tolist() == [1]
    assert got[Leaf("penalties", None, "2 tokens")].tolist() == [5, 6, 5, 8]


@pytest.mark.parametrize(
    ("drafter", "recalls"),
    [
        (SuffixLookup(), True),
        (SuffixTrees(), True),
        (Sampled(flat), True),
        (Typed(), False),
        (KeepsRejected(SuffixLookup()), True),
        (KeepsRejected(Typed()), False),
    ],
)
def test_drafters_show_their_history_or_have_none(
    drafter: SuffixLookup, recalls: bool
) -> None:
    drafter.assign([3, 4, 3])
    drafter.append([5])
    assert history_of(drafter) == ((3, 4, 3, 5) if recalls else None)
    leaves = Histories.made(Sampling(), drafter=drafter).leaves()
    assert (Leaf("drafter", None, "history") in leaves) == recalls


def test_a_session_shows_all_of_its_state(small: Model) -> None:
    session = Session(
        small, drafter=SuffixLookup(), adjustments=[Penalties(presence=0.1)]
    )
    before = session.leaves()
    session.reply([3, 4, 5, 3, 4], max_new=3, stop_ids=())
    after = session.leaves()
    parts = {leaf.part for leaf in after}
    assert parts >= {"kv", "penalties", "drafter"}
    history = after[Leaf("drafter", None, "history")]
    assert tuple(history) == session.tokens
    assert before[Leaf("drafter", None, "history")].size == 0


def test_a_fault_that_nothing_here_could_have_is_refused(small: Model) -> None:
    with pytest.raises(ValueError, match="is in a drafter, and there is none"):
        Session(small, fault="drafter_rejected_kept")
    with pytest.raises(ValueError, match="no fault is named 'rings'"):
        Session(small, fault="rings")
    assert Session(small, fault="qsa_ring").engine().options["fault"] == "qsa_ring"
