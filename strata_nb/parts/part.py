"""What every kind of state can do: run, commit, digest, save and restore."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

import mlx.core as mx
import numpy as np

Committed = TypeVar("Committed")
Pending = TypeVar("Pending")


class Part(ABC, Generic[Committed, Pending]):
    """One kind of state of one layer (or of the whole sequence).

    A part object holds shapes only; the state itself is an immutable value that `run`
    reads and never changes, so a window that is dropped leaves nothing behind.
    `run` differs from part to part in what it takes; every one of them takes the
    committed value and returns what the layer needs and the pending value.
    """

    name: str

    @abstractmethod
    def initial(self) -> Committed:
        """The state of an empty sequence."""

    @abstractmethod
    def commit(self, committed: Committed, pending: Pending, *, keep: int) -> Committed:
        """The state after the first `keep` rows of the window."""

    def chain(self, committed: Committed, pending: Pending) -> Committed:
        """The state behind one drafted row: for this draft alone, and then dropped."""
        return self.commit(committed, pending, keep=1)

    def settle(self, committed: Committed) -> Committed:
        """The same state with nothing left to fold."""
        return committed

    def filled(self, committed: Committed, value: float) -> Committed:
        """The same live cells; every stored cell that is not live holds `value`.

        Every sound part stores live cells alone, so it has nothing to fill.
        """
        return committed

    @abstractmethod
    def leaves(self, committed: Committed) -> dict[str, mx.array]:
        """Live cells by field name; `committed` is settled."""

    @abstractmethod
    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Shape of each leaf when `n` cells are committed."""

    @abstractmethod
    def restore(self, leaves: Mapping[str, mx.array]) -> Committed:
        """The state whose `leaves` these are."""

    def digest(self, committed: Committed) -> str:
        """SHA-256 of the live cells, hexadecimal."""
        leaves = self.leaves(self.settle(committed))
        return digest_leaves({k: numpy_leaf(v) for k, v in leaves.items()})


def numpy_leaf(leaf: mx.array) -> np.ndarray:
    """A NumPy copy; bfloat16, which NumPy lacks, widens exactly to float32."""
    if leaf.dtype == mx.bfloat16:
        leaf = leaf.astype(mx.float32)
    return np.array(leaf)


def digest_leaves(leaves: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes, in the order of the names."""
    sha = hashlib.sha256()
    for name in sorted(leaves):
        leaf = np.ascontiguousarray(leaves[name])
        sha.update(f"{name}:{leaf.dtype.str}:{leaf.shape}:".encode())
        sha.update(leaf.tobytes())
    return sha.hexdigest()
