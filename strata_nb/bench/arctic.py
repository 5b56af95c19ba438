"""The peer of the drafters: ArcticInference's suffix cache, in C++."""

import importlib
from collections.abc import Sequence
from typing import Any

from strata_nb.draft import Draft

DEPTH = 64
"""Tokens that its tree knows together, as many as a lookup extends to."""


class Arctic:
    """Its tree of one request, without that of all answers.

    Raises:
        ModuleNotFoundError: arctic_inference is not installed.
    """

    name = "arctic_inference"

    def __init__(self) -> None:
        module = importlib.import_module("arctic_inference.suffix_decoding")
        self._make: Any = module.SuffixDecodingCache
        self.assign([])

    def assign(self, tokens: Sequence[int]) -> None:
        """It has no way back: a new tree."""
        self._cache = self._make(DEPTH, max_cached_requests=0)
        self._cache.start_request(0, list(tokens))
        self._last = list(tokens[-DEPTH:])

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow."""
        self._cache.add_active_response(0, list(tokens))
        self._last = [*self._last, *tokens][-DEPTH:]

    def propose(self, most: int) -> Draft:
        """What it finds likeliest."""
        found = self._cache.speculate(0, self._last, most)
        return Draft(tuple(found.token_ids), match_length=found.match_len)
