"""Engines seen through the calls of `strata_nb.gates.foreign`.

One module for each: `mlx_lm` and `transformers`, which import their libraries when an
engine is made, and `ours`.
"""
