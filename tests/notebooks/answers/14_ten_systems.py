"""What a reader may write into 14_ten_systems."""

# %%
answer = [[0.9, 0.72, 0.36, 0.324], 3, 2]
