"""What is compared: random small models, strata-tiny, and three models for mistakes."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import tiny
from vectors.golden import BUNDLED_BOUND, RANDOM_BOUND, Golden, Ints
from vectors.texts import TEXTS

FOLDER = Path(__file__).parent / "golden"
BUNDLED = Path(__file__).parents[2] / "strata_nb" / "data" / "strata-tiny"
# Seed of `tiny.random_config(i)` is 10 i plus this: of three tried the one whose
# selections lie furthest from a tie, so that rounding flips none.
SEED_OFFSETS = (0, 0, 2, 2, 1, 2, 2, 1, 2, 1, 1, 0, 1, 1, 1, 0, 1, 0, 2, 1)
RANDOM_ROWS = 97
# First token of each prompt that is run, chosen for the same reason.
FIRST_TOKEN = {"code": 3, "edit": 6, "prose": 10}
STRIDE = 16  # of the 4096 columns of strata-tiny


@dataclass(frozen=True)
class Case(ABC):
    """One model and one prompt.

    Attributes:
        name: also of the file that holds the reference's answer.
        bound: the worst logit error allowed.
        stride: columns of the logits that are stored (`golden.thin`).
    """

    name: str
    bound: float
    stride: int

    @property
    def path(self) -> Path:
        """Where the reference's answer is kept."""
        return FOLDER / f"{self.name}.npz"

    def golden(self) -> Golden:
        """The reference's answer as committed."""
        return Golden.load(self.path)

    @abstractmethod
    def checkpoint(self, scratch: Path) -> Path:
        """The model's folder, written below `scratch` unless it lies ready."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Of the weights: tells a changed model from a wrong answer."""

    @abstractmethod
    def prompt(self) -> Ints:
        """The ids, as they were when the reference's answer was stored."""


@dataclass(frozen=True)
class RandomCase(Case):
    """A random model.

    Attributes:
        config, seed: of the model, for `tiny`.
        key_size: factor of the delta nets' query and key maps.
    """

    config: tiny.Config
    seed: int
    key_size: float = 1.0

    def tensors(self) -> tiny.Tensors:
        """The weights by canonical name."""
        tensors = tiny.tensors(self.config, self.seed)
        heads = self.config["linear_num_key_heads"] * self.config["linear_key_head_dim"]
        for name in tensors:
            if name.endswith("in_proj_qkv.weight"):
                tensors[name][: 2 * heads] *= np.float32(self.key_size)
        return tensors

    def checkpoint(self, scratch: Path) -> Path:
        """Written by `tiny`, then the changed tensors over it."""
        folder = tiny.write_checkpoint(scratch / self.name, self.config, self.seed)
        if self.key_size != 1.0:
            # Canonical names are those of the fused layout, which every reader takes.
            stored = {
                name if name.startswith("lm_head") else f"model.{name}": array
                for name, array in self.tensors().items()
            }
            tiny.write_files(folder, stored)
        return folder

    def fingerprint(self) -> str:
        """Over names and numbers."""
        digest = hashlib.sha256()
        for name, array in sorted(self.tensors().items()):
            digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()

    def prompt(self) -> Ints:
        """Ids drawn evenly, four of them replaced by the end-of-sequence id."""
        rng = np.random.default_rng(self.seed + 1000)
        ids = rng.integers(0, self.config["vocab_size"], RANDOM_ROWS)
        ids[rng.choice(RANDOM_ROWS, 4, replace=False)] = self.config["eos_token_id"]
        return ids


@dataclass(frozen=True)
class BundledCase(Case):
    """strata-tiny on one of `texts.TEXTS`."""

    text: str

    def checkpoint(self, scratch: Path) -> Path:
        """The folder inside the package."""
        return BUNDLED

    def fingerprint(self) -> str:
        """Over the weight files."""
        digest = hashlib.sha256()
        for file in sorted(BUNDLED.glob("model-0*.safetensors")):
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def prompt(self) -> Ints:
        """The text's tokens from `FIRST_TOKEN` on."""
        tokenizer = Tokenizer.from_file(str(BUNDLED / "tokenizer.json"))
        return np.array(
            tokenizer.encode(TEXTS[self.text]).ids[FIRST_TOKEN[self.text] :]
        )


def _random(name: str, config: tiny.Config, seed: int, **more: float) -> RandomCase:
    return RandomCase(name, RANDOM_BOUND, 1, config, seed, **more)


RANDOM = tuple(
    _random(f"random_{i:02d}", tiny.random_config(i), 10 * i + offset)
    for i, offset in enumerate(SEED_OFFSETS)
)
STRATA_TINY = tuple(
    BundledCase(f"strata_tiny_{text}", BUNDLED_BOUND, STRIDE, text)
    for text in FIRST_TOKEN
)
EDIT = STRATA_TINY[1]  # the one with an end of sequence inside
# One model on which mistakes show, one with many equal block scores (a single index
# head leaves most of them at zero), one whose keys are so short that the epsilon of
# their norm shows.
MISTAKES = _random("mistakes", tiny.tiny_config(num_experts=32), 2)
TIES = _random("ties", tiny.tiny_config(num_experts=32, indexer_n_heads=1), 5)
SHORT_KEYS = _random("short_keys", tiny.tiny_config(num_experts=32), 4, key_size=0.03)
ALL: tuple[Case, ...] = (*RANDOM, *STRATA_TINY, MISTAKES, TIES, SHORT_KEYS)
