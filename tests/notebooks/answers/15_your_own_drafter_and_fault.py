"""The bookmark's drafts, up to the word before the number of a day."""
# ruff: noqa
# mypy: ignore-errors


# %%
class Mine(Bookmark):
    name = "mine"

    def propose(self, most):
        found, day = super().propose(most).tokens, KNOWN.index("day")
        return Draft(found[: found.index(day) + 1] if day in found else found)
