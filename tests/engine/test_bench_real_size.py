"""`strata-nb bench real-size`, at sizes for any machine."""

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from strata_nb.bench import real_size
from strata_nb.bench.random_model import (
    RELEASED,
    SMALL,
    RandomWeights,
    backend,
    engine_at,
)
from strata_nb.cli import main
from strata_nb.packs.manifest import tensor_shapes


def test_it_writes_a_figure_for_each_kind_of_window(tmp_path: Path) -> None:
    path = tmp_path / "real.json"
    options = ["--contexts", "100", "--rounds", "1", "--rows", "1", "4"]
    options += ["--sizes", "small", "--kernels", "reference", "--json", str(path)]
    assert main(["bench", "real-size", *options]) == 0
    told = json.loads(path.read_text(encoding="utf-8"))
    kinds = {(f["routing"], f["rows"]) for f in told["figures"]}
    assert kinds == {(r, t) for r in ("own", "spread") for t in (1, 4)}
    unions = {(f["routing"], f["rows"]): f["union"] for f in told["figures"]}
    assert unions["own", 1] == SMALL.num_experts_per_tok
    assert [c["twin differs in"] for c in told["checks"]] == [[]]


def test_weights_are_the_same_from_their_names_and_fit_the_sizes() -> None:
    one, other = RandomWeights(SMALL), RandomWeights(SMALL)
    names = ["lm_head.weight", "layers.0.mlp.gate.weight"]
    first, second = (one.read(n) for n in names)
    assert mx.array_equal(first, other.read(names[0]))
    assert not mx.array_equal(first[:32], second)
    assert first.shape == (SMALL.vocab_size, SMALL.hidden_size)


def test_a_state_of_random_numbers_is_right_for_the_engine() -> None:
    engine = engine_at(backend(RandomWeights(SMALL)), 90)
    window = engine.run([1, 2, 3])
    assert window.start == engine.position == 90
    assert np.isfinite(window.logits).all()


def test_a_twin_that_differs_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(real_size, "_twin", lambda start: ["kv"])
    options = ["--contexts", "20", "--rounds", "1", "--rows", "1"]
    options += ["--sizes", "small", "--kernels", "reference"]
    assert main(["bench", "real-size", *options]) == 1


def test_the_released_sizes_have_the_released_number_of_weights() -> None:
    shapes = tensor_shapes(RELEASED)
    experts = sum(int(np.prod(s)) for n, s in shapes.items() if ".experts." in n)
    assert experts == 120_795_955_200
