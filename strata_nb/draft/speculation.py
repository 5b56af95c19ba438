"""Drafts from the counts of a suffix tree: the rules, and the two shapes."""

import functools
import heapq
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from strata_nb.draft.suffix_node import Node, split_place

Denominator = Literal["node", "siblings"]
Shape = Literal["path", "tree"]


@dataclass(frozen=True)
class Rules:
    """How a draft is made from what followed a match.

    Attributes:
        factor: tokens drafted for each token matched.
        offset: tokens drafted more; below 0 it asks for longer matches: with a factor
            of 1, -2 drafts on 3 matched tokens or more.
        min_probability: a token whose product is below this is not drafted, 0 to 1.
        denominator: what a child's count is divided by. "node": the count of its
            parent, which may have ended texts; "siblings": that of all children.
        shape: "path" takes the likeliest child each time, which need not make the best
            score; "tree" the likeliest of all tokens within reach.

    Raises:
        ValueError: one is out of its range.
    """

    factor: float = 1.0
    offset: float = 0.0
    min_probability: float = 0.1
    denominator: Denominator = "node"
    shape: Shape = "path"

    def __post_init__(self) -> None:
        for name, value in (("factor", self.factor), ("offset", self.offset)):
            if not math.isfinite(value):
                raise ValueError(f"`{name}` is {value}, wanted a finite number")
        if self.factor < 0:
            raise ValueError(f"`factor` is {self.factor}, wanted 0 or more")
        if not 0 <= self.min_probability <= 1:
            raise ValueError(
                f"`min_probability` is {self.min_probability}, wanted 0 to 1"
            )
        for name, kind in (("denominator", Denominator), ("shape", Shape)):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise ValueError(f"`{name}` is {value!r}, wanted {' or '.join(known)}")

    def budget(self, length: int) -> int:
        """Tokens that a match of `length` tokens may have drafted; 0 or more."""
        # A factor of 0.1 must give the tenth token its first.
        return max(0, math.floor(self.factor * length + self.offset + 1e-6))


@dataclass(frozen=True)
class Speculation:
    """What may follow a context.

    Attributes:
        match_length: tokens of the context that it rests on; 0 for none.
        tokens: what may follow, a parent before its children.
        parents: for each token, the index of the one before it; -1: the context.
        products: for each token, the estimated probability of it and all before it.
        score: the sum of `products`, tokens that are expected to be accepted.
    """

    match_length: int = 0
    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    products: tuple[float, ...] = ()
    score: float = 0.0


NOTHING = Speculation()


