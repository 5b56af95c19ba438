"""Two rows are due at each window of four."""

# %%
answer = [(3, 2), (4, 2), (4, 2), (4, 2)]
