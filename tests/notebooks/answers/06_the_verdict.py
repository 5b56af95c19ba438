"""What a reader may write into 06_the_verdict."""

# %%
answer = ["near-tie", "same", "fault", "near-tie", "fault"]
