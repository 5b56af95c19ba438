"""What can make drafts slower than none: one function a cause, each with its numbers.

A function answers with a cause and its share, or with None where the trace does not
show it. Whether a share is large enough to be named is decided by the caller.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from strata_nb import theory

from .account import Account, cut_ms, trials, turning_point
from .diagnosis import Cause, Number
from .windows import Spent

WORTH: Final = 1.1
"""Times as fast as plain decoding that the best length must be, or none is advised."""
SURE: Final = 10.0
"""Logarithm of how much likelier two acceptances are than one, for a turn to count."""
FEW: Final = 0.25
"""Share of windows with drafts below which there is little to gain."""
HOPELESS: Final = 0.9
"""Acceptance that no drafter is expected to reach: rows that need it are too dear."""


def rows(found: Account) -> Sequence[Cause]:
    """What rows of drafts cost more than they bring.

    A spell of rejections, and one of three names for the windows that are not in it.
    """
    windows = found.drafted
    at, sure = turning_point(windows)
    spell = _spell(found, at) if sure >= SURE else None
    if spell is not None:
        windows = windows[:at]
    too_many = _rows(found, windows) if windows else None
    return [cause for cause in (spell, too_many) if cause is not None]


def _rows(found: Account, windows: Sequence[Spent]) -> Cause | None:
    longest = max(w.rows for w in windows) - 1
    lengths = range(1, longest + 1)
    costs = {d: cut_ms(windows, found.prices, drafts=d) for d in lengths}
    best = min(lengths, key=costs.__getitem__)
    now, best_ms = costs[longest], costs[best]
    part = sum(w.natural for w in windows) / sum(w.natural for w in found.asked)
    if best < longest and best_ms * WORTH <= found.plain_target:
        return _too_long(found, windows, best=best, share_ms=(now - best_ms) * part)
    share_ms = (now - found.plain_target) * part
    usual = Counter(w.rows - 1 for w in windows).most_common(1)[0][0]
    needed = theory.break_even_acceptance(
        max(found.prices(usual + 1), 1e-9),
        serial_ms=max(found.plain_target, 1e-9),
        drafts=usual,
    )
    taken = _rate(windows)
    if (needed is None or needed >= HOPELESS) and taken >= 0.5:
        return _dear(found, usual, taken, share_ms)
    return _rejected(found, windows, (usual, taken, needed), share_ms)


def _too_long(
    found: Account, windows: Sequence[Spent], *, best: int, share_ms: float
) -> Cause:
    beyond = [w for w in windows if w.rows > best + 1]
    reached = sum(w.accepted > best for w in beyond) / len(beyond)
    longest = max(w.rows for w in windows)
    added = found.prices(longest) - found.prices(best + 1)
    return Cause(
        "too_long",
        share_ms,
        (
            Number(
                "windows that keep a draft past the best length", 100 * reached, "%"
            ),
            Number("drafts at the best length", best, ""),
            Number("at the longest", longest - 1, ""),
            Number("rows past the best length add", added, "ms"),
        ),
        "Windows are too long: their last rows are seldom kept, and all are paid for.",
        f"Propose at most {best} draft{'s' if best > 1 else ''}, or let the length "
        "follow what was accepted before.",
    )


def _dear(found: Account, drafts: int, taken: float, share_ms: float) -> Cause:
    price = (found.prices(drafts + 1) - found.plain_target) / drafts
    return Cause(
        "dear_rows",
        share_ms,
        (
            Number("a row of a draft", price, "ms"),
            Number("a token without drafts", found.plain_target, "ms"),
            Number("drafts accepted of those compared", 100 * taken, "%"),
        ),
        "Drafts are accepted, but each of their rows costs nearly what a window of one "
        "row does.",
        "Look at how the time of `run` grows with T (`strata-nb bench engine`): rows "
        "should share dense weights and experts.",
    )


def _rejected(
    found: Account,
    windows: Sequence[Spent],
    usual: tuple[int, float, float | None],
    share_ms: float,
) -> Cause:
    drafts, taken, needed = usual
    price = (found.prices(drafts + 1) - found.plain_target) / drafts
    wanted = 100.0 if needed is None else 100 * needed
    return Cause(
        "rejected",
        share_ms,
        (
            Number("drafts accepted of those compared", 100 * taken, "%"),
            Number(f"needed to break even with {drafts} drafts", wanted, "%"),
            Number("a row of a draft", price, "ms"),
            Number("drafts offered", sum(w.offered for w in windows), ""),
        ),
        "Drafts are rejected too often for what their rows cost.",
        "Ask for a longer match before drafting, propose fewer drafts, or decode this "
        "kind of text without.",
    )


def _spell(found: Account, at: int) -> Cause | None:
    """Rejections from window `at` with drafts on, where acceptance changes most."""
    windows = found.drafted
    rates, costs = [], []
    for part in (windows[:at], windows[at:]):
        rates.append(_rate(part))
        costs.append(cut_ms(part, found.prices, drafts=max(w.rows for w in part)))
    turned = costs[0] <= found.plain_target < costs[1] and rates[1] <= rates[0] / 2
    if not turned:
        return None
    tokens = sum(w.natural for w in windows[at:])
    share_ms = (costs[1] - found.plain_target) * tokens
    return Cause(
        "spell",
        share_ms / sum(w.natural for w in found.asked),
        (
            Number("accepted before", 100 * rates[0], "%"),
            Number("accepted after", 100 * rates[1], "%"),
            Number("windows with drafts after", len(windows) - at, ""),
            Number("it turns at cell", windows[at].record.position, ""),
        ),
        "Drafts were accepted up to a point, and hardly any after it: the text has "
        "turned, or the drafter no longer follows it.",
        "Stop drafting after some windows without an accepted draft, and run "
        "`strata-nb gate` if you doubt the engine.",
    )


def drafter(found: Account) -> Sequence[Cause]:
    """The time to find drafts."""
    drafts = sum(w.rows - 1 for w in found.asked)
    whole = sum(w.draft for w in found.asked)
    return [
        Cause(
            "drafter",
            found.per_token("draft"),
            (
                Number("of a window", whole / len(found.asked), "ms"),
                Number("of a draft", whole / drafts if drafts else whole, "ms"),
                Number("share of all time", 100 * whole / found.total_ms, "%"),
            ),
            "The drafter itself takes the time.",
            "Give it less to search or a smaller model, or take `SuffixLookup`, which "
            "takes microseconds.",
        )
    ]


def waits(found: Account) -> Sequence[Cause]:
    """Waits for experts beyond those of plain decoding: missed ones, and late ones."""
    share_ms = found.per_token("wait") - found.plain.wait
    count = {
        name: _layers_sum(found.asked, name)
        for name in ("miss", "late", "prefetched", "resident", "evicted")
    }
    # Who was read ahead to some use was wanted at least once.
    wasted = max(0.0, count["prefetched"] - count["resident"] - count["late"])
    ahead, missed = count["late"] + wasted, count["miss"]
    part = ahead / (ahead + missed) if ahead + missed else 0.0
    many = len(found.asked)
    waited = Number("waited in a window", _mean(found.asked, lambda w: w.wait), "ms")
    without = Number("without drafts", found.plain.wait, "ms")
    cold = Cause(
        "cold_experts",
        share_ms * (1 - part),
        (
            waited,
            without,
            Number("experts missed in a window", missed / many, ""),
            Number("experts beyond the root's", _beyond(found, "root"), ""),
            Number("experts only rejected rows used", _beyond(found, "kept"), ""),
        ),
        "Rows of drafts use experts that are not in memory, and the window waits until "
        "they are read.",
        "Give experts more slots, propose fewer drafts, or keep drafts to ready "
        "experts (`HardBudget`, approximate).",
    )
    late = Cause(
        "prefetch",
        share_ms * part,
        (
            waited,
            without,
            Number("late experts in a window", count["late"] / many, ""),
            Number("read ahead in a window", count["prefetched"] / many, ""),
            Number("of them never used, at least", wasted / many, ""),
            Number("evicted in a window", count["evicted"] / many, ""),
        ),
        "Reads ahead come late or are for nothing, and those that are needed wait "
        "behind them.",
        "Read less ahead (`prefetch_most`, `CutOff`, `Ahead(root_only=True)`), or give "
        "experts more slots.",
    )
    return [cold, late]


def commit(found: Account) -> Sequence[Cause]:
    """Commit and fold beyond those of plain decoding."""
    return [
        Cause(
            "commit",
            found.per_token("commit") - found.plain.commit,
            (
                Number("of a window", _mean(found.asked, lambda w: w.commit), "ms"),
                Number("without drafts", found.plain.commit, "ms"),
                Number("of it folds", _mean(found.asked, _fold), "ms"),
            ),
            "Commit and fold are dear: what is kept is computed or copied once more.",
            "Compare the folds (`fold=`, `partial=` of `model.engine`), and keep as "
            "many rows as the rule does.",
        )
    ]


def forced(found: Account) -> Sequence[Cause]:
    """Keeps below the natural one: tokens computed, and not emitted."""
    lost = sum(w.lost for w in found.asked)
    many = sum(w.lost > 0 for w in found.asked)
    return [
        Cause(
            "forced_keep",
            found.token_ms - found.total_ms / (found.tokens + lost),
            (
                Number("windows cut short", many, ""),
                Number("tokens given up", lost, ""),
            ),
            "Fewer rows are kept than the rule accepts, so accepted drafts are "
            "computed twice.",
            "Pass `keep=result.keep` to `commit`, or nothing at all.",
        )
    ]


def building(found: Account) -> Sequence[Cause]:
    """What windows that were not warm took more than others."""
    cold = [w for w in found.asked if not w.is_warm]
    over = sum(map(sum, found.building))
    return [
        Cause(
            "not_warm",
            over / found.tokens,
            (
                Number("windows that were not warm", len(cold), ""),
                Number("of all", 100 * len(cold) / len(found.asked), "%"),
                Number("each took more by", over / max(1, len(cold)), "ms"),
            ),
            "Windows were not warm: something had to be built or compiled for their "
            "shape first.",
            "Run a window of each T before you measure, and keep to few different T.",
        )
    ]


def context(found: Account) -> Sequence[Cause]:
    """What a long context adds to rows, beyond what it adds without drafts."""
    last = max(w.record.position for w in found.asked)
    return [
        Cause(
            "long_context",
            found.context_ms,
            (
                Number("a row takes more by", 1e3 * found.slope, "ms for 1,000 cells"),
                Number("from cell", found.first, ""),
                Number("to cell", last, ""),
                Number("a token at the shortest context", found.plain_target, "ms"),
            ),
            "The context is long, and every row, kept or not, is dearer for it.",
            "Propose fewer drafts as the context grows, or compare with plain decoding "
            "at the same place.",
        )
    ]


def few(found: Account) -> Sequence[Cause]:
    """Hardly a window has a draft: nothing was to be gained."""
    with_drafts = [w for w in found.asked if w.rows > 1]
    covered = len(with_drafts) / len(found.asked)
    if covered >= FEW:
        return []
    missed_ms = 0.0
    if with_drafts:
        tokens = sum(w.emitted for w in with_drafts)
        theirs = sum(w.pass_ms + w.draft for w in with_drafts) / tokens
        missed_ms = max(0.0, found.plain.ms - theirs) * (1 - tokens / found.tokens)
    return [
        Cause(
            "few_drafts",
            missed_ms,
            (
                Number("windows with drafts", 100 * covered, "%"),
                Number("windows that asked for drafts", len(found.asked), ""),
            ),
            "There were hardly any drafts, so there was nothing to gain.",
            "Ask for a shorter match or another drafter; on text that does not repeat "
            "itself a lookup finds nothing.",
        )
    ]


FINDERS: Final[Sequence[Callable[[Account], Sequence[Cause]]]] = (
    rows,
    drafter,
    waits,
    commit,
    forced,
    building,
    context,
)
"""All whose share has to be large; `few` is named by coverage too."""


def _rate(windows: Sequence[Spent]) -> float:
    """Share accepted of the drafts that were compared."""
    tried = sum(map(trials, windows))
    return sum(w.accepted for w in windows) / tried if tried else 0.0


def _fold(window: Spent) -> float:
    return window.record.fold_ms or 0.0


def _mean(windows: Sequence[Spent], of: Callable[[Spent], float]) -> float:
    return sum(map(of, windows)) / len(windows)


def _layers_sum(windows: Sequence[Spent], name: str) -> float:
    """Sum over all layers of a count, those that were not measured left out."""
    return float(
        sum(getattr(layer, name) or 0 for w in windows for layer in w.record.layers)
    )


def _beyond(found: Account, whose: str) -> float:
    return _layers_sum(found.asked, f"cold_beyond_{whose}") / len(found.asked)
