"""Of the rejected rows' experts, those that no kept row has."""


# %%
def alone(picks: list[list[int]], keep: int) -> int:
    """Count them, each once."""
    kept, rejected = (
        {expert for row in rows for expert in row}
        for rows in (picks[:keep], picks[keep:])
    )
    return len(rejected - kept)
