"""Promises of the plan: whether each was held, by arm and point, with the interval over the trials there.

A promise is held if the 95 % interval of its figure lies within the limit, and broken if it lies outside. The trial is
the unit: one trial has no interval. The largest latency and a promise of no errors are about every transaction of the
trials, so that one transaction breaks them.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pgdyno.analyse.capacity import SERVED_SHARE
from pgdyno.analyse.comparison import new_run_pairs
from pgdyno.analyse.intervals import CONFIDENCE, Interval, Method, trials_interval
from pgdyno.analyse.summary import PointSummary, answered_count, promise_figure, share
from pgdyno.audit.pairing import of_single_trials, trials_of
from pgdyno.errors import StoreError
from pgdyno.records import Point, Summary, TrialRecord
from pgdyno.records.promise import OF_FOLLOWERS, Promise, parse_promise
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_each, gettext_noop
from pgdyno.store.run_union import RunUnion

MOST_LINES = 8
"""Promises that an answer names one by one."""
ENOUGH = 3
"""The fewest trials whose interval is of use."""
_Z = 1.96
"""Of a normal distribution, at `CONFIDENCE`."""


class Verdict(StrEnum):
    BROKEN = gettext_noop("broken")
    UNKNOWN = gettext_noop("cannot tell")
    HELD = gettext_noop("held")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A promise at one point of an arm."""

    promise: Promise
    point: PointSummary
    verdict: Verdict
    trials: int
    figure: float | None = None
    """In the unit of the promise's limit; None if a trial has none."""
    ends: tuple[float, float] | None = None
    """The 95 % interval; None for one trial, and for a figure that is about every transaction."""
    served: float | None = None
    """The answered share of the due transactions, if it decides: those that never started have no latency."""
    needed: int | None = None
    """Trials of a new run that tell with a chance of 80 %; None if this one does, and beyond 1,000."""


def promises_at(plan: Mapping[str, Any], point: Point) -> list[Promise]:
    """Return the promises of a resolved plan for the load at `point`, and its group; one on the rate needs one there.

    Raises ValueError for a damaged plan.
    """
    owners = [plan.get("trial") or {}, *(each for each in plan.get("group") or () if each["name"] == point.group)]
    promises = [parse_promise(text) for each in owners for text in each.get("promise") or ()]
    is_open = point.rate is not None or plan.get("phase")
    return [each for each in promises if each.figure != "rate" or is_open]


def judged_promises(of: Digest, extras: Extras) -> list[Judgement]:
    """Return each promise at each point; none for several runs, which may differ in their promises, and for a search,
    which also tries points that break them. Raises StoreError.

    Trials that the comparisons leave out as invalid do not count.
    """
    invalid = trials_of(of_single_trials(extras.findings or ())[1]).intersection(extras.left_out)
    counted = {trial.number: trial for trial in of.run.trials if trial.number not in invalid}
    found = []
    for point in () if isinstance(of.run, RunUnion) or of.manifest.search else of.points:
        trials = [counted[number] for number in point.finished if number in counted]
        try:
            promises = promises_at(of.manifest.plan, point.point)
        except (ValueError, TypeError, AttributeError) as error:
            message = f"cannot read the manifest of {of.manifest.run}: promises of its plan: {error}"
            raise StoreError(message, hint="the file was changed or damaged") from error
        found += [judgement(promise, point, trials) for promise in promises]
    return found


def judged_of(of: Digest, promises: Sequence[Promise], trials: Mapping[int, bool]) -> list[Judgement]:
    """Return each of `promises` at each point of the `trials`, by number; those with False do not count."""
    by_number = {trial.number: trial for trial in of.run.trials}
    found = []
    for point in of.points:
        if trials.keys().isdisjoint((*point.finished, *point.failed)):
            continue
        counted = [by_number[number] for number in point.finished if trials.get(number)]
        is_open = point.point.rate is not None or bool(of.manifest.plan.get("phase"))
        for each in promises:
            # without a rate, nothing is due
            known = is_open or each.figure != "rate"
            unknown = Judgement(each, point, Verdict.UNKNOWN, len(counted))
            found.append(judgement(each, point, counted) if known else unknown)
    return found


