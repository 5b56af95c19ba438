"""What is known of each case of a run: it grows while the run goes on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strata_nb.gates import Case, CaseResult, Finding, Report
from strata_nb.gates.report.tally import GateReport

WORDS: Final = {
    ".": "not yet",
    "s": "same",
    "n": "near-tie",
    "f": "fault",
    "v": "vacuous",
}
"""A case's verdict by its letter: a letter is all of it that travels to the page."""

_LETTERS: Final = {word: letter for letter, word in WORDS.items()}


@dataclass(frozen=True)
class Family:
    """Cases of one experiment, which stand together.

    Attributes:
        gate: its gate.
        name: of the family.
        first: number of its first case on the board.
        count: of its cases.
    """

    gate: str
    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Told:
    """One case.

    Attributes:
        number: its place on the board.
        family: of the case.
        id: what reports call it; empty where a file keeps no names.
        verdict: one of `WORDS`.
        cause: the first finding of the worst kind.
        findings: how many there are.
    """

    number: int
    family: Family
    id: str
    verdict: str
    cause: Finding | None = None
    findings: int = 0

    @property
    def settings(self) -> str:
        """Names and values, as the id has them."""
        return ", ".join(self.id.split("/")[2:])


class Book:
    """Cases by number, family by family, each with its verdict's letter.

    Of a case that is the same nothing else is kept: a run may have many thousands.
    """

    def __init__(self, sizes: Iterable[tuple[str, str, int]]) -> None:
        families, first = [], 0
        for gate, name, count in sizes:
            families.append(Family(gate, name, first, count))
            first += count
        self.families = tuple(families)
        self.total = first
        self._letters = bytearray(b"." * first)
        self._found: dict[int, tuple[Finding | None, int]] = {}
        self._names: dict[int, str] = {}
        self._cases: list[Case] = []
        self._numbers: dict[Case, int] = {}

    @classmethod
    def of_cases(cls, listed: Mapping[str, Sequence[Case]]) -> "Book":
        """Of cases that are still to run."""
        sets: dict[tuple[str, str], list[Case]] = {}
        for gate, cases in listed.items():
            for case in cases:
                sets.setdefault((gate, case.family), []).append(case)
        book = cls((*key, len(cases)) for key, cases in sets.items())
        book._cases = [case for cases in sets.values() for case in cases]
        book._numbers = {case: number for number, case in enumerate(book._cases)}
        return book

    @classmethod
    def of_report(cls, report: Report) -> "Book":
        """Of a finished run; one from a file has only some names."""
        if all(gate.results for gate in report.gates):
            listed = {g.name: [r.case for r in g.results] for g in report.gates}
            book = cls.of_cases(listed)
            for gate in report.gates:
                for result in gate.results:
                    book.take(result)
        else:
            book = cls(
                (gate.name, name, counts.cases)
                for gate in report.gates
                for name, counts in gate.families.items()
            )
            for gate in report.gates:
                book._take_counts(gate)
        book.end(report)
        return book

    def forget(self) -> None:
        """Be as before the run."""
        self._letters = bytearray(b"." * self.total)
        self._found.clear()

    def take(self, result: CaseResult) -> int:
        """Take one result; return the case's number."""
        number = self._numbers[result.case]
        self._letters[number] = ord(_LETTERS[result.verdict])
        if result.findings:
            self._found[number] = (result.cause, len(result.findings))
        return number

    def end(self, report: Report) -> None:
        """Of a gate that could not have failed, nothing is proved to be the same."""
        for gate in report.gates:
            for family in self.families:
                if gate.verdict == "vacuous" and family.gate == gate.name:
                    end = family.first + family.count
                    some = self._letters[family.first : end]
                    self._letters[family.first : end] = some.replace(b"s", b"v")

    def letters(self, first: int = 0, end: int | None = None) -> str:
        """The letters of cases `first` up to `end`, which is not among them."""
        return self._letters[first:end].decode("ascii")

    def counts(self, family: Family | None = None) -> dict[str, int]:
        """Cases by the word of their verdict, of one family or of all."""
        some = self._letters
        if family is not None:
            some = some[family.first : family.first + family.count]
        return {word: some.count(letter.encode()) for letter, word in WORDS.items()}

    def told(self, number: int) -> Told:
        """What is known of a case."""
        known = self._cases[number].id if self._cases else self._names.get(number, "")
        cause, count = self._found.get(number, (None, 0))
        word = WORDS[chr(self._letters[number])]
        return Told(number, self.family(number), known, word, cause, count)

    def family(self, number: int) -> Family:
        """The family of a case."""
        return next(f for f in self.families if number < f.first + f.count)

    def number(self, name: str) -> int:
        """The number of the case with this id.

        Raises:
            ValueError: no case here has it.
        """
        for number, case in enumerate(self._cases):
            if case.id == name:
                return number
        for number, known in self._names.items():
            if known == name:
                return number
        raise ValueError(f"no case here is named {name!r}; `told` gives the names")

    def next_unlike(self, after: int | None) -> int | None:
        """The next case that is a near-tie or a fault; after the last the first."""
        start = 0 if after is None else after + 1
        for low, high in ((start, self.total), (0, start)):
            places = [self._letters.find(letter, low, high) for letter in (b"n", b"f")]
            found = [place for place in places if place >= 0]
            if found:
                return min(found)
        return None

    def _take_counts(self, gate: GateReport) -> None:
        """A file has counts, and the names of cases that are not the same."""
        for family in self.families:
            if family.gate != gate.name:
                continue
            counts = gate.families[family.name]
            at = family.first
            for letter, number in (
                ("s", counts.same),
                ("n", counts.near_tie),
                ("f", counts.fault),
            ):
                self._letters[at : at + number] = letter.encode() * number
                listed = (
                    case
                    for case in gate.listed
                    if _LETTERS[case.verdict] == letter
                    and case.id.split("/")[:2] == [gate.name, family.name]
                )
                for place, case in enumerate(listed, at):
                    self._names[place] = case.id
                    first = case.findings[0] if case.findings else None
                    self._found[place] = (first, len(case.findings) + case.more)
                at += number
