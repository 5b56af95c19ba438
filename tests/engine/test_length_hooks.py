"""A length policy may cut a draft that is there, and learns what windows came to."""

from dataclasses import dataclass, field

import pytest

from strata_nb import Model
from strata_nb.draft import Adversary, Perfect
from strata_nb.policies import Offer, Paid
from strata_nb.policies.length import cut_by, paid_for
from strata_nb.session import Session

PROMPT = [5, 9, 3, 7, 5, 9, 3, 7]


@dataclass
class Cut:
    """Verifies at most one draft, and writes down what it is told."""

    at: int = 2
    name: str = "cut"
    offers: list[Offer] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        return most

    def cut(self, offer: Offer) -> int:
        self.offers.append(offer)
        return min(self.at, 1 + len(offer.tokens))

    def learn(self, paid: Paid) -> None:
        self.paid.append(paid)


def plain(model: Model, *, max_new: int) -> tuple[int, ...]:
    return tuple(Session(model).reply(PROMPT, max_new=max_new, stop_ids=()).tokens)


def test_a_draft_is_cut_before_it_runs_and_the_text_stays(tiny: Model) -> None:
    text = plain(tiny, max_new=12)
    policy = Cut()
    session = Session(tiny, drafter=Perfect([*PROMPT, *text]), length=policy)
    reply = session.reply(PROMPT, max_new=12, stop_ids=())
    assert tuple(reply.tokens) == text
    windows = [record for record in session.trace if not record.headless]
    assert max(record.T for record in windows) == 2
    assert max(len(offer.tokens) for offer in policy.offers) > 1
    assert [paid.rows for paid in policy.paid] == [record.T for record in windows]
    assert [paid.ms for paid in policy.paid] == [r.total_ms for r in windows]


def test_what_was_decided_ends_at_the_first_mismatch(tiny: Model) -> None:
    text = plain(tiny, max_new=9)
    policy = Cut(at=8)
    wrong = Adversary([*PROMPT, *text], tiny.config.vocab_size)
    session = Session(tiny, drafter=wrong, length=policy)
    assert tuple(session.reply(PROMPT, max_new=9, stop_ids=()).tokens) == text
    drafted = [paid for paid in policy.paid if paid.rows > 1]
    assert drafted
    assert {(paid.keep, paid.decided) for paid in drafted} == {(1, 1)}


def test_a_window_that_kept_all_decided_all(tiny: Model) -> None:
    text = plain(tiny, max_new=12)
    session = Session(tiny, drafter=Perfect([*PROMPT, *text]))
    session.reply(PROMPT, max_new=12, stop_ids=())
    for record in session.trace:
        if not record.headless and record.keep == record.T:
            assert paid_for(record).decided == record.accepted


@pytest.mark.parametrize("rows", [0, -1, 4])
def test_rows_that_are_not_there_are_refused(rows: int) -> None:
    offer = Offer(position=3, tokens=(1, 2))
    with pytest.raises(ValueError, match=rf"'cut' wants {rows} rows, wanted 1 to 3"):
        cut_by(Often(rows), offer)


@dataclass
class Often(Cut):
    """Answers with a number, whatever there is."""

    def cut(self, offer: Offer) -> int:
        return self.at
