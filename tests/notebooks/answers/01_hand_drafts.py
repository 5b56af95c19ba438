"""Two windows: the second draft begins behind the bonus of the first."""
# ruff: noqa
# mypy: ignore-errors

# %%
drafts = ["def paint(wall):", "wall.colour ="]
