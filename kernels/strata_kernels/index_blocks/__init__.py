"""The indexer: pooled keys of blocks, their scores, and which blocks a row sees."""

from strata_kernels.index_blocks.reference import choose_blocks, score_blocks

__all__ = ["choose_blocks", "score_blocks"]
