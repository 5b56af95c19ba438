"""Lets files be edited while tests run: workers that start later then pass as equal."""

from typing import Any

from distributed import WorkerPlugin

from strata_nb.gates.spread import sweep


class SameSource(WorkerPlugin):
    """A worker takes over the digest of the code that the tests were started with."""

    def __init__(self, source: str) -> None:
        self.source = source

    def setup(self, worker: Any) -> None:
        sweep._IDENTITY["source"] = self.source
