"""Equality: certain of the likeliest token; ratio: the model's own law."""
# ruff: noqa: F821
# mypy: ignore-errors

# %%
mine = {"equality": [0, 1, 0, 0, 0], "ratio": exercise.bench}