def judgement(promise: Promise, point: PointSummary, trials: Sequence[TrialRecord]) -> Judgement:
    """Return the verdict of the finished `trials` at `point`."""
    summaries = [trial.summary for trial in trials if trial.summary is not None]
    figures = [promise_figure(promise, each) for each in trials if each.summary is not None]
    known = [each for each in figures if each is not None]
    if not known or len(known) < len(figures):
        return Judgement(promise, point, Verdict.UNKNOWN, len(figures))
    instances = [trial.instance for trial in trials]
    found = _by_transaction(promise, point, known) or _by_interval(promise, point, known, instances, summaries)
    # a refusal is quick, and must not count as an answer
    answered = trials_interval([share(answered_count(each) - each.refused, each.due) for each in summaries], instances)
    if promise.field is None or not promise.is_ceiling or answered.low >= SERVED_SHARE:
        return found
    is_late = answered.half is not None and answered.high < SERVED_SHARE
    verdict = Verdict.BROKEN if is_late or found.verdict is Verdict.BROKEN else Verdict.UNKNOWN
    return Judgement(promise, point, verdict, found.trials, found.figure, found.ends, answered.mean)


def _by_transaction(promise: Promise, point: PointSummary, figures: Sequence[float]) -> Judgement | None:
    is_of_each = promise.figure in ("max", *OF_FOLLOWERS) or (promise.figure == "errors" and promise.limit == 0)
    if not is_of_each:
        return None
    largest = max(figures)
    return Judgement(promise, point, Verdict.HELD if promise.allows(largest) else Verdict.BROKEN, len(figures), largest)


def _by_interval(
    promise: Promise,
    point: PointSummary,
    figures: Sequence[float],
    instances: Sequence[int | None],
    summaries: Sequence[Summary],
) -> Judgement:
    """Judge by Student's interval over trials: of the logarithm of a latency, which it cannot make negative; a share of
    errors by the wider of it and Wilson's (1927), because trials without an error do not vary.
    """
    is_log = promise.field is not None
    values = [math.log(max(each, 1.0)) for each in figures] if is_log else figures
    over = trials_interval(values, instances)
    mean, low, high = ((math.exp(each) if is_log else each) for each in (over.mean, over.low, over.high))
    if over.half is None:
        return Judgement(promise, point, Verdict.UNKNOWN, len(figures), mean)
    if promise.figure == "errors":
        ends = _wilson(sum(each.failed or 0 for each in summaries), sum(map(answered_count, summaries)))
        low, high = min(low, ends[0]), max(high, ends[1])
    if promise.figure in ("errors", "rate"):
        low, high = max(low, 0.0), min(high, 1.0)
    kept = {promise.allows(low), promise.allows(high)}
    verdict = Verdict.UNKNOWN if len(kept) > 1 else Verdict.HELD if True in kept else Verdict.BROKEN
    needed = None
    if verdict is Verdict.UNKNOWN and over.instances == 1 and promise.figure != "errors":
        off = over.mean - (math.log(promise.limit) if is_log else promise.limit)
        freedom, spread = over.n - 1, statistics.stdev(values)
        beyond = Interval(off, off, off, spread / math.sqrt(over.n), freedom, CONFIDENCE, Method.T)
        needed = new_run_pairs(beyond, spread, 0.0, paired=True, fewest=ENOUGH)
    return Judgement(promise, point, verdict, len(figures), mean, (max(low, 0.0), high), needed=needed)


def _wilson(part: int, whole: int) -> tuple[float, float]:
    """Return Wilson's score interval: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)."""
    n = max(whole, 1)
    p, extra = part / n, _Z**2 / n
    half = _Z * math.sqrt(p * (1 - p) / n + extra / (4 * n))
    return (p + extra / 2 - half) / (1 + extra), (p + extra / 2 + half) / (1 + extra)


