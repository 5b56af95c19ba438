"""What a reader may write into 03_qsa_tail."""

# %%
answer = {3, 7, 8}
