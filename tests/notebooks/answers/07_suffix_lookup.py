"""A drafter that goes round the circle: one period, again and again."""
# ruff: noqa: ANN001, ANN201, F821
# mypy: ignore-errors


# %%
class Round(SuffixLookup):
    name = "round"

    def propose(self, most):
        draft = super().propose(most)
        again = (draft.tokens * most)[:most]
        return Draft(again, match_length=draft.match_length)


mine = Round(minimum=4, most=7)
