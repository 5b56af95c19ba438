"""The prompts run on strata-tiny, written for this project: code, an edit, prose."""

CODE = '''"""A shelf of jars, each with a label and a weight in grams."""

from dataclasses import dataclass, field


@dataclass
class Jar:
    """One jar: what is in it and how much of that is left."""

    label: str
    grams: float = 0.0

    def take(self, amount):
        """Remove `amount` grams; a jar never holds less than nothing."""
        if amount < 0:
            raise ValueError(f"cannot take {amount} grams from {self.label}")
        taken = min(amount, self.grams)
        self.grams -= taken
        return taken


@dataclass
class Shelf:
    """Jars in the order in which they were put there."""

    jars: list = field(default_factory=list)

    def find(self, label):
        """The first jar with that label, or None."""
        for jar in self.jars:
            if jar.label == label:
                return jar
        return None

    def put(self, label, grams):
        """Fill the jar with that label, or put a new one at the end."""
        jar = self.find(label)
        if jar is None:
            jar = Jar(label)
            self.jars.append(jar)
        jar.grams += grams
        return jar

    def total(self):
        """Grams on the whole shelf."""
        return sum(jar.grams for jar in self.jars)
'''

EDIT = '''<|im_start|>user
Insert `count = 0` as the first line:
def lines_of(path):
    with open(path) as stream:
        yield from stream
<|im_end|>
<|im_start|>assistant
def lines_of(path):
    count = 0
    with open(path) as stream:
        yield from stream
<|im_end|>
<|endoftext|><|im_start|>user
Rename `crates` to `parcels`:
def heaviest(crates, limit=None):
    """Crates ordered by weight, the heaviest first."""
    ordered = sorted(crates, key=lambda crate: crate.weight, reverse=True)
    if limit is not None:
        ordered = ordered[:limit]
    total = sum(crate.weight for crate in crates)
    if not total:
        return [], 0
    shares = [crate.weight / total for crate in ordered]
    return list(zip(ordered, shares)), total
<|im_end|>
<|im_start|>assistant
def heaviest(parcels, limit=None):
    """Crates ordered by weight, the heaviest first."""
    ordered = sorted(parcels, key=lambda crate: crate.weight, reverse=True)
    if limit is not None:
        ordered = ordered[:limit]
    total = sum(crate.weight for crate in parcels)
    if not total:
        return [], 0
    shares = [crate.weight / total for crate in ordered]
    return list(zip(ordered, shares)), total
'''

PROSE = """The harbour office keeps a book in which every boat is written down when it
comes in. The first column holds the time, the second the name, and the third what it
carries. When a boat leaves again, its line is struck out with a ruler, never with the
free hand, so that the name can still be read. At the end of each day the lines that
are left are copied to the next page, and their number is compared with the number of
boats at the quay. If the two differ, nobody goes home before the reason is found.

Most of the time the reason is dull. A boat was moved to the other side of the basin
and was counted twice, or it left in the night without telling anyone. Once, however,
the book was right and the quay was wrong: a boat had been painted in another colour,
and the clerk, who had known it for twenty years, looked straight at it and did not
see it. Since then the office counts masts and not names.

The rule to take from this is a general one. A record that is only ever read when
something has gone wrong will be wrong itself, because nobody has noticed the small
errors that came before. A record that is compared with the world every evening stays
true, and the comparison costs a few minutes. Two counts that were made in different
ways and still agree are worth more than one count that was made with great care.
"""

TEXTS = {"code": CODE, "edit": EDIT, "prose": PROSE}
