"""Matches of a text that grows: those of a plain trie, whatever came together."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from plain_trie import defined, emitted, periodic, rules, trie
from strata_nb.draft.speculation import Rules
from strata_nb.draft.suffix_tree import SuffixTree


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(periodic, max_size=3),
    context=periodic,
    depth=st.integers(1, 12),
    together=emitted,
    most=st.integers(1, 15),
    rules=rules,
)
def test_matches_go_along_with_a_text(
    texts: list[list[int]],
    context: list[int],
    depth: int,
    together: list[int],
    most: int,
    rules: Rules,
) -> None:
    tree = SuffixTree(depth=depth)
    for name, text in enumerate(texts):
        tree.extend(name, text)
    matches, length = tree.matches([]), 0
    root = trie(texts, depth)
    for count in itertools.cycle(together):
        matches.follow(context[length : length + count])
        length += count
        assert matches.speculate(most=most, rules=rules) == defined(
            root, context[:length][-depth:], most, rules
        )
        if length >= len(context):
            break
