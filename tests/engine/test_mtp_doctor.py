"""What `doctor` says of a draft head."""

from pathlib import Path

import pytest

from heads import write_with_head
from strata_nb import Model, load
from strata_nb.doctor.draft_head import HeadFound, look
from tiny import small_config


def test_the_bundled_head_is_on(trained: Model) -> None:
    found = look(trained, cells=8)
    assert found.why_not is None
    assert len(found.ratios) == trained.config.hc_count
    assert len(found.drafted) == 2
    assert found.text.startswith("MTP on (whole, position t); streams ")


def test_it_is_off_and_says_why(small: Model, tmp_path: Path) -> None:
    assert look(small).text == (
        "MTP off: the checkpoint has no draft head (no tensor `mtp.*`)"
    )
    name = "mtp.fc_hidden.weight"
    part = load(write_with_head(tmp_path, small_config(), 2, without=(name,)))
    assert look(part).text == f"MTP off: its draft head lacks `{name}`"


@pytest.mark.parametrize(("ratio", "moot"), [(1.04, True), (1.06, False)])
def test_equal_streams_make_the_reading_moot(ratio: float, moot: bool) -> None:
    assert ("moot" in HeadFound(None, (1.0, ratio)).text) == moot
