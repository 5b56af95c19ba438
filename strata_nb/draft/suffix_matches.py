"""Where the end of a text that is not in a suffix tree stands in it."""

from collections.abc import Iterable, Mapping, Sequence

from strata_nb.draft.speculation import Counts, Rules, Speculation
from strata_nb.draft.suffix_node import Node, split_place


class Matches:
    """The nodes that hold the last tokens of a text: the last one, two and so on.

    A text that grows keeps them, so that a token costs one look at each match and not
    a walk from the root for each. They hold until the tree changes.

    Args:
        root: of the tree.
        texts: tokens by text, of the tree.
        counts: make drafts from nodes of the tree.
    """

    def __init__(
        self, root: Node, texts: Mapping[int, Sequence[int]], counts: Counts
    ) -> None:
        self._root, self._texts, self._counts = root, texts, counts
        # The longest first; what matches has endings that match.
        self._nodes: list[Node] = []
        self._followed = 0

    def follow(self, tokens: Iterable[int]) -> None:
        """`tokens` follow the text."""
        for token in tokens:
            self._followed += 1
            longest = len(self._nodes)
            ended = [*self._nodes, self._root]
            grown = (
                self._grown(node, longest - i, token) for i, node in enumerate(ended)
            )
            self._nodes = [node for node in grown if node is not None]

    def speculate(self, *, most: int, rules: Rules) -> Speculation:
        """What followed in the tree, by the match that promises most.

        Args:
            most: tokens of a draft.
            rules: make the drafts.
        """
        # All tokens of the text are never a match, one has to be left over.
        longest = min(len(self._nodes), self._followed - 1)
        return self._counts.best(self._nodes, longest, most=most, rules=rules)

    def _grown(self, node: Node, length: int, token: int) -> Node | None:
        """The node of its string of `length` tokens and `token`, if there is one."""
        if length == node.depth:
            return node.children.get(token)
        number, start = split_place(node.place)
        return node if self._texts[number][start + length] == token else None
