"""What was reported of other engines, as cases of a gate."""

from itertools import groupby

import pytest

from strata_nb import Model
from strata_nb.gates import known
from strata_nb.gates.records import CaseResult
from strata_nb.gates.stage.rig import Rig
from strata_nb.session import generate


def results(rig: Rig, *families: str) -> list[CaseResult]:
    cases = known.cases(rig.model.config, "quick", 4096)
    chosen = [c for c in cases if not families or c.family in families]
    chosen.sort(key=lambda c: c.group)
    return [
        result
        for _, group in groupby(chosen, key=lambda c: c.group)
        for result in known.run(list(group), rig)
    ]


def test_none_of_it_happens_here(wide: Model) -> None:
    found = results(Rig(wide))
    assert {r.case.family for r in found} == set(known.REPORTS)
    assert [(r.case.id, r.cause) for r in found if r.verdict != "same"] == []


@pytest.mark.parametrize(
    ("fault", "family"),
    [
        ("gdn_no_rewind", "rewind-did-nothing"),
        ("qsa_ring", "index-left-ahead"),
        ("kv_shared_scale", "rewind-in-a-group"),
        ("gdn_parity", "stale-after-plain"),
        ("gdn_conv_no_rewind", "convolutions-kept"),
        ("ple_conv_no_rewind", "convolutions-kept"),
        ("gdn_partial_offset", "replay-saw-less"),
    ],
)
def test_each_would_be_seen(wide: Model, fault: str, family: str) -> None:
    found = results(Rig(wide, fault=fault), family)
    assert "fault" in {r.verdict for r in found}


def test_more_tokens_than_asked_for_would_be_seen(
    wide: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(*args: object, max_new: int, **how: object) -> object:
        return generate(*args, max_new=max_new + 1, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(known, "generate", one_more)
    found = results(Rig(wide), "more-than-asked-for")
    assert {r.verdict for r in found} == {"fault"}


def test_the_full_profile_has_every_border(wide: Model, small: Model) -> None:
    cases = known.cases(wide.config, "full", 4096)
    groups = [c for c in cases if c.family == "rewind-in-a-group"]
    assert {(c["cells"], c["keep"]) for c in groups} == {
        (cells, keep) for cells in range(60, 69) for keep in range(1, 7)
    }
    # Heads of 16 features cannot be kept in 8 bits.
    cases = known.cases(small.config, "full", 4096)
    assert "rewind-in-a-group" not in {c.family for c in cases}
