"""An engine and its window as plain data for the page: pure functions."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strata_nb import Window
from strata_nb.backend import Text
from strata_nb.trace import LayerRecord, Trace, WindowRecord
from strata_widgets import theme, tokens
from strata_widgets.charts import verdicts

Row = dict[str, Any]

TOP: Final = 3
_NOT_JUDGED: Final = "not judged yet"
MOST_CHIPS: Final = 400
"""A page with many thousand chips is slow; the earlier cells are only counted."""

_TAIL: Final = 100


class Cells:
    """The token of each committed cell; each window of a trace is read once."""

    def __init__(self) -> None:
        self._tokens: list[int | None] = []
        self._seen = 0
        self._last: WindowRecord | None = None

    def below(self, position: int, trace: Trace) -> list[int | None]:
        """The tokens below cell `position`; None where no record of `trace` tells."""
        seen = self._seen
        # Going back takes windows away; what stays in place was read already.
        if len(trace) < seen or (seen and trace[seen - 1] is not self._last):
            self._tokens, self._seen = [], 0
        for index in range(self._seen, len(trace)):
            self._take(trace[index])
        self._seen = len(trace)
        self._last = trace[self._seen - 1] if self._seen else None
        known = self._tokens[:position]
        return known + [None] * (position - len(known))

    def _take(self, record: WindowRecord) -> None:
        end = record.position + record.keep
        self._tokens += [None] * (end - len(self._tokens))
        self._tokens[record.position : end] = record.inputs[: record.keep]


def text_chips(
    model: Text, cells: Sequence[int | None]
) -> tuple[list[tokens.Chip], int]:
    """Return the newest cells as chips, and how many earlier ones are left out."""
    known = known_end(cells[-MOST_CHIPS:])
    return tokens.chips(model, known), len(cells) - len(known)


def known_end(cells: Sequence[int | None]) -> list[int]:
    """Return the cells behind the last unknown one.

    A text with holes would read as another text.
    """
    backwards = cells[::-1]
    end = backwards.index(None) if None in backwards else len(cells)
    return [token for token in backwards[:end] if token is not None][::-1]


def top_choices(model: Text, logits: npt.NDArray[Any]) -> list[list[Row]]:
    """Return the three likeliest next tokens of each row, with probabilities.

    Args:
        model: what knows the text of tokens.
        logits: float [T, V]; with a NaN among them there is no likeliest token.
    """
    wide = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(wide).all():
        return [[] for _ in wide]
    weights = np.exp(wide - wide.max(axis=-1, keepdims=True))
    shares = weights / weights.sum(axis=-1, keepdims=True)
    # Stable, of the negated row: the lowest index wins a tie, as in the engine.
    best = np.argsort(-wide, axis=-1, kind="stable")[:, :TOP]
    return [
        [{**tokens.chip(model, int(t)), "share": float(shares[i, t])} for t in row]
        for i, row in enumerate(best)
    ]


def window_rows(
    model: Text, window: Window, choices: Sequence[Sequence[Row]], keep: int
) -> list[Row]:
    """Return the rows of `window` for the page.

    Args:
        model: what knows the text of tokens.
        window: the engine's window; without a result it has no verdicts yet.
        choices: `top_choices` of its logits, T lists.
        keep: rows that are kept, or that would be.
    """
    result = window.result
    roles: Sequence[str] = ["root"] + ["draft"] * (window.T - 1)
    words = {"draft": _NOT_JUDGED, "uncounted": theme.UNCOUNTED}
    words |= {str(role): word for role, word in theme.WORDS.items()}
    if result is not None:
        roles = verdicts(
            window.inputs,
            result.predictions,
            accepted=result.accepted,
            offered=result.offered,
        )
    rows = []
    for index, token in enumerate(window.inputs):
        row: Row = {
            "row": index,
            "input": tokens.chip(model, token),
            "role": roles[index],
            "verdict": words[roles[index]],
            "prediction": None,
            "choices": [],
            "kept": None,
            "keeping": "",
            "bonus": False,
        }
        if result is not None:
            row["prediction"] = tokens.chip(model, result.predictions[index])
            row["kept"] = index < keep
            row["keeping"] = _keeping(index, keep, result.keep)
            row["bonus"] = index == keep - 1
            # Not before: the likeliest token is the answer that Finish gives.
            row["choices"] = choices[index] if index < len(choices) else []
        rows.append(row)
    return rows


def open_layers(window: Window) -> list[LayerRecord]:
    """Return the experts of a window that is not committed yet, layer by layer."""
    return [
        LayerRecord.from_decisions(index, made.expert_ids, 1)
        for index, made in enumerate(window.layers)
        if made is not None
    ]


def table_text(rows: Sequence[Row]) -> str:
    """Return the window's rows as a plain table, without probabilities.

    Logits round differently from machine to machine, and this text is compared.
    """
    lines = [("row", "input", "prediction", "verdict", "kept")]
    lines += [tuple(cells_of(row)) for row in rows]  # type: ignore[misc]
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def tail(shown: Sequence[tokens.Chip]) -> str:
    """Return the end of the text that `shown` spells, as one line."""
    whole = "".join(token["text"] for token in shown)
    return whole if len(whole) <= _TAIL else f"…{whole[-_TAIL:]}"


def cells_of(row: Row) -> list[str]:
    """Return one row as the five words of the table."""
    prediction = row["prediction"]
    after = "" if prediction is None else prediction["text"]
    if row["bonus"]:
        after += "  (bonus)"
    kept = row["keeping"]
    return [str(row["row"]), row["input"]["text"], after, row["verdict"], kept]


def _keeping(index: int, keep: int, natural: int) -> str:
    if index < keep:
        return "kept" if index < natural else "kept by force"
    return "given up" if index < natural else "not kept"
