"""Runs all experiments on one engine, and says what became of each."""

import operator
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from strata_nb.gates.foreign.cases import LEAST, NAME, cases
from strata_nb.gates.foreign.driver import Driver, Refusal, Way
from strata_nb.gates.foreign.experiments import EXPERIMENTS
from strata_nb.gates.foreign.protocol import (
    CanSave,
    CanTrim,
    ForeignEngine,
    ForeignEngineError,
)
from strata_nb.gates.foreign.report import ForeignReport, Outcome
from strata_nb.gates.foreign.rows import LARGEST_FLOOR, Bounds, Judge, Rows
from strata_nb.gates.records import PROFILES, Case, CaseResult, Finding, Profile


def examine(
    engine: ForeignEngine,
    *,
    prompt: Sequence[int],
    profile: Profile = "quick",
    floor: float | None = None,
    reference: ForeignEngine | None = None,
    families: Collection[str] = tuple(EXPERIMENTS),
) -> ForeignReport:
    """Ask an engine every question that can be answered from its logits.

    Args:
        engine: the one examined; it is reset and fed, and left at some place.
        prompt: tokens of a text, 12 or more: long enough for all that changes with
            length, such as a sliding window or a sparse threshold.
        profile: "quick" (some 60 cases), "full" (some hundreds) or "exhaustive", with a
            window at every cell.
        floor: absolute difference of logits that rounding makes. Without it, and
            without `reference`, a token that differs is always a fault.
        reference: the same model in float64; the floor is twice the difference to it,
            since both of two runs round.
        families: experiments to run, all of `EXPERIMENTS` when not given.

    Returns:
        One outcome for each case. An engine that cannot do a thing and says so has
        "refused"; one that says nothing and does not do it has a "fault".

    Raises:
        ForeignEngineError: the engine cannot even be fed a text row by row.
        ValueError: the prompt is too short or outside the vocabulary, the profile or a
            family is unknown, the floor is larger than any rounding or given twice.
    """
    text = tuple(operator.index(token) for token in prompt)
    _check(text, profile, floor, reference, families)
    driver = Driver(engine, text)
    serial = _serial(driver)
    bounds = Bounds(_scale(serial), floor)
    if floor is not None and not 0 <= floor <= LARGEST_FLOOR * bounds.scale:
        raise ValueError(
            f"`floor` is {floor:g}, and the root mean square of the logits is "
            f"{bounds.scale:g}; wanted 0 to {LARGEST_FLOOR:.0%} of it: no rounding is "
            "larger"
        )
    outcomes = []
    if reference is not None:
        bounds, outcome = _measured(reference, driver, serial, bounds)
        outcomes.append(outcome)
    ways = tuple(_ways(engine))
    for case in cases(len(text), profile, ways=ways):
        if case.family in families:
            outcomes.append(_outcome(case, driver, serial, bounds))
    outcomes += (o for o in _not_offered(ways) if o.case.family in families)
    name = str(getattr(engine, "name", type(engine).__name__))
    return ForeignReport(name, profile, len(text), bounds, tuple(outcomes))


def _check(
    text: Sequence[int],
    profile: str,
    floor: float | None,
    reference: ForeignEngine | None,
    families: Collection[str],
) -> None:
    if unknown := sorted(set(families) - set(EXPERIMENTS)):
        raise ValueError(
            f"`families` has {', '.join(unknown)}, wanted some of "
            f"{', '.join(EXPERIMENTS)}"
        )
    if profile not in PROFILES:
        raise ValueError(
            f"`profile` is {profile!r}, wanted one of {', '.join(PROFILES)}"
        )
    if len(text) < LEAST:
        raise ValueError(
            f"`prompt` has {len(text)} tokens, wanted {LEAST} or more; windows of 8 "
            "rows start at several places in it"
        )
    if floor is not None and reference is not None:
        raise ValueError(
            "`floor` and `reference` are both given; the floor is measured from the "
            "reference, so leave one of them out"
        )