# ---- words ----


def promises_text(judged: Sequence[Judgement], of: Digest) -> str:
    """Return the only promise, or how many were held."""
    if len(judged) == 1:
        return promise_line(judged[0], of)
    counts = [(each, sum(one.verdict is each for one in judged)) for each in reversed(Verdict)]
    return gettext(
        "Promises: {parts}", parts=enumeration([f"{count} {gettext(each)}" for each, count in counts if count])
    )


def promise_lines(judged: Sequence[Judgement], of: Digest) -> Iterator[str]:
    """Return a line for each promise at each point, broken ones first."""
    ordered = [one for each in Verdict for one in judged if one.verdict is each]
    yield from (promise_line(each, of) for each in ordered[:MOST_LINES])
    if len(ordered) > MOST_LINES:
        yield gettext("and {count} more", count=len(ordered) - MOST_LINES)


def promise_line(of: Judgement, run: Digest) -> str:
    """Return a promise at a point with its verdict, figure and interval."""
    verdict, about = gettext(of.verdict), ", ".join(_about(of))
    where = {"promise": of.promise.words, "point": run.point_name(of.point), "verdict": verdict}
    if not about:
        return gettext("{promise} at {point}: {verdict}", **where)
    return gettext("{promise} at {point}: {verdict} ({about})", **where, about=about)


def _about(of: Judgement) -> Iterator[str]:
    if of.figure is None:
        yield gettext("a trial has no such figure") if of.trials else gettext("no trial finished")
        return
    yield numbers.round_text(of.figure * _unit(of.promise)[0]) + _unit(of.promise)[1]
    if of.ends is not None and of.ends[0] < of.ends[1]:
        yield _interval(of)
    if of.served is not None:
        yield gettext("{share} % of the rate served", share=numbers.round_text(100 * of.served))
    if of.verdict is Verdict.UNKNOWN and of.trials < ENOUGH:
        yield gettext("{trials}: use repeats = {enough}", trials=numbers.trials(of.trials), enough=ENOUGH)
    elif of.needed is not None:
        yield gettext("a new run of about {trials} would tell with a chance of 80 %", trials=numbers.trials(of.needed))


def _interval(of: Judgement) -> str:
    if of.ends is None:
        return numbers.NOTHING
    return numbers.range_text(*numbers.distinct_texts(*(end * _unit(of.promise)[0] for end in of.ends)))


def _unit(of: Promise) -> tuple[float, str]:
    if of.field is not None or of.figure == "lag":
        return 1e-6, " ms"
    return {"tps": (1.0, " tps"), "archive": (1e-6, " MB")}.get(of.figure, (100.0, " %"))


def promise_table(judged: Sequence[Judgement], of: Digest) -> Table | None:
    """Return a row for each promise at each point; None if the answer has them all."""
    if len(judged) <= MOST_LINES:
        return None
    rows = tuple(
        (
            each.promise.words,
            of.point_name(each.point),
            gettext(each.verdict),
            numbers.NOTHING if each.figure is None else numbers.round_text(each.figure * _unit(each.promise)[0]),
            _interval(each),
            f"{each.trials:,}",
        )
        for each in judged
    )
    headings = gettext_each("promise", "point", "verdict", "figure", "95 % interval", "trials")
    return Table(gettext("Promises of the plan"), headings, rows, 3)


def promises_json(judged: Iterable[Judgement]) -> list[dict[str, Any]]:
    """Return each promise at each point: latencies in nanoseconds, shares as 0.95 for 95 %."""
    return [
        {
            "promise": each.promise.text,
            "target": each.point.series.target,
            **each.point.series.parameters(),
            "clients": each.point.clients,
            "verdict": each.verdict.value,
            "figure": each.figure,
            "low": None if each.ends is None else each.ends[0],
            "high": None if each.ends is None else each.ends[1],
            "confidence": CONFIDENCE,
            "trials": each.trials,
            "new_run_trials": each.needed,
        }
        for each in judged
    ]
