"""The three charts below the rows: pure functions of an engine and its window."""

from typing import Final

import altair as alt

from strata_nb import Engine, Window
from strata_widgets import charts
from strata_widgets.stepper import view

CHARTS: Final = ("windows", "positions", "union")


def chart(name: str, engine: Engine, window: Window | None) -> alt.LayerChart:
    """Return the chart `name`, one of `CHARTS`."""
    trace, config = engine.trace, engine.backend.config
    if name == "windows":
        return charts.acceptance_over_windows(trace)
    if name == "positions":
        return charts.acceptance_by_position(trace)
    sizes = {
        "experts": config.num_experts,
        "chosen": config.num_experts_per_tok,
        "depth": config.num_hidden_layers,
    }
    if window is not None and window.phase in ("run", "finished"):
        # Experts are paid for by `run`, whatever becomes of the drafts.
        label = f"open window, T = {window.T}"
        return charts.union_of_layers(view.open_layers(window), label=label, **sizes)
    return charts.expert_union(trace, **sizes)
