"""How an engine keeps its state; none of these changes what it computes exactly."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from strata_nb.parts import KV_KINDS, KvKind

Fold: TypeAlias = Literal["lazy", "eager"]


@dataclass(frozen=True)
class EngineOptions:
    """Fold mode, partial commits of the root, and the kind of K and V.

    Raises:
        TypeError: `partial` is neither True nor False.
        ValueError: another option is not one of those offered.
    """

    fold: Fold
    partial: bool
    kv: KvKind

    def __post_init__(self) -> None:
        if not isinstance(self.partial, bool):
            raise TypeError(f"`partial` wants True or False, got {self.partial!r}")
        if self.fold not in ("lazy", "eager"):
            raise ValueError(
                f"`fold` is {self.fold!r}; wanted 'lazy' (replay at the next run) "
                "or 'eager' (replay at commit)"
            )
        if self.kv not in KV_KINDS:
            raise ValueError(
                f"`kv` is {self.kv!r}; wanted one of {', '.join(KV_KINDS)}"
            )
