"""A suffix tree that counts: how often each string of tokens occurred, what followed.

After SuffixDecoding (arXiv 2411.04975), from its description. The tree holds every
string of up to `depth` tokens of the sequences it was given. Strings that occur at
the same places share a node, so that a sequence costs memory by its length.
"""

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

from strata_nb.draft.speculation import Counts, Denominator, Rules, Shape, Speculation
from strata_nb.draft.suffix_matches import Matches
from strata_nb.draft.suffix_node import PLACE_BITS, START, Node, split_place
from strata_nb.draft.tokens import alike, checked


@dataclass(eq=False, slots=True)
class _Text:
    """A sequence and the nodes where its unfinished strings end, the longest first."""

    number: int
    tokens: list[int] = field(default_factory=list)
    active: list[Node] = field(default_factory=list)

    def place(self, start: int) -> int:
        """The place of its token `start`."""
        return (self.number << PLACE_BITS) + start

    @property
    def first(self) -> int:
        """Where the oldest of the unfinished strings begins."""
        return len(self.tokens) - len(self.active)


class SuffixTree:
    """Strings of up to `depth` tokens, with counts, of sequences that grow and go.

    What it answers depends on the sequences it holds and the order in which they were
    begun, not on how they came to be: one that was cut, or stood beside another that
    was removed, is as one that was never longer or never had company.

    A token costs at most `depth` changes of a node, whatever is in the tree; so does
    each token cut. Tokens that come together cost less than one by one: each string is
    counted once it is as long as it can be.

    Args:
        depth: tokens of the longest string that is counted; match and draft together
            are no longer.

    Raises:
        ValueError: `depth` is below 1.
    """

    def __init__(self, *, depth: int = 64) -> None:
        if operator.index(depth) < 1:
            raise ValueError(f"`depth` is {depth}, wanted 1 or more")
        self.depth = depth
        self._root = Node(None, 0, 0, -1, -1)
        self._texts: dict[int, _Text] = {}
        # By number, which stays the same where a caller's name is used anew.
        self._tokens: dict[int, list[int]] = {}
        self._numbers = itertools.count()
        self._counts = Counts(self._tokens, depth)

    def __len__(self) -> int:
        """Tokens of all sequences."""
        return sum(map(len, self._tokens.values()))

    def extend(self, sequence: int, tokens: Sequence[int]) -> None:
        """`tokens` follow `sequence`, which begins here if it is new.

        Args:
            sequence: any number; the caller's name for it.
            tokens: what follows, in order.
        """
        text = self._texts.get(sequence)
        if text is None:
            text = self._texts[sequence] = _Text(next(self._numbers))
            self._tokens[text.number] = text.tokens
        new, first, old = checked(tokens), text.first, len(text.tokens)
        if new:
            text.tokens += new
            self._lengthen(text, first)
            self._begin(text, old)

    def cut(self, sequence: int, length: int) -> None:
        """Undo all of `sequence` but its first `length` tokens.

        Raises:
            ValueError: no such sequence, or it has fewer tokens.
        """
        text = self._text(sequence)
        if not 0 <= length <= len(text.tokens):
            raise ValueError(
                f"`length` is {length}, wanted 0 to the {len(text.tokens)} tokens of "
                f"sequence {sequence}"
            )
        if length == len(text.tokens):
            return
        # Strings from here on would not be whole: the rest begins them anew.
        first = max(0, length - self.depth + 1)
        # The oldest first: a node looks for another newest place once, at the end.
        for start in range(first, len(text.tokens)):
            self._drop(text.place(start), text.tokens)
        del text.tokens[length:]
        text.active.clear()
        self._begin(text, first)

    def remove(self, sequence: int) -> None:
        """Undo `sequence`: the tree is as if it had never been there.

        Raises:
            ValueError: no such sequence.
        """
        text = self._text(sequence)
        self.cut(sequence, 0)
        del self._texts[sequence], self._tokens[text.number]

    def occurrences(self, string: Sequence[int]) -> int:
        """How often `string` was there: 1 to `depth` tokens."""
        node = self._find(list(string))
        return node.count if node is not None else 0

    def matches(self, context: Sequence[int]) -> Matches:
        """Where the end of `context` stands in the tree, until the tree changes.

        Args:
            context: the text so far; its last `depth` tokens count.
        """
        found = Matches(self._root, self._tokens, self._counts)
        found.follow(context[-self.depth :])
        return found

    def speculate(
        self,
        context: Sequence[int],
        *,
        most: int,
        factor: float = 1.0,
        offset: float = 0.0,
        min_probability: float = 0.1,
        denominator: Denominator = "node",
        shape: Shape = "path",
    ) -> Speculation:
        """What followed the end of `context`, by the match that promises most.

        Every number of last tokens that occurred in the tree with something behind them
        is a match, and has a draft; the greatest score wins, the longest match of equal
        scores. All tokens of the context are never a match, one has to be left over.

        Args:
            context: the text so far; its last `depth` tokens count.
            most: tokens of a draft, whatever the match.
            factor: tokens drafted for each token matched; all these are as in `Rules`.
            offset: tokens drafted more, or fewer.
            min_probability: of a token and all before it.
            denominator: what a count is divided by, "node" or "siblings".
            shape: "path" or "tree".

        Raises:
            ValueError: a setting out of its range.
        """
        rules = Rules(factor, offset, min_probability, denominator, shape)
        return self.matches(context).speculate(most=most, rules=rules)

    def go_on(self, sequence: int, *, most: int, rules: Rules) -> Speculation:
        """What `speculate` answers where the context is `sequence` itself.

        It is quicker: the tree knows where the end of a sequence matches.

        Raises:
            ValueError: no such sequence.
        """
        text = self._text(sequence)
        longest = min(len(text.tokens), self.depth) - 1
        return self._counts.best(text.active, longest, most=most, rules=rules)

    def _text(self, sequence: int) -> _Text:
        text = self._texts.get(sequence)
        if text is None:
            raise ValueError(
                f"there is no sequence {sequence}; `extend` begins one with its tokens"
            )
        return text

    def _lengthen(self, text: _Text, first: int) -> None:
        """The unfinished strings, the oldest from `first` on, go on to the text's end.

        The tokens stand in it already.
        """
        active, tokens, depth = text.active, text.tokens, self.depth
        end = len(tokens)
        # What each string has with all tokens up to the end; the cap comes below.
        for size, node in zip(range(end - first, 0, -1), active, strict=False):
            length = size if size < depth else depth
            if node.count == 1:
                # A string of its own: the reference reaches as far as the text.
                node.depth = length
                continue
            start = end - size
            # All others go on by one child: if this one does so too, the border moves
            # down with it. In periodic text it nearly always is so, and each token
            # brings it to `depth` strings: so nothing is called that can be spared.
            child, at = node.best, node.depth
            if (
                child is not None
                and child.count == node.count - 1
                and child.key == tokens[start + at]
                and child.depth > length
            ):
                number, began = child.place >> PLACE_BITS, child.place & START
                other = self._tokens[number]
                if length == at + 1 or (
                    other[began + at : began + length] == tokens[start + at : end]
                ):
                    node.sink(child, length, other[began + length])
                    continue
            active[start - first] = self._follow(node, text.place(start), length)

    def _begin(self, text: _Text, first: int) -> None:
        """Count the strings that begin in `text` from `first` on."""
        active, end = text.active, len(text.tokens)
        for start in range(first, end):
            length = min(end - start, self.depth)
            node = self._insert(self._root, text.place(start), length)
            if length < self.depth:
                active.append(node)
        del active[: max(0, len(active) - self.depth + 1)]

    def _follow(self, node: Node, place: int, length: int) -> Node:
        """The string that ends with `node` goes on to `length` tokens; its new end."""
        node.ends.remove(place)
        last = self._insert(node, place, length)
        if node.is_idle:
            self._fuse(node)
        return last

    def _insert(self, node: Node, place: int, length: int) -> Node:
        """A place more for the strings of up to `length` tokens, below `node`."""
        number, start = split_place(place)
        text = self._tokens[number]
        while (at := node.depth) < length:
            key = text[start + at]
            child = node.best
            # Mostly it is the best one, and a look at `children` is spared.
            if child is None or child.key != key:
                child = node.children.get(key)
                if child is None:
                    return self._leaf(node, place, key, length)
            if child.depth > at + 1:
                shared = self._alike(child, at, length, text, start)
                if shared < child.depth:
                    child = self._split(child, shared)
            child.count += 1
            if place > child.place:
                child.place = place
            if node.best is not child:
                node.prefer(child)
            node = child
        node.ends.add(place)
        return node

    def _leaf(self, node: Node, place: int, token: int, depth: int) -> Node:
        """A new child of `node`: strings that occurred at `place` alone."""
        child = Node(node, 1, depth, place, token, ends={place})
        node.children[token] = child
        node.prefer(child)
        return child

    def _drop(self, place: int, text: Sequence[int]) -> None:
        """Forget the strings that begin at `place`, in `text`."""
        _, start = split_place(place)
        node, length = self._root, min(self.depth, len(text) - start)
        while node.depth < length:
            node = node.children[text[start + node.depth]]
            node.count -= 1
        node.ends.remove(place)
        while (parent := node.parent) is not None:
            if not node.count:
                del parent.children[text[start + parent.depth]]
            elif node.place == place:
                children = (child.place for child in node.children.values())
                node.place = max(itertools.chain(node.ends, children))
            if parent.best is node:
                ranked = parent.children.values()
                parent.best = max(ranked, key=lambda child: child.rank, default=None)
            if node.is_idle:
                self._fuse(node)
            node = parent

    def _split(self, node: Node, depth: int) -> Node:
        """A new node that holds the strings of `node` up to `depth` tokens."""
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.count, depth, node.place, node.key, best=node)
        parent.replace(node, upper)
        number, start = split_place(node.place)
        node.parent, node.key = upper, self._tokens[number][start + depth]
        upper.children[node.key] = node
        return upper

    def _fuse(self, node: Node) -> None:
        """Give the strings of `node` to its only child."""
        (child,) = node.children.values()
        parent = node.parent
        assert parent is not None
        parent.replace(node, child)

    def _alike(
        self, node: Node, at: int, length: int, text: list[int], start: int
    ) -> int:
        """How many tokens `text` from `start` on has alike with a string of `node`.

        The first `at` are; none after `length` are looked at.
        """
        number, began = split_place(node.place)
        end = min(node.depth, length)
        edge = self._tokens[number][began + at : began + end]
        wanted = text[start + at : start + end]
        return end if edge == wanted else at + alike(edge, wanted)

    def _find(self, string: list[int]) -> Node | None:
        """The node that holds `string`; None where it never occurred."""
        node, length = self._root, 0
        while length < len(string):
            child = node.children.get(string[length])
            if child is None:
                return None
            end = min(child.depth, len(string))
            if self._alike(child, length, end, string, 0) < end:
                return None
            node, length = child, end
        return node
