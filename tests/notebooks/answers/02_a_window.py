"""What a reader may write into 02_a_window."""


# %%
def judged(inputs: list[int], predictions: list[int]) -> tuple[int, int]:
    """Keep the root, and each draft that the row before it predicts."""
    keep = 1
    while keep < len(inputs) and predictions[keep - 1] == inputs[keep]:
        keep += 1
    return keep, predictions[keep - 1]
