"""What the expert map says in words: its status, and the table of a layer."""

from typing import Any, Final

from strata_nb import LayerRecord, WindowRecord
from strata_nb.theory import largest_union, uniform_union
from strata_widgets.expert_map.size import Size
from strata_widgets.expert_map.users import KINDS, rows_by_expert, users
from strata_widgets.panel.control import Cell, Table
from strata_widgets.slots_io.counts import HERE, LATE, READ, as_wanted, counted

RUN: Final = "Run a window, and its experts appear here."
NO_EXPERTS: Final = "No layer of this window has experts; select another window."
TOO_MANY: Final = "More experts than fit on a map: select a layer to see its own."
_MOST: Final = 128


def of_window(window: int, record: WindowRecord, *, newest: bool) -> str:
    """Which window is shown."""
    what = "a prompt of" if record.headless else "T ="
    which = ", the newest" if newest else ""
    return f"window {window}{which}: cell {record.position}, {what} {record.T}"


def of_unions(record: WindowRecord, size: Size) -> str:
    """Its unions over all layers, and what to hold them against."""
    found = [layer.union_size for layer in record.layers]
    mean = sum(found) / len(found)
    chance = size.union(uniform_union, record.T)
    most = size.union(largest_union, record.T)
    return (
        f"{len(found)} layers with unions of {min(found)} to {max(found)}, mean "
        f"{mean:.1f} (by chance {chance:.1f}, at most {most})"
    )


def of_layer(record: WindowRecord, layer: LayerRecord) -> str:
    """The union of one layer, by who uses it and by where it was."""
    kinds = users(layer, headless=record.headless).kinds
    if record.headless:
        who = ""
    else:
        named = zip(KINDS, kinds[:3], strict=False)
        who = ", " + ", ".join(f"{len(ids)} {kind}" for kind, ids in named)
    return f"layer {layer.layer}: {layer.union_size} experts{who}; {_where(layer)}"


def of_now(layer: int, pool: Any) -> list[str]:
    """The slots of a layer as they are now, if they are known."""
    if pool is None or layer >= pool.source.layers:
        return []
    now = pool.counts(layer)
    return [
        f"of its {pool.slots} slots now {now.ready} ready, {now.in_flight} in flight, "
        f"{now.free} free, {now.pinned} pinned"
    ]


def table(record: WindowRecord, layer: LayerRecord, pool: Any) -> Table:
    """Each expert of a layer: who uses it, where it was, and whether it is there now.

    Args:
        record: the window.
        layer: of that window.
        pool: the slots of now, or None.
    """
    known = as_wanted(layer)
    measured = counted([layer]).wanted is not None
    was = known or ("not recorded" if measured else "not measured")
    # A trace counts what experts were, and does not say which was what.
    rows: list[list[Cell]] = [
        [expert, _rows(rows, headless=record.headless), was]
        for expert, rows in rows_by_expert(layer).items()
    ]
    head = ["expert", "used by", "when wanted"]
    caption = f"Experts of layer {layer.layer}"
    if pool is not None and layer.layer < pool.source.layers:
        there = pool.resident(layer.layer)
        for row in rows:
            row.append(HERE if row[0] in there else "in no slot")
        head.append("now")
    return Table(caption, tuple(head), rows[:_MOST], hidden=max(0, len(rows) - _MOST))


def _where(layer: LayerRecord) -> str:
    counts = {HERE: layer.resident, LATE: layer.late, READ: layer.miss}
    if None in counts.values():
        return "slots not measured"
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _rows(rows: list[int], *, headless: bool) -> str:
    if headless:
        return f"{len(rows)} of the rows" if len(rows) > 8 else _counted("row", rows)
    drafts = [row for row in rows if row]
    named = ["root"] if 0 in rows else []
    if drafts:
        named.append(_counted("draft", drafts))
    return ", ".join(named)


def _counted(word: str, rows: list[int]) -> str:
    return f"{word if len(rows) == 1 else word + 's'} {_list(rows)}"


def _list(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))
