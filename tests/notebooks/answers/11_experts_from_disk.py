"""The smallest number of slots with which no expert is read twice."""
# ruff: noqa: F821
# mypy: ignore-errors

# %%
answer = next(
    slots
    for slots in range(1, E + 1)
    if replay(trace, slots=slots, residency=Lru()).total.misses == once
)
