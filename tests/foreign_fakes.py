"""Small engines in NumPy, sound or broken, for the gate that looks from outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strata_nb.gates.foreign import RefusedError

V = 11
PROMPT = [int(i) for i in np.random.default_rng(5).integers(0, V, 20)]


class Fake:
    """A recurrent state, written in place; each defect is a branch."""

    def __init__(self, defect: str = "") -> None:
        rng = np.random.default_rng(0)
        self.enter, self.mix = rng.normal(size=(V, 6)), 0.3 * rng.normal(size=(6, 6))
        self.head, self.defect = rng.normal(size=(6, V)), defect
        self.state = np.zeros(6)
        self.past: list[np.ndarray] = []

    def reset(self) -> None:
        if self.defect != "reset keeps the state":
            self.state = np.zeros(6)

    def feed(self, tokens: Sequence[int]) -> None:
        self.past, self.rows = [], []
        if self.defect == "the width counts" and len(tokens) == 5:
            self.state *= 1.05
        for token in tokens:
            self.past.append(self.state.copy())
            self.state[:] = np.tanh(self.mix @ self.state + self.enter[token])
            self.rows.append(self.state @ self.head)

    def logits(self) -> np.ndarray:
        return np.array(self.rows)


class Trims(Fake):
    """Drops rows of the last window."""

    def trim(self, count: int) -> Any:
        if self.defect == "it refuses":
            raise RefusedError("rows never go")
        if self.defect == "it fails":
            raise KeyError("rows")
        if self.defect == "it says 0":
            return 0
        if self.defect == "nothing happens":
            return None
        self.state = self.past[len(self.past) - count].copy()
        if self.defect == "it refuses too late":
            raise RefusedError("rows never go")
        if self.defect == "one row stays":
            self.state = (*self.past, self.state)[len(self.past) - count + 1].copy()
        if self.defect == "it leaves NaN":
            self.state[0] = np.nan
        return "gone" if self.defect == "it says gone" else count


class Saves(Fake):
    """Goes back to where it was saved."""

    def save(self) -> Any:
        if self.defect == "it refuses to save":
            raise OSError("the disk is full")
        return self.state if self.defect == "save aliases" else self.state.copy()

    def restore(self, saved: Any) -> bool | None:
        if self.defect == "it says False":
            return False
        if self.defect == "the state is not put back":
            return None
        self.state = saved if self.defect == "restore aliases" else saved.copy()
        return None


class Deaf(Saves):
    """Its logits are those of the last token alone."""

    def feed(self, tokens: Sequence[int]) -> None:
        self.rows = list(self.enter[list(tokens)] @ self.head)


class Breaks(Saves):
    """Cannot go on after a restore."""

    def restore(self, saved: Any) -> None:
        del self.rows

    def feed(self, tokens: Sequence[int]) -> None:
        if self.past and not hasattr(self, "rows"):
            self.rows = []
            raise IndexError("no rows")
        super().feed(tokens)


class Rounds(Saves):
    """Two tokens share the top; which is higher depends on rounding."""

    def feed(self, tokens: Sequence[int]) -> None:
        super().feed(tokens)
        for row in self.rows:
            row[0] = row[1] = 9.0
            row[0] += 1e-7 * (len(tokens) - 2)


class Noisy(Saves):
    """Adds random numbers to its logits; a large size leaves nothing else."""

    def __init__(self, size: float, *, seed: int = 1) -> None:
        super().__init__()
        self.rng, self.size = np.random.default_rng(seed), size

    def logits(self) -> np.ndarray:
        rows: np.ndarray = super().logits()
        rows += self.size * self.rng.normal(size=rows.shape)
        return rows


class Wide(Fake):
    """Gives the last row alone."""

    def logits(self) -> np.ndarray:
        last: np.ndarray = super().logits()[-1]
        return last
