"""Experts from disk: one record each, in a file or straight from a checkpoint."""

from strata_nb.experts.counters import Counters, LayerCounters
from strata_nb.experts.file import ExpertFile
from strata_nb.experts.pack import Packed, pack
from strata_nb.experts.record import KINDS, Field, Kind, RecordLayout
from strata_nb.experts.source import CheckpointSource, ExpertSource, FileSource
from strata_nb.experts.streaming import Streaming
from strata_nb.experts.throttle import Throttle

__all__ = [
    "KINDS",
    "CheckpointSource",
    "Counters",
    "ExpertFile",
    "ExpertSource",
    "Field",
    "FileSource",
    "Kind",
    "LayerCounters",
    "Packed",
    "RecordLayout",
    "Streaming",
    "Throttle",
    "pack",
]