class Counts:
    """What a suffix tree counted, to draft from.

    Args:
        texts: tokens by text.
        depth: tokens of the longest string that is counted.
    """

    def __init__(self, texts: Mapping[int, Sequence[int]], depth: int) -> None:
        self._texts, self._depth = texts, depth

    def best(
        self, matches: Sequence[Node], longest: int, *, most: int, rules: Rules
    ) -> Speculation:
        """The draft of the greatest score; of equal ones that of the longest match.

        Args:
            matches: the nodes of the last tokens, that of the longest string first.
            longest: tokens that may be matched; none are without a node.
            most: tokens of a draft.
            rules: make the drafts.
        """
        longest = _longest(matches, longest)
        if longest < 1 or most < 1:
            return NOTHING
        limits = [
            (limit, length)
            for limit, length in _limits(most, self._depth, rules)
            if length <= longest
        ]
        if rules.shape == "path":
            return self._best_path(matches, limits, rules)
        best = NOTHING
        for limit, length in limits:
            # A token scores 1 at most: neither this nor what is left can be better.
            if (limit, length) <= (best.score, best.match_length):
                break
            found = self._tree(matches[-length], length, limit, rules)
            rank = (best.score, best.match_length)
            if found.tokens and (found.score, length) > rank:
                best = found
        return best

    def _best_path(
        self, matches: Sequence[Node], limits: Iterable[tuple[int, int]], rules: Rules
    ) -> Speculation:
        """The best of the paths: all are scored, one is drafted."""
        best, tokens = (0.0, 0), 0
        for limit, length in limits:
            if (limit, length) <= best:
                break
            found = _score(matches[-length], length, limit, rules), length
            if found > best:
                best, tokens = found, limit
        score, length = best
        if not score:
            return NOTHING
        return self._path(matches[-length], length, tokens, rules)

    def _path(self, node: Node, length: int, limit: int, rules: Rules) -> Speculation:
        """Follow the best child from the first `length` tokens of `node` on."""
        followed = list(_followed(node, length, limit, rules))
        tokens = []
        for at, (node, _) in enumerate(followed, start=length):
            number, start = split_place(node.place)
            tokens.append(self._texts[number][start + at])
        products = [product for _, product in followed]
        return _speculation(length, tokens, range(-1, len(tokens) - 1), products)

    def _tree(self, node: Node, length: int, limit: int, rules: Rules) -> Speculation:
        """Take the likeliest token in reach, again and again; of equals the first."""
        tokens: list[int] = []
        parents: list[int] = []
        products: list[float] = []
        serial = itertools.count()
        # (-product, order, its node, tokens of the string, index of the one before it)
        reach = [(-1.0, next(serial), node, length, -1)]
        while reach and len(tokens) < limit:
            loss, _, node, at, parent = heapq.heappop(reach)
            # The first one is the context itself.
            if at > length:
                number, start = split_place(node.place)
                parents.append(parent)
                parent = len(tokens)
                tokens.append(self._texts[number][start + at - 1])
                products.append(-loss)
            if at < node.depth:
                heapq.heappush(reach, (loss, next(serial), node, at + 1, parent))
                continue
            for child in sorted(
                node.children.values(), key=lambda c: c.rank, reverse=True
            ):
                more = loss * (child.count / _whole(node, rules))
                if -more >= rules.min_probability:
                    heapq.heappush(reach, (more, next(serial), child, at + 1, parent))
        return _speculation(length, tokens, parents, products)


@functools.lru_cache(maxsize=32)
def _limits(most: int, depth: int, rules: Rules) -> tuple[tuple[int, int], ...]:
    """How many tokens may be drafted and the match that allows them, most first."""
    found = [(min(most, rules.budget(n)), n) for n in range(1, depth)]
    if rules.shape == "path":
        # A path ends where strings do, while a tree may branch instead.
        found = [(min(limit, depth - n), n) for limit, n in found]
    return tuple(sorted(((limit, n) for limit, n in found if limit > 0), reverse=True))


def _longest(matches: Sequence[Node], most: int) -> int:
    """Of how many last tokens there is a match that led on; 0 for none.

    What followed a match followed every shorter one, so halving finds it.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if matches[-middle].leads_on(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _score(node: Node, length: int, limit: int, rules: Rules) -> float:
    """The sum of the products of `_followed`.

    Every match is asked for it, up to `depth` of them in periodic text: so it gathers
    nothing, and calls nothing.
    """
    least, siblings = rules.min_probability, rules.denominator == "siblings"
    score, product = 0.0, 1.0
    depth = node.depth
    for at in range(length, length + limit):
        if at == depth:
            child = node.best
            if child is None:
                break
            whole = node.count - len(node.ends) if siblings else node.count
            product *= child.count / whole
            if product < least:
                break
            node, depth = child, child.depth
        score += product
    return score


def _followed(
    node: Node, length: int, limit: int, rules: Rules
) -> Iterator[tuple[Node, float]]:
    """The nodes of each token from `length` on, by the best child, and its product."""
    product = 1.0
    for at in range(length, length + limit):
        if at == node.depth:
            if node.best is None:
                return
            product *= node.best.count / _whole(node, rules)
            if product < rules.min_probability:
                return
            node = node.best
        yield node, product


def _whole(node: Node, rules: Rules) -> int:
    """What the count of a child of `node` is a part of."""
    return node.count - (len(node.ends) if rules.denominator == "siblings" else 0)


def _speculation(
    length: int,
    tokens: Sequence[int],
    parents: Sequence[int],
    products: Sequence[float],
) -> Speculation:
    # One by one, as `_score` adds: `sum` rounds otherwise from Python 3.12 on.
    score = functools.reduce(operator.add, products, 0.0)
    return Speculation(length, tuple(tokens), tuple(parents), tuple(products), score)
