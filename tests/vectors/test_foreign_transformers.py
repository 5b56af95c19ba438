"""The gate for other engines on transformers, in the environment of `make parity`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata_nb.gates.adapters.transformers import Transformers
from strata_nb.gates.foreign import CanSave, CanTrim, examine
from tiny import small_config, write_checkpoint

torch = pytest.importorskip(
    "torch", reason="PyTorch is not in this environment; `make parity` runs this file"
)


# Models this small gain nothing by threads, and lose much where cores are shared.
torch.set_num_threads(1)


def words(length: int, *, vocabulary: int = 97) -> list[int]:
    rng = np.random.default_rng(7)
    return [int(i) for i in rng.integers(0, vocabulary, length)]


@pytest.fixture(scope="module")
def dense() -> Any:
    """A small random Qwen3: keys and values alone."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        # The usual 0.02 leaves logits of which all are nearly equal.
        initializer_range=0.3,
    )
    return Qwen3ForCausalLM(config)


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The smallest of our models, as transformers' own Qwen4-Exp reads it."""
    from vectors.reference import load

    folder: Path = tmp_path_factory.mktemp("small")
    return load(write_checkpoint(folder, small_config(), seed=2))


def test_a_cache_of_keys_and_values_is_cropped_and_restored(dense: Any) -> None:
    engine = Transformers(dense)
    assert isinstance(engine, CanTrim)
    assert isinstance(engine, CanSave)
    report = examine(engine, prompt=words(20), reference=engine.twin())
    assert report.having("fault") == report.refusals == ()
    assert report.bounds.floor is not None
    assert 0 < report.bounds.floor < 1e-4
    assert report.engine == "transformers qwen3 torch.float32"


def test_a_hybrid_cache_is_restored_and_refuses_to_be_cropped(hybrid: Any) -> None:
    engine = Transformers(hybrid)
    report = examine(
        engine,
        prompt=words(12, vocabulary=17),
        reference=engine.twin(),
        families=["widths", "rounds", "resume"],
    )
    assert report.having("fault") == ()
    assert report.bounds.floor is not None
    refused = report.refusals
    assert {dict(o.case.params)["way"] for o in refused} == {"trim"}
    assert {o.words for o in refused} == {
        "`trim` says: transformers cannot crop this cache, because of "
        "LinearAttentionLayer; nothing had changed by then"
    }


class Records(Transformers):
    """Lets the cache record its past, and crops whatever `is_croppable` says."""

    def reset(self) -> None:
        super().reset()
        self.cache.activate_past_recording()

    def trim(self, count: int) -> None:
        self.cache.crop(-count)


class Shallow(Transformers):
    """Takes the cache itself for a copy of it."""

    def save(self) -> Any:
        return self.cache


def test_a_crop_of_a_recurrent_state_is_a_fault(hybrid: Any) -> None:
    prompt = words(12, vocabulary=17)
    report = examine(Records(hybrid), prompt=prompt, families=["rounds"])
    trims = [o for o in report.outcomes if o.case["way"] == "trim"]
    assert {o.verdict for o in trims} == {"fault"}
    # The rows of the convolutions go, the recurrent state stays as it was.
    engine = Records(hybrid)
    engine.feed(prompt)
    (layer,) = (x for x in engine.cache.layers if not x.is_croppable)
    before = layer.recurrent_states[0].clone()
    rows = layer.conv_states[0].shape[-1]
    engine.trim(3)
    assert layer.conv_states[0].shape[-1] < rows
    assert torch.equal(layer.recurrent_states[0], before)


def test_a_cache_that_is_no_copy_is_a_fault(dense: Any) -> None:
    report = examine(Shallow(dense), prompt=words(12), families=["resume"])
    assert {o.verdict for o in report.outcomes} == {"fault"}
