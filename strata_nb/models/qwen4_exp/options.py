"""How an engine keeps its state; none of these changes what it computes exactly."""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from strata_nb.draft.head import Mtp
from strata_nb.models.qwen4_exp.imposed import NOTHING, Imposed
from strata_nb.parts import KV_KINDS, KvKind, Part
from strata_nb.policies.routing import NATURAL, Routing

Fold: TypeAlias = Literal["lazy", "eager"]
AnyPart = TypeVar("AnyPart", bound=Part[Any, Any])


class Vary(Protocol):
    """Puts a variant in the place of a part as it is built."""

    def __call__(self, part: AnyPart, /) -> AnyPart:
        """The part to use."""


def as_built(part: AnyPart, /) -> AnyPart:
    """The part itself."""
    return part


@dataclass(frozen=True)
class EngineOptions:
    """Fold mode, partial commits of the root, the kind of K and V; and exceptions.

    Attributes:
        fold: when recurrent state advances over kept rows.
        partial: whether the state after row 0 is taken from the run.
        kv: kind of K and V.
        vary: puts a faulty variant of a part in its place, to be looked for.
        routing: which experts a row uses.
        imposed: decisions that replace the model's own, by layer and cell.
        mtp: the draft head and how it is read; None: off.

    Raises:
        TypeError: `partial` is neither True nor False.
        ValueError: another option is not one of those offered.
    """

    fold: Fold
    partial: bool
    kv: KvKind
    vary: Vary = as_built
    routing: Routing = NATURAL
    imposed: Imposed = field(default=NOTHING, compare=False)
    mtp: Mtp | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.imposed, Imposed):
            raise TypeError(
                f"`imposed` wants an Imposed, got {type(self.imposed).__name__}"
            )
        if not isinstance(self.mtp, Mtp | None):
            raise TypeError(
                f"`mtp` wants True, False or an `Mtp`, got {type(self.mtp).__name__}"
            )
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
