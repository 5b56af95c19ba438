"""What a reader may write into 13_how_many_drafts."""

# %%
answer = [2, 4, 75]
