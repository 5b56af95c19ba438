"""Who uses which expert of a layer, and how that travels to the page."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from strata_nb import LayerRecord

KINDS: Final = ("root only", "root and drafts", "drafts only", "prompt")
_NONE: Final = -1


@dataclass(frozen=True)
class Users:
    """Experts of a layer by who uses them, each list ascending.

    Attributes:
        root: row 0 and no other.
        both: row 0 and others.
        drafts: others and not row 0.
        prompt: all of a prompt window, where no row is a draft.
    """

    root: tuple[int, ...] = ()
    both: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()
    prompt: tuple[int, ...] = ()

    @property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """In the order of `KINDS`."""
        return self.root, self.both, self.drafts, self.prompt

    def packed(self, held: Collection[int] = ()) -> str:
        """As text: ids of one kind between spaces, kinds between bars.

        Four kinds, and the same four again for experts that are in `held`. An id costs
        a third less than in a list of numbers, and a layer no more than its ids.
        """
        kinds: Sequence[Sequence[int]] = self.kinds
        if held:
            outside = [[e for e in kind if e not in held] for kind in kinds]
            kinds = [*outside, *([e for e in kind if e in held] for kind in kinds)]
        return "|".join([" ".join(map(str, kind)) for kind in kinds]).rstrip("|")


def users(layer: LayerRecord, *, headless: bool = False) -> Users:
    """Sort the experts of `layer` by the rows that use them."""
    rows: Sequence[Sequence[int]] = layer.expert_ids.tolist()
    root, others = set(rows[0]), set().union(*rows[1:])
    for found in (root, others):
        found.discard(_NONE)
    if headless:
        return Users(prompt=tuple(sorted(root | others)))
    return Users(
        root=tuple(sorted(root - others)),
        both=tuple(sorted(root & others)),
        drafts=tuple(sorted(others - root)),
    )


def rows_by_expert(layer: LayerRecord) -> dict[int, list[int]]:
    """Each expert of `layer`, ascending, with the rows that use it."""
    found: dict[int, list[int]] = {}
    for row, ids in enumerate(layer.expert_ids.tolist()):
        for expert in set(ids) - {_NONE}:
            found.setdefault(expert, []).append(row)
    return dict(sorted(found.items()))
