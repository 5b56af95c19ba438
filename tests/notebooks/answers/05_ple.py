"""What a reader may write into 05_ple."""

# %%
answer = " paint"
