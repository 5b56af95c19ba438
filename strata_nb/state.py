"""State as named arrays: digests, differences, and the file of a saved engine."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from strata_nb.errors import SavedStateError
from strata_nb.files import write_bytes
from strata_nb.parts import digest_leaves
from strata_nb.trace import Leaf

Leaves: TypeAlias = Mapping[Leaf, np.ndarray]

FORMAT = "strata-nb state 2"


def digests(leaves: Leaves, *, position: int) -> dict[str, str]:
    """SHA-256 of each part over all its layers; of the position its number.

    Args:
        leaves: live cells of every part.
        position: committed cells.
    """
    parts: dict[str, dict[str, np.ndarray]] = {}
    for leaf, array in leaves.items():
        parts.setdefault(leaf.part, {})[_name(leaf)] = array
    found = {part: digest_leaves(arrays) for part, arrays in sorted(parts.items())}
    return {"position": str(position), **found}


@dataclass(frozen=True)
class Difference:
    """Where two states part.

    Attributes:
        part: kind of state.
        layer: 0-based, None for a part of the whole sequence.
        field: array of the part.
        cell: the absolute cell of the first row that differs; None where a part has
            no cells, before the start, or where the shapes differ.
        size: largest absolute difference, of the numbers as stored (packed words where
            K and V are kept in 8 bits); infinite where the shapes differ.
    """

    part: str
    layer: int | None
    field: str
    cell: int | None
    size: float


def differences(
    first: Leaves, second: Leaves, *, position: int, ratio: int, atol: float
) -> list[Difference]:
    """Every leaf that differs by more than `atol`, in order of part and layer.

    Args:
        first: leaves of one state.
        second: leaves of the other.
        position: committed cells of the first, to name cells.
        ratio: cells a block, R.
        atol: largest absolute difference that still counts as none; NaN differs.
    """
    found = []
    for leaf in sorted({*first, *second}, key=_order):
        one, other = first.get(leaf), second.get(leaf)
        if one is None or other is None or one.shape != other.shape:
            found.append(Difference(*leaf, cell=None, size=float("inf")))
            continue
        gaps = np.abs(one.astype(np.float64) - other.astype(np.float64))
        bad = ~(gaps <= atol)
        if bad.any():
            row = int(np.argwhere(bad)[0][0])
            cell = _cell(leaf.part, row, len(one), position=position, ratio=ratio)
            size = float(gaps.max()) if not np.isnan(gaps).any() else float("nan")
            found.append(Difference(*leaf, cell=cell, size=size))
    return found


def _cell(part: str, row: int, rows: int, *, position: int, ratio: int) -> int | None:
    if part == "gdn_state":
        return None
    if part in ("kv", "mtp_kv"):
        return row
    if part in ("qsa_blocks", "mtp_qsa_blocks"):
        return row * ratio
    if part == "mtp_qsa_tail":
        # The head's rows end one cell before the others'.
        position -= 1
    # The others end with the last committed cell; before the start there is none.
    cell = position - rows + row
    return cell if cell >= 0 else None


def _order(leaf: Leaf) -> tuple[str, int, str]:
    return leaf.part, -1 if leaf.layer is None else leaf.layer, leaf.field


@dataclass(frozen=True)
class SavedState:
    """The content of a saved engine.

    Attributes:
        leaves: live cells of every part.
        position: committed cells.
        root: the next root, None when none is decided.
        identity: what an engine must share to take the state: model, K/V kind, dtype.
    """

    leaves: dict[Leaf, np.ndarray]
    position: int
    root: int | None
    identity: dict[str, str]

    def parted(self, part: str) -> tuple[Leaves, Leaves]:
        """The leaves that are not of `part`, and those that are."""
        ours = {x: a for x, a in self.leaves.items() if x.part != part}
        return ours, {x: a for x, a in self.leaves.items() if x.part == part}


def save_state(path: str | os.PathLike[str], saved: SavedState) -> None:
    """Write one safetensors file, whole or not at all; what it says is in its header.

    Raises:
        OSError: the file cannot be written; an older one survives.
    """
    head = {
        "format": FORMAT,
        "position": saved.position,
        "root": saved.root,
        "identity": saved.identity,
        "digests": _told(saved.leaves, saved.position, saved.root),
    }
    arrays = {_name(leaf): np.ascontiguousarray(a) for leaf, a in saved.leaves.items()}
    write_bytes(path, to_safetensors(arrays, metadata={"strata": json.dumps(head)}))


def load_state(
    path: str | os.PathLike[str], *, identity: Mapping[str, str]
) -> SavedState:
    """Read a saved state that an engine of `identity` may take.

    Raises:
        SavedStateError: no such file, another format, an altered part, or a state of
            another model or kind of K and V; the message says which.
        OSError: the file cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise SavedStateError(f"there is no saved engine at {file}; name a file")
    head, leaves = _read(file)
    for key, wanted in identity.items():
        # Files that are older than the draft head say nothing of it.
        got = head["identity"].get(key, "off" if key == "mtp" else None)
        if got != wanted:
            raise SavedStateError(
                f"{file.name} was saved with {key} {got!r}, this engine has {wanted!r};"
                f" restore it into an engine with {key} {got!r}"
            )
    found = _told(leaves, head["position"], head["root"])
    for part in sorted({*found, *head["digests"]}):
        if found.get(part) != head["digests"].get(part):
            raise SavedStateError(
                f"{part} in {file.name} is not what was saved: the file was altered or "
                "is damaged; save it again"
            )
    return SavedState(leaves, head["position"], head["root"], head["identity"])


def _told(leaves: Leaves, position: int, root: int | None) -> dict[str, str]:
    """What the header says of the content, so that any change of it shows."""
    return {**digests(leaves, position=position), "root": str(root)}


def _read(file: Path) -> tuple[dict[str, Any], dict[Leaf, np.ndarray]]:
    try:
        with safe_open(file, framework="np") as tensors:
            text = (tensors.metadata() or {}).get("strata")
            head = json.loads(text) if text else {}
            if not isinstance(head, dict):
                raise TypeError("its header is no object")
            if head.get("format") != FORMAT:
                raise SavedStateError(
                    f"{file.name} has format {head.get('format')!r}, wanted "
                    f"{FORMAT!r}; save the engine again with this version"
                )
            leaves = {_leaf(n): tensors.get_tensor(n) for n in tensors.keys()}  # noqa: SIM118
            _check_head(head)
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise SavedStateError(
            f"{file.name} cannot be read as a saved engine ({error}): it is truncated "
            "or damaged; save it again"
        ) from error
    return head, leaves


def _check_head(head: Mapping[str, Any]) -> None:
    position, root = head["position"], head["root"]
    if type(position) is not int or position < 0:
        raise ValueError(f"position {position!r}")
    if root is not None and type(root) is not int:
        raise ValueError(f"root {root!r}")
    if not isinstance(head["identity"], dict) or not isinstance(head["digests"], dict):
        raise TypeError("identity or digests")


def _name(leaf: Leaf) -> str:
    layer = "-" if leaf.layer is None else str(leaf.layer)
    return f"{leaf.part}/{layer}/{leaf.field}"


def _leaf(name: str) -> Leaf:
    part, layer, field = name.split("/")
    leaf = Leaf(part, None if layer == "-" else int(layer), field)
    if _name(leaf) != name:
        raise ValueError(f"a leaf is named {name!r}")
    return leaf
