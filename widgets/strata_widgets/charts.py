"""Trace to chart: pure functions, no state, nothing fetched.

Each chart keeps its axes where they are while windows come in, says in words what it
shows, and without data says what to do. Windows of a prompt predict nothing, so they
are left out everywhere.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import altair as alt

from strata_nb.refusals import MAX_ROWS
from strata_nb.theory import uniform_union as uniform_union  # notebooks ask here
from strata_nb.trace import LayerRecord, WindowRecord
from strata_nb.trace.summary import predicting
from strata_widgets.theme import FATES, WORDS, Role, Verdict, colour_scale, dressed

WIDTH: Final = 320
HEIGHT: Final = 180
MOST_DRAFTS: Final = MAX_ROWS - 1
"""Row 0 of a window is the root."""

_FIRST_PAGE: Final = 16
_LAST_PAGE: Final = 64
_COMMIT: Final = "Commit a window with drafts, and it appears here."
_RUN: Final = "Run a window, and its experts appear here."

Row = dict[str, Any]


def verdicts(
    inputs: Sequence[int], predictions: Sequence[int], *, accepted: int, offered: int
) -> list[Verdict]:
    """Say what became of each row of a window.

    Args:
        inputs: the T tokens of the rows, the root first.
        predictions: the token after each row.
        accepted: drafts that were accepted.
        offered: drafts that took part; those behind a stop id did not, nor those that
            a keep below the natural one gave up.

    Returns:
        T roles: `root`, then `accepted`, `mismatch` (the first draft that the
        prediction before it contradicts), `unreached` (behind that one) or
        `uncounted` (past `offered`) for each draft.
    """
    roles: list[Verdict] = ["root"]
    for row in range(1, len(inputs)):
        if row <= accepted:
            roles.append("accepted")
        elif row > offered:
            roles.append("uncounted")
        elif row == accepted + 1 and predictions[row - 1] != inputs[row]:
            roles.append("mismatch")
        else:
            roles.append("unreached")
    return roles


def acceptance_over_windows(trace: Iterable[WindowRecord]) -> alt.LayerChart:
    """Draw what became of the drafts of each window, the newest 64 windows."""
    windows = predicting(trace)
    page = _FIRST_PAGE
    while page < min(len(windows), _LAST_PAGE):
        page *= 2
    last = max(page, len(windows))
    first = last - page + 1
    drafted = any(record.offered for record in windows)
    rows = _window_rows(windows, first=first) if drafted else []
    return _filled(_drawn_windows(first, last), rows, empty=_COMMIT)


def acceptance_by_position(trace: Iterable[WindowRecord]) -> alt.LayerChart:
    """Draw how often the first, second … draft was accepted, with counts."""
    rows = _position_rows(predicting(trace))
    return _filled(_drawn_positions(), rows, empty=_COMMIT)


def expert_union(
    trace: Iterable[WindowRecord],
    *,
    experts: int,
    chosen: int,
    depth: int,
    window: int = -1,
) -> alt.LayerChart:
    """Draw the distinct experts of one window, layer by layer.

    Args:
        trace: the windows.
        experts: experts of a layer, E (`model.config.num_experts`).
        chosen: experts that a row uses, K (`model.config.num_experts_per_tok`).
        depth: layers of the model (`model.config.num_hidden_layers`).
        window: index among the windows that are not a prompt's; -1 is the newest.

    Raises:
        IndexError: no such window.
    """
    windows = predicting(trace)
    layers: Sequence[LayerRecord] = ()
    label = ""
    if windows:
        layers = windows[window].layers
        label = f"window {window % len(windows) + 1}, T = {windows[window].T}"
    return union_of_layers(
        layers, experts=experts, chosen=chosen, depth=depth, label=label
    )


def union_of_layers(
    layers: Sequence[LayerRecord],
    *,
    experts: int,
    chosen: int,
    depth: int,
    label: str = "",
) -> alt.LayerChart:
    """Draw the experts of a window from its layers alone; `expert_union` has the rest.

    Args:
        layers: one record a layer that has experts.
        experts: experts of a layer, E.
        chosen: experts that a row uses, K.
        depth: layers of the model.
        label: which window this is, in a few words.
    """
    rows = _union_rows(layers, experts, chosen, label)
    return _filled(_drawn_union(experts, chosen, depth), rows, empty=_RUN)


# A drawing has everything but its rows. It takes Altair a tenth of a second to check
# one, so each is made once and then filled with the rows of the moment.


@functools.cache
def _drawn_windows(first: int, last: int) -> alt.LayerChart:
    bars = alt.Chart().mark_bar().encode(
        x=alt.X(
            "window:O",
            title="window (number)",
            scale=alt.Scale(domain=list(range(first, last + 1))),
            axis=alt.Axis(labelAngle=0, labelOverlap=True),
        ),
        y=alt.Y(
            "drafts:Q",
            title="drafts (count)",
            scale=alt.Scale(domain=[0, MOST_DRAFTS + 0.5]),
            axis=alt.Axis(values=list(range(MOST_DRAFTS + 1))),
        ),
        color=_verdict_colour(),
        order=alt.Order("order:Q"),
        description=alt.Description("says:N"),
        tooltip=["window:O", "verdict:N", "drafts:Q", "keep:Q"],
    )  # fmt: skip
    return dressed(
        _layered(bars),
        title="Drafts of each window",
        subtitle="a window has its root and up to 7 drafts",
        description="Stacked bars, one a window: drafts accepted, the first mismatch, "
        "and drafts never reached.",
    )


@functools.cache
def _drawn_positions() -> alt.LayerChart:
    x = alt.X(
        "position:O",
        title="draft (position in its window)",
        scale=alt.Scale(domain=list(range(1, MOST_DRAFTS + 1))),
        axis=alt.Axis(labelAngle=0),
    )
    bars = alt.Chart().mark_bar().encode(
        x=x,
        y=alt.Y(
            "share:Q",
            title="share of drafts offered (%)",
            # Room above the bars for their counts.
            scale=alt.Scale(domain=[0, 1.12]),
            axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
        ),
        color=_verdict_colour(),
        order=alt.Order("order:Q"),
        description=alt.Description("says:N"),
        tooltip=["position:O", "verdict:N", "drafts:Q", "offered:Q"],
    )  # fmt: skip
    counts = alt.Chart().transform_filter("datum.order == 0").mark_text(dy=-7)
    return dressed(
        _layered(bars, counts.encode(x=x, y=alt.YDatum(1), text=alt.Text("label:N"))),
        title="Acceptance by position",
        subtitle="above each bar: accepted of offered",
        description="Stacked bars, one a draft position: the share of drafts that were "
        "accepted, were the first mismatch, or were never reached; counts above.",
    )


@functools.cache
def _drawn_union(experts: int, chosen: int, depth: int) -> alt.LayerChart:
    x = alt.X(
        "layer:O",
        title="layer (index)",
        scale=alt.Scale(domain=list(range(depth))),
        # Or numbers of two digits touch, and read as one long number.
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=4),
    )
    # Eight rows that share nothing: the axis then holds every window of this model.
    highest = min(experts, (MOST_DRAFTS + 1) * chosen)
    y = alt.Y("size:Q", title="experts (count)", scale=alt.Scale(domain=[0, highest]))
    bars = alt.Chart().mark_bar().encode(
        x=x,
        y=y,
        color=alt.Color("part:N", scale=colour_scale("root", "added")),
        order=alt.Order("order:Q"),
        description=alt.Description("says:N"),
        tooltip=["layer:O", "part:N", "size:Q", "union:Q", "uniform:Q"],
    )  # fmt: skip
    one_a_layer = alt.Chart().transform_filter("datum.order == 0")
    ticks = one_a_layer.mark_tick().encode(x=x, y=alt.Y("uniform:Q"))
    named = one_a_layer.transform_filter("datum.first")
    label = named.mark_text(align="right", dx=-4).encode(
        x=alt.XValue(WIDTH), y=alt.YValue(10), text=alt.Text("label:N")
    )
    return dressed(
        _layered(bars, ticks, label),
        title="Experts that the window needs",
        subtitle=f"tick: expected by chance; with nothing shared, T times {chosen}",
        description="Stacked bars, one a layer: experts of the root row and those that "
        "the drafts add; a tick at the union expected of rows that choose at random, "
        "which share some by chance.",
    )


def _drafts(record: WindowRecord) -> list[Verdict]:
    """What became of each draft that took part."""
    found = verdicts(
        record.inputs,
        record.predictions,
        accepted=record.accepted,
        offered=record.offered,
    )
    return found[1 : 1 + record.offered]


def _window_rows(windows: Sequence[WindowRecord], *, first: int) -> list[Row]:
    rows = []
    for number, record in enumerate(windows, 1):
        if number < first:
            continue
        found = _drafts(record)
        for order, role in enumerate(FATES):
            word, count = WORDS[role], found.count(role)
            row = {"window": number, "verdict": word, "drafts": count, "order": order}
            says = f"window {number}: {count} {word}"
            rows.append({**row, "keep": record.keep, "says": says})
    return rows


def _position_rows(windows: Sequence[WindowRecord]) -> list[Row]:
    at: dict[int, list[Verdict]] = {}
    for record in windows:
        for position, role in enumerate(_drafts(record), 1):
            at.setdefault(position, []).append(role)
    rows = []
    for position, found in sorted(at.items()):
        label = f"{found.count('accepted')}/{len(found)}"
        for order, role in enumerate(FATES):
            word, count = WORDS[role], found.count(role)
            says = f"draft {position}: {count} of {len(found)} {word}"
            row = {"position": position, "verdict": word, "label": label, "says": says}
            size = {"drafts": count, "offered": len(found), "share": count / len(found)}
            rows.append({**row, **size, "order": order})
    return rows


def _union_rows(
    layers: Sequence[LayerRecord], experts: int, chosen: int, label: str
) -> list[Row]:
    rows = []
    for index, layer in enumerate(layers):
        root, union = layer.root_only_size, layer.union_size
        uniform = uniform_union(experts, chosen, len(layer.expert_ids))
        shared = {
            "layer": layer.layer,
            "label": label,
            "first": index == 0,
            "union": union,
            "uniform": round(uniform, 2),
        }
        sizes: tuple[tuple[Role, int], ...] = (("root", root), ("added", union - root))
        for order, (role, size) in enumerate(sizes):
            says = f"layer {layer.layer}: {size} {WORDS[role]}"
            row = {"part": WORDS[role], "size": size, "order": order, "says": says}
            rows.append({**shared, **row})
    return rows


def _verdict_colour() -> alt.Color:
    return alt.Color("verdict:N", scale=colour_scale(*FATES))


def _layered(*layers: alt.Chart) -> alt.LayerChart:
    """Put `layers` into one chart; a row that holds nothing but a note is written."""
    note = (
        alt.Chart()
        .transform_filter("isValid(datum.note)")
        .mark_text(fontStyle="italic")
        .encode(
            x=alt.XValue(WIDTH / 2), y=alt.YValue(HEIGHT / 2), text=alt.Text("note:N")
        )
    )
    marks = [layer.transform_filter("!isValid(datum.note)") for layer in layers]
    return alt.LayerChart(layer=[*marks, note], width=WIDTH, height=HEIGHT)


def _filled(drawing: alt.LayerChart, rows: list[Row], *, empty: str) -> alt.LayerChart:
    """Put `rows` into `drawing`, or what to do when there are none."""
    data = alt.InlineData(values=rows or [{"note": empty}])
    filled: alt.LayerChart = drawing.properties(data=data)
    return filled
