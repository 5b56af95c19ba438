"""The smallest bonus that leaves one read, in steps of 0.05."""
# ruff: noqa: F821
# mypy: ignore-errors

# %%
tried = (Moce(protect=3, bonus=round(0.05 * step, 2)) for step in range(100))
answer = next(policy for policy in tried if len(reading(policy)) == 1)
