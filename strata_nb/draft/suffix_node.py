"""A node of a suffix tree: strings that always occurred together."""

from dataclasses import dataclass, field

PLACE_BITS = 40
"""Bits of a place that say where in its text it is: more than memory holds tokens."""
START = (1 << PLACE_BITS) - 1
"""These bits."""


def split_place(place: int) -> tuple[int, int]:
    """The text's number, and the token of it.

    A place is one number, so that places are compared and hashed at once: which text,
    by age (a later one has more), and where in it. Newer is greater.
    """
    return place >> PLACE_BITS, place & START


@dataclass(eq=False, slots=True)
class Node:
    """Strings that begin at the same places: they differ in their length alone.

    A string is the text from a place on; the longest of a node has `depth` tokens, the
    shortest one more than the parent's `depth`. What lies between is the edge.

    Attributes:
        parent: holds the shorter strings; None: the root, the empty string.
        count: places, each an occurrence of all these strings; 0 at the root.
        depth: tokens of the longest string.
        place: the newest place; it stands for all of them.
        key: the token that its parent has it by, the first of the edge.
        children: by the token that follows the longest string.
        best: the child that follows most often, the newest of equals; None: there is
            none, or this is the root.
        ends: places whose string ends with the longest one here: the text ends there,
            or no more tokens are counted.
    """

    parent: "Node | None"
    count: int
    depth: int
    place: int
    key: int
    children: dict[int, "Node"] = field(default_factory=dict)
    best: "Node | None" = None
    ends: set[int] = field(default_factory=set)

    @property
    def rank(self) -> tuple[int, int]:
        """The more, the likelier; of equal counts the newer."""
        return self.count, self.place

    @property
    def is_idle(self) -> bool:
        """Whether its only child could hold its strings: they have the same places."""
        return self.best is not None and self.best.count == self.count

    def leads_on(self, length: int) -> bool:
        """Whether anything ever followed its string of `length` tokens."""
        return length < self.depth or bool(self.children)

    def prefer(self, child: "Node") -> None:
        """`child` gained a place: it may follow most often now."""
        best = self.best
        # What follows the empty string is never asked for.
        if best is child or self.parent is None:
            return
        if (
            best is None
            or child.count > best.count
            or (child.count == best.count and child.place > best.place)
        ):
            self.best = child

    def replace(self, child: "Node", other: "Node") -> None:
        """`other` holds what `child` held, or the shorter strings of it."""
        if self.best is child:
            self.best = other
        other.parent, other.key = self, child.key
        self.children[other.key] = other

    def sink(self, child: "Node", depth: int, key: int) -> None:
        """Take over strings of its only child, of up to `depth` tokens; `key` follows.

        Where nothing else ended, its places and theirs are the same.
        """
        self.depth = depth
        if key != child.key:
            child.key = key
            self.children = {key: child}
