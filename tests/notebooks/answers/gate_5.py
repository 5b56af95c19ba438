"""The same policy, which says what it is."""
# ruff: noqa: F821
# mypy: ignore-errors


# %%
@dataclass(frozen=True)
class Mine(FewerExperts):
    name: str = "mine, approximate"
    lossless: bool = False