def _serial(driver: Driver) -> Rows:
    """Logits of the text, fed row by row [n, V]; what all else is measured by."""
    text = driver.text
    driver.start(0)
    first = driver.feed(text[:1])
    if max(text) >= driver.vocabulary or min(text) < 0:
        raise ValueError(
            f"`prompt` has tokens from {min(text)} to {max(text)}, wanted 0 to "
            f"{driver.vocabulary - 1}: the logits have that many columns"
        )
    rows = np.concatenate([first, driver.each(text[1:])])
    if not np.isfinite(rows).all():
        raise ForeignEngineError(
            "the logits of plain decoding are not finite; nothing can be compared"
        )
    return rows


def _scale(rows: Rows) -> float:
    """Root mean square, never 0."""
    return max(float(np.sqrt(np.mean(rows**2))), 1e-30)


def _ways(engine: ForeignEngine) -> Iterator[Way]:
    if isinstance(engine, CanTrim):
        yield "trim"
    if isinstance(engine, CanSave):
        yield "restore"


def _measured(
    reference: ForeignEngine, driver: Driver, serial: Rows, bounds: Bounds
) -> tuple[Bounds, Outcome]:
    """The floor, from the same text fed to the reference."""
    twin = Driver(reference, driver.text)
    twin.start(0)
    exact = twin.each(driver.text)
    if exact.shape != serial.shape:
        raise ValueError(
            f"`reference` has {exact.shape[1]} columns of logits and the engine "
            f"{serial.shape[1]}; wanted the same model in float64"
        )
    size = float(np.abs(serial - exact).max())
    case = Case(NAME, "reference", (), touches=(), group=NAME)
    far = (
        f"{size:.1e} from its reference, {size / bounds.scale:.1e} of the logits' size"
    )
    # Both of two runs round, so they may be twice as far from each other.
    if 2 * size <= LARGEST_FLOOR * bounds.scale:
        return Bounds(bounds.scale, 2 * size), Outcome(CaseResult(case), far)
    fault = Finding("fault", "serial", "after", "logits", size=size, note=far)
    words = (
        f"{far}: more than rounding makes, unless it turned a choice of experts; no "
        "near-tie is granted"
    )
    return bounds, Outcome(CaseResult(case, (fault,)), words)


def _outcome(case: Case, driver: Driver, serial: Rows, bounds: Bounds) -> Outcome:
    judge, refusal = Judge(bounds), None
    try:
        EXPERIMENTS[case.family](case, driver, serial, judge)
    except Refusal as error:
        refusal = error.words
        _left_alone(driver, judge)
    except ForeignEngineError as error:
        judge.rule(str(error))
    result = CaseResult(case, tuple(judge.findings))
    cause = result.cause
    if refusal is not None:
        words = f"{refusal}; nothing had changed by then"
        if judge.failed and cause is not None:
            words = f"{refusal}; but {cause.note}"
        return Outcome(result, words, refused=True)
    if cause is None:
        return Outcome(result, f"largest difference {judge.largest:.1e}")
    where = "" if cause.cell is None else f"cell {cause.cell}: "
    return Outcome(result, where + cause.note)


def _left_alone(driver: Driver, judge: Judge) -> None:
    """An engine that refuses must still hold exactly what it held before."""
    held = tuple(driver.held)
    token = driver.text[:1]
    try:
        got = driver.feed(token)
        driver.start(0)
        if held:
            driver.feed(held)
        judge.rows(got, driver.feed(token), cell=len(held), note="after it refused: ")
    except ForeignEngineError as error:
        judge.rule(f"after it refused: {error}")


def _not_offered(ways: Sequence[Way]) -> Iterator[Outcome]:
    """An engine without a way back says so by what it does not have."""
    if "restore" in ways:
        return
    missing = {"resume": "it offers no `save` and `restore`"}
    if not ways:
        missing["rejection"] = "it offers neither `trim` nor `save` and `restore`"
    for family, words in missing.items():
        case = Case(NAME, family, (), touches=(), group=NAME)
        yield Outcome(CaseResult(case), words, refused=True)
