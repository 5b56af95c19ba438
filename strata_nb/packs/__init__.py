"""Reading checkpoints: what is not understood is refused by name."""

from strata_nb.packs.checkpoint import Checkpoint, open_checkpoint
from strata_nb.packs.config import ModelConfig
from strata_nb.packs.ple import PleTable

__all__ = ["Checkpoint", "ModelConfig", "PleTable", "open_checkpoint"]
