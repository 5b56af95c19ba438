"""Drafts by counts: what mostly followed, in this text or in earlier answers."""

import itertools
import math
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.speculation import NOTHING, Rules, Speculation
from strata_nb.draft.suffix_matches import Matches
from strata_nb.draft.suffix_tree import SuffixTree
from strata_nb.draft.tokens import alike, checked

_PATHS = 4
"""Candidates, at most."""
_OWN = 0
"""What the history's tree calls its only sequence."""


class SuffixTrees:
    """Proposes what mostly followed the history's end: a longer match, a longer draft.

    After SuffixDecoding (arXiv 2411.04975). One suffix tree counts the strings of the
    history, prompt and answer. Another, only where `cached` asks for it, counts those
    of earlier answers, never of prompts. The greater score has the draft, the history's
    own tree where they are equal. Nothing but `cached` lets one request see tokens of
    another.

    A draft is a chain, which is what the engine can check. The tree shape is there for
    study: `SuffixTree.speculate(..., shape="tree")`.

    An answer is what was appended between two calls of `assign`. Any text but the very
    same one ends it: then it is counted in the shared tree.

    A text that shares its beginning with the history costs as much as the tokens that
    differ, and never more than all of it anew: about what `append` costs for each.

    Args:
        depth: tokens of match and draft together, at most.
        factor: tokens drafted for each token matched.
        offset: tokens drafted more; below 0 it asks for longer matches: with a factor
            of 1, -2 drafts on 3 matched tokens or more.
        min_probability: a draft ends before a token less probable, 0 to 1.
        cached: earlier answers shared, the newest; 0: none, None: all.

    Raises:
        ValueError: a setting out of its range.
    """

    name = "suffix_trees"

    def __init__(
        self,
        *,
        depth: int = 64,
        factor: float = 1.0,
        offset: float = 0.0,
        min_probability: float = 0.1,
        cached: int | None = 0,
    ) -> None:
        if cached is not None and operator.index(cached) < 0:
            raise ValueError(
                f"`cached` is {cached}, wanted 0 or more; None shares all answers"
            )
        self._rules = Rules(factor, offset, min_probability)
        self._cached = cached
        self._text: list[int] = []
        self._answer: list[int] = []
        self._local, self._shared = SuffixTree(depth=depth), SuffixTree(depth=depth)
        # Where the history's end stands in the tree of answers; None: not known.
        self._matches: Matches | None = None
        self._answers: deque[int] = deque()
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._text)

    @property
    def history(self) -> Sequence[int]:
        """The tokens that drafts are looked up in."""
        return tuple(self._text)

    @property
    def cached(self) -> int:
        """Earlier answers that are shared now."""
        return len(self._answers)

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now: what differs is undone, the rest appended.

        Raises:
            TypeError: text, or something that is no integer; nothing has changed.
        """
        new = list(checked(tokens))
        if new == self._text:
            # The answer goes on.
            return
        with self._whole_or_empty():
            self._matches = None
            self._end_answer()
            same = alike(self._text, new)
            if same < len(self._text) - same:
                # A token costs as much to undo as to append: so less is done.
                self._begin()
                same = 0
            elif self._text:
                self._local.cut(_OWN, same)
            self._local.extend(_OWN, new[same:])
            self._text = new

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` were emitted: they follow the history.

        Raises:
            TypeError: as in `assign`.
        """
        more = checked(tokens)
        with self._whole_or_empty():
            self._local.extend(_OWN, more)
            self._text += more
            self._answer += more
            if self._matches is not None:
                self._matches.follow(more)

    def stop(self) -> None:
        """The request has ended: its text goes, its answer is shared where asked."""
        self.assign(())

    def forget(self) -> None:
        """Drop the earlier answers; the history stays."""
        self._shared, self._matches = SuffixTree(depth=self._shared.depth), None
        self._answers.clear()

    def propose(self, most: int) -> Draft:
        """The more promising chain of the two trees, at most `most` tokens."""
        found = self.speculate(most)
        return _chain(found, range(len(found.tokens))) if found.tokens else NO_DRAFT

    def candidates(self, most: int) -> list[Draft]:
        """Paths of what may follow: the draft of `propose`, then others by their score.

        Those of the trees' tree shape, from the top to where it ends; each at most
        `most` tokens, and no more than 4 in all.
        """
        first = self.propose(most)
        if not first.tokens:
            return []
        rules = replace(self._rules, shape="tree")
        # So many tokens that the paths can be as long as the draft.
        shapes = [self._local.go_on(_OWN, most=most * _PATHS, rules=rules)]
        if self._matches is not None:
            shapes.append(self._matches.speculate(most=most * _PATHS, rules=rules))
        scored = [
            (-math.fsum(shape.products[node] for node in path), _chain(shape, path))
            for shape in shapes
            for path in _paths(shape, most)
        ]
        found = {first.tokens: first}
        for _, draft in sorted(scored, key=lambda each: each[0]):
            found.setdefault(draft.tokens, draft)
        return [*found.values()][:_PATHS]

    def speculate(self, most: int) -> Speculation:
        """What `propose` proposes, with its score: tokens expected to be accepted.

        Another drafter that expects more of its own draft should have the window.
        """
        if not self._text:
            return NOTHING
        own = self._local.go_on(_OWN, most=most, rules=self._rules)
        if not self._answers:
            return own
        if self._matches is None:
            self._matches = self._shared.matches(self._text)
        shared = self._matches.speculate(most=most, rules=self._rules)
        return shared if shared.score > own.score else own

    def _begin(self) -> None:
        """No history."""
        self._text, self._answer = [], []
        self._local = SuffixTree(depth=self._local.depth)

    def _end_answer(self) -> None:
        """Share the answer, where that was asked for; the oldest make room."""
        answer, self._answer = self._answer, []
        if not answer or self._cached == 0:
            return
        number = next(self._numbers)
        self._shared.extend(number, answer)
        self._answers.append(number)
        if self._cached is not None and len(self._answers) > self._cached:
            self._shared.remove(self._answers.popleft())

    @contextmanager
    def _whole_or_empty(self) -> Iterator[None]:
        """Keep no tree that an interrupt left half changed."""
        try:
            yield
        except BaseException:
            self.forget()
            self._begin()
            raise


def _chain(found: Speculation, path: Sequence[int]) -> Draft:
    """A path as a draft; the chance of a token is its product over the one before."""
    products = [found.products[node] for node in path]
    before = [1.0, *products]
    # A quotient of what was multiplied may come out a little above 1.
    chances = [min(now / was, 1.0) for was, now in zip(before, products, strict=False)]
    return Draft(
        tuple(found.tokens[node] for node in path),
        match_length=found.match_length,
        chances=tuple(chances),
    )


def _paths(found: Speculation, most: int) -> Iterator[list[int]]:
    """The nodes of each path down to where it ends, at most `most` of them."""
    for leaf in sorted({*range(len(found.tokens))} - {*found.parents}):
        path = []
        node = leaf
        while node >= 0:
            path.append(node)
            node = found.parents[node]
        yield path[::-1][:most]
