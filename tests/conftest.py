"""Models that many tests share; each is written and loaded once."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import strata_nb
from heads import write_with_head
from tiny import random_config, small_config, tiny_config, write_checkpoint

# A shell lets what it starts in the background ignore interrupts; tests of interrupts
# want them whoever started the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A machine that is slow or busy is no error, and what fails once has to fail again.
settings.register_profile(
    "repeats",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeats")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("tiny"), tiny_config(), seed=1)


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> strata_nb.Model:
    """TINY: 8 layers, 16 experts, sparse attention from 20 cells on."""
    return strata_nb.load(tiny_folder)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> strata_nb.Model:
    """The smallest model that has every kind of layer."""
    folder = tmp_path_factory.mktemp("small")
    return strata_nb.load(write_checkpoint(folder, small_config(), seed=2))


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> strata_nb.Model:
    """Blocks of three cells, two PLE layers, other head counts."""
    config = next(
        c
        for c in map(random_config, range(24))
        if c["indexer_compress_ratio"] == 3 and len(c["ple_layer_ids"]) == 2
    )
    folder = tmp_path_factory.mktemp("odd")
    return strata_nb.load(write_checkpoint(folder, config, seed=3))


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> strata_nb.Model:
    """TINY with a draft head, and heads of 64: K and V can be kept in 8 bits."""
    folder = tmp_path_factory.mktemp("wide")
    config = tiny_config(head_dim=64, indexer_head_dim=32)
    return strata_nb.load(write_with_head(folder, config, seed=4))


@pytest.fixture(scope="session")
def trained() -> strata_nb.Model:
    """The bundled checkpoint."""
    # On a GPU the default would be bfloat16, whose rows differ by more.
    return strata_nb.load("strata-tiny", dtype="float32")
