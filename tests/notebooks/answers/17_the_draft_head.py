"""What a reader may write into 17_the_draft_head."""

# %%
answer = [22, 23, 24, 22]
