"""What the formulas say should happen: keep, break-even, unions, costs, lengths.

Plain arithmetic on plain numbers: nothing here has seen a model or a clock, so what was
measured can be held against it. Times are in milliseconds, rows are those of a window
(T, the root included), drafts are D = T - 1. Where a number comes from a published
reading it is named: "the rule" is the decision rule that this project began with.
"""

from strata_nb.theory.lengths import (
    amortisation,
    best_draft,
    best_prefix,
    cycle_ms,
    expected_accepted,
    kept_nodes,
    path_products,
)
from strata_nb.theory.roofline import (
    attainable,
    longest_path,
    ridge,
    tokens_per_expert,
)
from strata_nb.theory.selection import (
    Experts,
    Layers,
    Pick,
    Price,
    economical_nodes,
    new_experts,
    worth,
)
from strata_nb.theory.windows import (
    best_rows,
    break_even_acceptance,
    break_even_ms,
    cap_without_io,
    expected_keep,
    gain,
    keeps,
    largest_union,
    marginal_rows,
    marginal_rows_at,
    rules_agree,
    survival,
    uniform_union,
    window_ms,
)

__all__ = [
    "Experts",
    "Layers",
    "Pick",
    "Price",
    "amortisation",
    "attainable",
    "best_draft",
    "best_prefix",
    "best_rows",
    "break_even_acceptance",
    "break_even_ms",
    "cap_without_io",
    "cycle_ms",
    "economical_nodes",
    "expected_accepted",
    "expected_keep",
    "gain",
    "keeps",
    "kept_nodes",
    "largest_union",
    "longest_path",
    "marginal_rows",
    "marginal_rows_at",
    "new_experts",
    "path_products",
    "ridge",
    "rules_agree",
    "survival",
    "tokens_per_expert",
    "uniform_union",
    "window_ms",
    "worth",
]
