"""Nine checkpoints come about; the very first is not needed."""

# %%
places = 8
