"""Damaged files either open or raise a CheckpointError, whatever the damage."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

import tiny
from strata_nb.errors import CheckpointError
from strata_nb.packs import open_checkpoint
from tiny import small_config

SECONDS = 1.2  # for each test: as many cases as fit, of one seeded sequence


def opens(folder: Path) -> bool:
    message = ""
    try:
        open_checkpoint(folder)
    except CheckpointError as error:
        message = str(error)
    assert message.isprintable()  # nothing hostile reaches a terminal
    return not message


def _flip(rng: random.Random, data: bytearray, below: int) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(below)] = rng.choice((rng.randrange(256), *b'0129",:{}[]-'))


def _cut(rng: random.Random, data: bytearray, below: int) -> None:
    start = rng.randrange(below)
    del data[start : start + rng.choice((1, 2, 100, len(data)))]


def _repeat(rng: random.Random, data: bytearray, below: int) -> None:
    start = rng.randrange(below)
    data[start:start] = data[start : start + rng.randrange(1, 300)]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "index"])
def test_damaged_bytes(tmp_path: Path, name: str) -> None:
    files = 2 if name == "index" else 1
    folder = tiny.write_checkpoint(tmp_path, small_config(), 0, files=files)
    path = folder / (name if files == 1 else "model.safetensors.index.json")
    whole = path.read_bytes()
    below = len(whole)
    if name == "model.safetensors":
        below = 8 + int.from_bytes(whole[:8], "little")
    rng = random.Random(7)
    refusals, stop = 0, time.monotonic() + SECONDS
    while time.monotonic() < stop:
        data = bytearray(whole)
        rng.choice((_flip, _flip, _cut, _repeat))(rng, data, below)
        path.write_bytes(data)
        refusals += not opens(folder)
    assert refusals > 20


_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3, 2**31, 10**40, 1.5, 1e308, float("nan"), "", "silu", "\ud800",
    [], [None], [[]], [1, 2], {}, {"a": 1}, [1] * 1000, "x" * 5000,
)  # fmt: skip


def test_odd_values_in_every_key(tmp_path: Path) -> None:
    config = small_config()
    folder = tiny.write_checkpoint(tmp_path, config, 0)
    rng = random.Random(11)
    keys = [*config, "text_config", "quantization", "full_attention_interval", "x"]
    refusals, stop = 0, time.monotonic() + SECONDS
    while time.monotonic() < stop:
        odd = config | {rng.choice(keys): rng.choice(_ODD)}
        if rng.random() < 0.3:
            rope = odd["rope_parameters"]
            if isinstance(rope, dict) and rope:
                odd["rope_parameters"] = rope | {rng.choice([*rope]): rng.choice(_ODD)}
        if rng.random() < 0.2:
            odd = {"model_type": "qwen4_exp", "text_config": odd, "eos_token_id": 1}
        (folder / "config.json").write_text(json.dumps(odd))
        refusals += not opens(folder)
    assert refusals > 20


def test_odd_values_in_the_text_files(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, small_config(), 0)
    for name, key in (
        ("generation_config.json", "eos_token_id"),
        ("tokenizer_config.json", "eos_token"),
        ("tokenizer_config.json", "added_tokens_decoder"),
        ("tokenizer_config.json", "chat_template"),
        ("tokenizer.json", "added_tokens"),
        ("tokenizer.json", "model"),
    ):
        for value in _ODD:
            text = json.dumps({"eos_token": "<e>", "x": 1} | {key: value})
            (folder / name).write_text(text)
            opens(folder)
        (folder / name).write_text("{}")
