"""From the first piece behind another's on, each fork stays wrong."""

# %%
answer = [3, 4, 5]
