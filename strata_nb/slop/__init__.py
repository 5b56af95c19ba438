"""Penalties per position: unwanted phrases, and lines that the text has had before.

Off unless asked for. What is forbidden depends on the text alone, so every row of a
window is judged on its own text and nothing of a rejected row is ever stored:

    pieces = pieces_of(model.tokenizer, vocab_size=model.config.vocab_size)
    rules = SlopRules(phrases=read_phrases("phrases.txt"), lines=32)
    slop = Slop(Scanner(pieces, rules, eos_ids=model.stop_ids), strength=4.0)
"""

from strata_nb.slop.penalty import Slop
from strata_nb.slop.phrase_file import read_phrases
from strata_nb.slop.pieces import pieces_of
from strata_nb.slop.rules import SlopRules
from strata_nb.slop.scanner import START, Scanner, SlopState

__all__ = [
    "START",
    "Scanner",
    "Slop",
    "SlopRules",
    "SlopState",
    "pieces_of",
    "read_phrases",
]
