"""A plain trie with counts and its drafts by definition, and texts to try both on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from strata_nb.draft.speculation import Rules, Speculation


@dataclass
class Trie:
    """A string: how often, where last, and what followed."""

    count: int = 0
    newest: tuple[int, int] = (-1, 0)
    children: dict[int, "Trie"] = field(default_factory=dict)

    def likeliest_first(self) -> list[tuple[int, "Trie"]]:
        return sorted(
            self.children.items(), key=lambda c: (c[1].count, c[1].newest), reverse=True
        )

    def share(self, child: "Trie", rules: Rules) -> float:
        siblings = sum(c.count for c in self.children.values())
        return child.count / (self.count if rules.denominator == "node" else siblings)

    def find(self, string: Sequence[int]) -> "Trie | None":
        found: Trie | None = self
        for token in string:
            found = found.children.get(token) if found else None
        return found


def trie(texts: Sequence[Sequence[int]], depth: int) -> Trie:
    """All strings of up to `depth` tokens, each by itself."""
    root = Trie()
    for number, text in enumerate(texts):
        for start in range(len(text)):
            at = root
            for token in text[start : start + depth]:
                at = at.children.setdefault(token, Trie())
                at.count += 1
                at.newest = max(at.newest, (number, start))
    return root


def drafted(at: Trie, limit: int, rules: Rules) -> list[tuple[int, int, float]]:
    """Token, parent, product, by the definition of each shape."""
    found: list[tuple[int, int, float]] = []
    if rules.shape == "path":
        product = 1.0
        while len(found) < limit and at.children:
            token, child = at.likeliest_first()[0]
            product *= at.share(child, rules)
            if product < rules.min_probability:
                break
            found.append((token, len(found) - 1, product))
            at = child
        return found
    reach = [(at, -1, 1.0)]
    waiting: list[tuple[int, Trie, int, float]] = []
    while True:
        for node, index, product in reach:
            for token, child in node.likeliest_first():
                more = product * node.share(child, rules)
                if more >= rules.min_probability:
                    waiting.append((token, child, index, more))
        if len(found) == max(limit, 0) or not waiting:
            return found
        # `max` takes the first of equals.
        chosen = max(range(len(waiting)), key=lambda i: waiting[i][3])
        token, child, parent, product = waiting.pop(chosen)
        found.append((token, parent, product))
        reach = [(child, len(found) - 1, product)]


def defined(root: Trie, context: Sequence[int], most: int, rules: Rules) -> Speculation:
    """Every match tried, none left out."""
    best = Speculation()
    for length in range(1, len(context)):
        at = root.find(context[-length:])
        if at is None:
            break
        found = drafted(at, min(most, rules.budget(length)), rules)
        score = 0.0
        # One by one: `sum` rounds otherwise from Python 3.12 on.
        for _, _, product in found:
            score += product
        if found and score >= best.score:
            tokens, parents, products = zip(*found, strict=True)
            best = Speculation(length, tokens, parents, products, score)
    return best


def strings(node: Trie, *before: int) -> dict[tuple[int, ...], int]:
    found = {before: node.count} if before else {}
    for token, child in node.children.items():
        found |= strings(child, *before, token)
    return found


def noisy(period: list[int], count: int, noise: dict[int, int]) -> list[int]:
    """`period` again and again, but for `noise`: tokens by where they stand."""
    return [noise.get(at, period[at % len(period)]) for at in range(count)]


tokens = st.integers(0, 2)
rules = st.builds(
    Rules,
    factor=st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]),
    offset=st.sampled_from([-2.0, -0.5, 0.0, 1.0, 3.0]),
    min_probability=st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]),
    denominator=st.sampled_from(["node", "siblings"]),
    shape=st.sampled_from(["path", "tree"]),
)
periodic = st.builds(
    noisy,
    st.lists(tokens, min_size=1, max_size=5),
    st.integers(20, 200),
    st.dictionaries(st.integers(0, 199), st.integers(0, 3), max_size=5),
)
emitted = st.lists(st.integers(1, 20), min_size=1, max_size=4)
