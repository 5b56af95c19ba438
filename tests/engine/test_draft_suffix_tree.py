"""The suffix tree: published tables, a plain trie of the same strings, itself anew."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_trie import defined, emitted, noisy, periodic, rules, strings, tokens, trie
from strata_nb.draft.speculation import Rules, Speculation
from strata_nb.draft.suffix_node import Node, split_place
from strata_nb.draft.suffix_tree import SuffixTree

TEXT = [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 1, 2, 3]
CONTEXT = [9, 1, 2, 3]
CHAIN = [-1, 0, 1, 2, 3, 4]


def shown(tree: SuffixTree) -> Any:
    """The whole tree as plain values, texts by age; and it is in order."""
    numbers = {number: i for i, number in enumerate(tree._tokens)}

    def show(node: Node) -> Any:
        for token, child in node.children.items():
            number, start = split_place(child.place)
            assert tree._tokens[number][start + node.depth] == token
            assert start + child.depth <= len(tree._tokens[number])
            assert (child.parent, child.key) == (node, token)
            assert node.depth < child.depth <= tree.depth
        counts = sum(child.count for child in node.children.values())
        if node.parent is not None:
            assert node.count == counts + len(node.ends) > 0
            # As few nodes as there can be: each tells places apart, or ends a string.
            assert node.ends or len(node.children) > 1
        known = [t for t, child in node.children.items() if child is node.best]
        assert len(known) == (node.best is not None)
        number, start = split_place(node.place)
        place = (numbers.get(number, -1), start)
        ends = sorted((numbers[n], start) for n, start in map(split_place, node.ends))
        children = {t: show(c) for t, c in sorted(node.children.items())}
        return node.count, node.depth, place, known, ends, children

    for text in tree._texts.values():
        assert len(text.active) == min(len(text.tokens), tree.depth - 1)
        for i, node in enumerate(text.active):
            start = len(text.tokens) - len(text.active) + i
            assert text.place(start) in node.ends
    return show(tree._root)


@pytest.mark.parametrize(
    ("context", "how", "match_length", "tokens", "parents", "products", "score"),
    [
        (CONTEXT, {}, 3, [4, 1, 2], CHAIN[:3], [0.5] * 3, 1.5),
        (
            CONTEXT,
            {"factor": 2},
            3,
            [4, 1, 2, 3, 5, 1],
            CHAIN,
            [0.5] * 4 + [0.25] * 2,
            2.5,
        ),
        (
            CONTEXT,
            {"factor": 2, "min_probability": 0.4},
            3,
            [4, 1, 2, 3],
            CHAIN[:4],
            [0.5] * 4,
            2.0,
        ),
        # The probability itself is enough.
        (
            CONTEXT,
            {"factor": 2, "min_probability": 0.5},
            3,
            [4, 1, 2, 3],
            CHAIN[:4],
            [0.5] * 4,
            2.0,
        ),
        (
            CONTEXT,
            {"factor": 2, "min_probability": 0.5, "shape": "tree"},
            3,
            [4, 1, 2, 3],
            CHAIN[:4],
            [0.5] * 4,
            2.0,
        ),
        (CONTEXT, {"offset": -1}, 3, [4, 1], CHAIN[:2], [0.5] * 2, 1.0),
        (
            CONTEXT,
            {"factor": 2, "shape": "tree"},
            3,
            [4, 1, 2, 3, 5, 5],
            [-1, 0, 1, 2, -1, 3],
            [0.5] * 4 + [0.25] * 2,
            2.5,
        ),
        ([1, 2, 3], {}, 2, [4, 1], CHAIN[:2], [0.5] * 2, 1.0),
        ([7, 8], {}, 0, [], [], [], 0.0),
        (
            CONTEXT,
            {"denominator": "siblings"},
            3,
            [4, 1, 2],
            CHAIN[:3],
            [2 / 3] * 3,
            2.0,
        ),
    ],
)
def test_the_published_table(
    context: list[int],
    how: dict[str, Any],
    match_length: int,
    tokens: list[int],
    parents: list[int],
    products: list[float],
    score: float,
) -> None:
    tree = SuffixTree()
    tree.extend(0, TEXT)
    found = tree.speculate(context, most=64, **how)
    assert (found.match_length, list(found.tokens)) == (match_length, tokens)
    assert list(found.parents) == parents
    assert list(found.products) == products
    assert found.score == score


def test_equal_counts_then_the_second_sequence_goes() -> None:
    tree = SuffixTree()
    tree.extend(7, TEXT)
    alone, plain = shown(tree), tree.speculate(CONTEXT, most=64)
    tree.extend(8, [1, 2, 3, 5, 5, 5])
    assert [tree.occurrences([1, 2, 3, *more]) for more in ([], [4], [5])] == [5, 2, 2]
    tied = tree.speculate(CONTEXT, most=64)
    # A path that takes 4 first is as right as one that takes 5, and scores more.
    assert (tied.tokens[0], tied.score) in ((4, pytest.approx(1.2)), (5, 0.8))
    assert tied.products[0] == 0.4
    tree.remove(8)
    assert shown(tree) == alone
    assert tree.speculate(CONTEXT, most=64) == plain
    assert plain.tokens == (4, 1, 2)


def test_of_equal_counts_the_newest_is_drafted() -> None:
    tree = SuffixTree()
    tree.extend(0, [1, 2, 8, 1, 2, 9, 1, 2, 7])
    assert tree.speculate([0, 1, 2], most=1).tokens == (7,)
    tree.extend(0, [1, 2, 8])
    assert tree.speculate([0, 1, 2], most=1).tokens == (8,)
    tree.cut(0, 6)
    assert tree.speculate([0, 1, 2], most=1).tokens == (9,)


def test_of_equal_scores_the_longest_match_wins() -> None:
    tree = SuffixTree(depth=4)
    tree.extend(0, [1, 2, 3, 4])
    tree.extend(1, [2, 3, 5, 5])
    # A match of 1 or 2 tokens has 5, 5 by halves.
    assert tree.speculate([2, 3], most=9, factor=3).products == (0.5, 0.5)
    found = tree.speculate([0, 1, 2, 3], most=9, factor=3)
    assert (found.match_length, found.tokens, found.score) == (3, (4,), 1.0)


def test_the_newest_place_that_is_left_may_go_on_or_end() -> None:
    for texts in ([[1], [1, 2]], [[1, 2], [1]]):
        tree, fresh = SuffixTree(), SuffixTree()
        for name, text in enumerate(texts):
            tree.extend(name, text)
            fresh.extend(name, text)
        tree.extend(2, [1, 3])
        tree.remove(2)
        assert shown(tree) == shown(fresh)


def test_a_draft_reaches_the_depth_in_each_branch() -> None:
    tree = SuffixTree(depth=3)
    tree.extend(0, [1, 1, 1, 0])
    path = tree.speculate([0, 1, 1], most=4, factor=4)
    # Of three tokens one has to be matched.
    assert (path.match_length, path.tokens, path.score) == (1, (1, 0), 1.0)
    branched = tree.speculate([0, 1, 1], most=4, factor=4, shape="tree")
    assert (branched.match_length, branched.tokens) == (1, (1, 0, 0, 1))
    assert branched.parents == (-1, -1, 0, 0)
    assert branched.score == pytest.approx(5 / 3)


changes = st.lists(
    st.one_of(
        st.tuples(
            st.just("extend"),
            st.integers(0, 2),
            st.one_of(
                st.lists(tokens, max_size=12),
                st.builds(lambda t, n: [t] * n, tokens, st.integers(2, 15)),
            ),
        ),
        st.tuples(st.just("cut"), st.integers(0, 2), st.integers(0, 15)),
        st.tuples(st.just("remove"), st.integers(0, 2), st.none()),
    ),
    max_size=10,
)


@settings(max_examples=300, deadline=None)
@given(
    changes=changes,
    depth=st.integers(1, 7),
    context=st.lists(tokens, max_size=9),
    most=st.integers(-1, 9),
    rules=rules,
)
def test_it_is_the_plain_trie_after_any_changes(
    changes: list[tuple[str, int, Any]],
    depth: int,
    context: list[int],
    most: int,
    rules: Rules,
) -> None:
    tree = SuffixTree(depth=depth)
    texts: dict[int, list[int]] = {}
    for verb, name, what in changes:
        if verb == "extend":
            texts[name] = texts.get(name, []) + what
            tree.extend(name, what)
        elif name in texts and verb == "cut":
            length = min(what, len(texts[name]))
            del texts[name][length:]
            tree.cut(name, length)
        elif name in texts:
            del texts[name]
            tree.remove(name)
        assert len(tree) == sum(map(len, texts.values()))
        root = trie(list(texts.values()), depth)
        wanted = strings(root)
        assert {s: tree.occurrences(s) for s in wanted} == wanted
        for string in itertools.product(range(3), repeat=min(depth, 4)):
            assert tree.occurrences(string) == wanted.get(string, 0)
        assert speculated(tree, context, most, rules) == defined(
            root, context[-depth:], most, rules
        )
        for other, text in texts.items():
            assert tree.go_on(other, most=most, rules=rules) == defined(
                root, text[-depth:], most, rules
            )
        fresh = SuffixTree(depth=depth)
        for other, text in texts.items():
            fresh.extend(other, text)
        assert shown(tree) == shown(fresh)


def speculated(
    tree: SuffixTree, context: list[int], most: int, rules: Rules
) -> Speculation:
    return tree.speculate(
        context,
        most=most,
        factor=rules.factor,
        offset=rules.offset,
        min_probability=rules.min_probability,
        denominator=rules.denominator,
        shape=rules.shape,
    )


@settings(max_examples=150, deadline=None)
@given(
    text=periodic,
    depth=st.integers(1, 12),
    together=emitted,
    most=st.integers(1, 15),
    rules=rules,
    back=st.integers(0, 40),
)
def test_long_periods_are_the_plain_trie_however_they_came(
    text: list[int],
    depth: int,
    together: list[int],
    most: int,
    rules: Rules,
    back: int,
) -> None:
    tree, length = SuffixTree(depth=depth), 0
    for turn, count in enumerate(itertools.cycle(together)):
        tree.extend(0, text[length : length + count])
        length = min(length + count, len(text))
        if length == len(text):
            break
        if turn % 8 == 0:
            root = trie([text[:length]], depth)
            assert tree.go_on(0, most=most, rules=rules) == defined(
                root, text[max(0, length - depth) : length], most, rules
            )
    for kept in (len(text), max(0, len(text) - back)):
        tree.cut(0, kept)
        at_once = SuffixTree(depth=depth)
        at_once.extend(0, text[:kept])
        assert shown(tree) == shown(at_once)
        root = trie([text[:kept]], depth)
        wanted = defined(root, text[:kept][-depth:], most, rules)
        assert tree.go_on(0, most=most, rules=rules) == wanted
        assert speculated(tree, text[:kept], most, rules) == wanted


@pytest.mark.parametrize(
    "text",
    [
        [5] * 300,
        [1, 2, 3] * 100,
        list(range(300)),
        noisy(list(range(97)), 1000, {150: 7, 310: 7, 333: 200, 570: 7, 905: 200}),
    ],
    ids=["equal", "period 3", "never twice", "noisy period 97"],
)
def test_long_texts_of_the_default_depth(text: list[int]) -> None:
    tree = SuffixTree()
    tree.extend(0, text)
    nodes = str(shown(tree)).count("{")
    assert nodes <= 2 * len(text) + 1
    one_by_one = SuffixTree()
    for token in text:
        one_by_one.extend(0, [token])
    assert shown(one_by_one) == shown(tree)
    root = trie([text], 64)
    for most in (3, 15, 64):
        wanted = defined(root, text[-64:], most, Rules())
        assert tree.speculate(text, most=most) == wanted
        assert tree.go_on(0, most=most, rules=Rules()) == wanted
    tree.remove(0)
    assert shown(tree) == shown(SuffixTree())
    assert tree._tokens == {}


def test_a_budget_survives_decimal_fractions() -> None:
    assert 0.29 * 100 < 29
    assert Rules(0.29).budget(100) == 29
    assert [Rules(0.1).budget(n) for n in (9, 10)] == [0, 1]
    assert Rules(1, -5).budget(3) == 0


def test_settings_are_refused() -> None:
    tree = SuffixTree()
    for how, message in (
        ({"factor": -1.0}, "`factor` is -1.0, wanted 0 or more"),
        ({"factor": float("inf")}, "`factor` is inf, wanted a finite number"),
        ({"offset": float("nan")}, "`offset` is nan, wanted a finite number"),
        ({"min_probability": 1.5}, "`min_probability` is 1.5, wanted 0 to 1"),
        ({"denominator": "both"}, "`denominator` is 'both', wanted node or siblings"),
        ({"shape": "star"}, "`shape` is 'star', wanted path or tree"),
    ):
        with pytest.raises(ValueError, match=message):
            tree.speculate([1, 2], most=3, **how)
    with pytest.raises(ValueError, match="`depth` is 0, wanted 1 or more"):
        SuffixTree(depth=0)


def test_unknown_sequences_and_lengths_are_refused() -> None:
    tree = SuffixTree()
    tree.extend(4, [1, 2])
    for verb in (tree.remove, lambda name: tree.cut(name, 0)):
        with pytest.raises(ValueError, match="no sequence 5; `extend` begins one"):
            verb(5)
    with pytest.raises(ValueError, match="no sequence 5"):
        tree.go_on(5, most=1, rules=Rules())
    for length in (-1, 3):
        with pytest.raises(ValueError, match=rf"is {length}, wanted 0 to the 2 tokens"):
            tree.cut(4, length)
    assert tree.occurrences([1, 2]) == 1
