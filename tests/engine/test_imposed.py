"""Decisions imposed from outside: they act where they are named, and nowhere else."""

import numpy as np
import pytest

from helpers import after, assert_same, prompt
from strata_nb import Model
from strata_nb.gates.judge.observed import see
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.policies.routing import NATURAL, FewerExperts

START = 24


def test_imposing_what_was_chosen_changes_no_bit(tiny: Model) -> None:
    ids = prompt(tiny, START, seed=1)
    plain = after(tiny, ids)
    seen = see(plain, [3, 5, 7], keep=3)
    layers = range(tiny.config.num_hidden_layers)
    experts = {(i, c): row.layers[i].experts for i in layers for c, row in seen.items()}
    blocks = {
        (i, c): row.layers[i].blocks
        for i in layers
        for c, row in seen.items()
        if row.layers[i].blocks is not None
    }
    assert blocks
    imposed = Imposed(experts, blocks)  # type: ignore[arg-type]
    engine = after(tiny, ids, imposed=imposed)
    again = see(engine, [3, 5, 7], keep=3)
    assert_same(engine, plain)
    for cell, row in seen.items():
        np.testing.assert_array_equal(again[cell].logits, row.logits)


def test_an_imposed_choice_is_taken_in_its_layer_and_cell(tiny: Model) -> None:
    wanted = np.array([9, 2, 15, 4])
    imposed = Imposed({(2, START + 1): wanted})
    engine = after(tiny, prompt(tiny, START, seed=1), imposed=imposed)
    seen = see(engine, [3, 5, 7], keep=3)
    np.testing.assert_array_equal(seen[START + 1].layers[2].experts, wanted)
    plain = see(after(tiny, prompt(tiny, START, seed=1)), [3, 5, 7], keep=3)
    np.testing.assert_array_equal(seen[START].logits, plain[START].logits)
    assert (seen[START + 1].logits != plain[START + 1].logits).any()


@pytest.mark.parametrize(
    "ids",
    [
        [0, 1, 2, 16],
        [0, 1, 2, -1],
        [0, 1, 1, 2],
        [0, 1, 2],
        [0.5, 1.0, 2.0, 3.0],
        [[0, 1, 2, 3]],
        3,
    ],
)
def test_experts_that_the_model_could_not_choose_are_refused(
    tiny: Model, ids: object
) -> None:
    imposed = Imposed({(0, START): np.array(ids)})
    engine = after(tiny, prompt(tiny, START, seed=1), imposed=imposed)
    before = engine.digests()
    with pytest.raises(ValueError, match="wanted 4 different whole numbers from 0 to"):
        engine.run([3, 5])
    assert engine.digests() == before


@pytest.mark.parametrize("ids", [[0, 1, 2, 6], [0, 1, 2, -1], [0, 0, 1, 2]])
def test_blocks_that_are_not_there_are_refused(tiny: Model, ids: list[int]) -> None:
    imposed = Imposed(blocks={(3, START): np.array(ids)})
    engine = after(tiny, prompt(tiny, START, seed=1), imposed=imposed)
    with pytest.raises(ValueError, match="layer 3, cell 24, wanted 4 different whole"):
        engine.run([3, 5])


def test_anything_else_is_refused(tiny: Model) -> None:
    with pytest.raises(TypeError, match="`imposed` wants an Imposed, got dict"):
        tiny.engine(imposed={})  # type: ignore[arg-type]


def test_fewer_experts_are_fewer_and_say_so(tiny: Model) -> None:
    engine = after(tiny, prompt(tiny, 5), routing=FewerExperts(by=3))
    seen = see(engine, [3], keep=1)
    assert {len(layer.experts) for layer in seen[5].layers} == {1}
    assert engine.options["routing"] == "top-(k-3), approximate"
    assert NATURAL.lossless
    assert not FewerExperts().lossless


@pytest.mark.parametrize("by", [0, -1, True])
def test_how_many_fewer_is_checked(by: int) -> None:
    with pytest.raises(ValueError, match="wanted 1 or more experts to leave out"):
        FewerExperts(by=by)
