"""Whether a checkpoint has a draft head (MTP), whole, and what it lacks otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from strata_nb.packs.config import ModelConfig
from strata_nb.packs.json_file import quote
from strata_nb.packs.manifest import (
    FLOATS,
    expert_names,
    fused_names,
    is_draft_head,
    wanted_head,
)
from strata_nb.packs.safetensors_file import Entry

_NAMED = 5  # names that a message lists before it only counts
_ENOUGH = (
    64  # missing names that are looked for: a configuration may ask for any number
)


@dataclass(frozen=True)
class HeadLayout:
    """What the headers say of the draft head.

    Attributes:
        why_not: why it cannot be used, in words; None: it is there, all of it.
        fused: its experts are in one tensor.
    """

    why_not: str | None
    fused: bool = False


def check_head(
    config: ModelConfig, entries: Mapping[str, Entry], *, dtype: str
) -> HeadLayout:
    """Look for the draft head: all of its tensors or none.

    A head that is not whole is no error here: a model works without.

    Args:
        config: of the checkpoint.
        entries: every tensor by canonical name.
        dtype: of the model's floats, as the file spells it.
    """
    there = {name: e for name, e in entries.items() if is_draft_head(name)}
    if not there:
        return HeadLayout("the checkpoint has no draft head (no tensor `mtp.*`)")
    fused = any(name in there for name in fused_names(None))
    if fused and expert_names(None, 0)[0] in there:
        return HeadLayout("the experts of its draft head are there in two forms")
    missing, seen = [], set()
    for name, shape in wanted_head(config, fused=fused):
        entry = there.get(name)
        if entry is None:
            missing.append(name)
        elif entry.shape != shape:
            return HeadLayout(
                f"tensor {quote(name)} of its draft head wants shape {list(shape)} by "
                f"config.json, got {list(entry.shape)}"
            )
        elif not _is_float(entry, dtype):
            return HeadLayout(
                f"tensor {quote(name)} of its draft head wants dtype {dtype}, got "
                f"{entry.dtype}, and quantised heads are not read"
            )
        else:
            seen.add(name)
        if len(missing) > _ENOUGH:
            break
    if missing:
        return HeadLayout(f"its draft head lacks {_listing(missing)}")
    if extra := sorted(there.keys() - seen):
        return HeadLayout(f"its draft head has unknown tensors, {_listing(extra)}")
    return HeadLayout(None, fused)


def _is_float(entry: Entry, dtype: str) -> bool:
    """As the model's floats; a vector may be float32 beside narrower matrices."""
    if entry.dtype not in FLOATS:
        return False
    return entry.dtype == dtype or (entry.dtype == "F32" and len(entry.shape) == 1)


def _listing(names: list[str]) -> str:
    shown = ", ".join(quote(name) for name in islice(names, _NAMED))
    more = len(names) - _NAMED
    return shown + (f" and {more} or more others" if more > 0 else "")
