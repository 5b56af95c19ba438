"""The window has to reach cell 56, over what is needed in the slot of cell 52."""

# %%
answer = {52: 5, 53: 4, 54: 3, 55: None}
