"""Reports throughput that rises or falls from trial to trial in all arms."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from pgdyno.analyse.intervals import two_sided_quantile
from pgdyno.audit.arms import arms_of, compares_no_arms, order_is_drawn, point_of
from pgdyno.audit.finding import COUNTS, Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

CONFIDENCE = 0.99
"""Confidence that the slope is not chance: one clean run in a hundred is reported as drifting."""
LEAST = 0.01
"""Differences between two arms below this count as none (docs/design/method.md, Verdict)."""
OVER_RUN = 0.05
"""Change from the first trial to the last that is worth a note even if the order of trials cancels it in differences.
"""
HALF = 0.5
"""If drift alone explains this share of a measured difference, the difference is meaningless."""
FEWEST_FREE = 3
"""Least degrees of freedom of the residuals."""
FEWEST_IN_ORDER = 3
_SORTED = ("csv", "table")
"""Tools of imports whose rows may be sorted by a figure."""


@dataclass(frozen=True, slots=True)
class _Drift:
    """A common slope of log throughput by position in the order of trials; each arm and point has its own level."""

    slope: float
    """Change of log throughput per trial."""
    error: float
    freedom: int

    @property
    def is_certain(self) -> bool:
        return abs(self.slope) > two_sided_quantile(CONFIDENCE, self.freedom) * self.error


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.manifest.counts_instructions:
        raise MissingError(COUNTS)
    if subject.imported and not all(sample.trial.started_at is not None for sample in subject.samples):
        yield from _judge_order_of_repeats(subject)
        return
    groups = _groups(subject)
    places = _places(subject)
    found = _fit_drift(groups, places)
    if found is None:
        raise MissingError(Message("few-repeats-for-drift", "too few repeats to distinguish drift from noise"))
    if not found.is_certain:
        return
    is_fair = compares_no_arms(subject.manifest) or order_is_drawn(subject.manifest)
    biased = [] if is_fair else list(_find_biased(groups, places, found.slope))
    change = math.expm1(found.slope * (max(places.values()) - min(places.values())))
    figures: dict[str, float | str] = {
        "change_per_trial": round(math.expm1(found.slope), 5),
        "standard_error": round(found.error, 5),
        "change_over_run": round(change, 4),
    }
    if biased:
        worst = max(biased, key=lambda each: abs(each.bias))
        yield RuleFinding(
            Severity.INVALID if any(each.explains_half for each in biased) else Severity.CAUTION,
            Message(
                "drift-between-arms",
                "throughput changes by {change:+.1%} from one trial to the next, and the arms were measured at "
                "different times: drift alone accounts for {bias:+.1%} of {other} vs {base} (measured: "
                "{difference:+.1%})"
                if not subject.manifest.runs_once
                else "the composite changes by {change:+.1%} from one trial to the next, and the arms were measured "
                "at different times: drift alone accounts for {bias:+.1%} of {other} vs {base} (measured: "
                "{difference:+.1%})",
                change=math.expm1(found.slope),
                bias=math.expm1(worst.bias),
                other=worst.other,
                base=worst.base,
                difference=math.expm1(worst.difference),
            ),
            [number for each in biased for number in each.trials],
            [
                Evidence(at="trials", figures=figures),
                *(Evidence(at="trials", figures=each.figures()) for each in biased),
            ],
            'measure again with trial.order = "interleaved", and find the cause of the drift',
        )
    elif abs(change) > OVER_RUN:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "drift-over-run",
                "throughput changes by {change:+.0%} from the first trial to the last, equally in all arms"
                if not subject.manifest.runs_once
                else "the composite changes by {change:+.0%} from the first trial to the last, equally in all arms",
                change=change,
            ),
            (),
            [Evidence(at="trials", figures=figures)],
            "find the cause of the drift: temperature, caches, bloat, a burst balance; the order of trials cancels "
            "it in differences",
        )


def _judge_order_of_repeats(subject: Subject) -> Iterator[RuleFinding]:
    """Judge outputs without a time by their order in the file, which is that of the runs of each point."""
    series = [
        [sample.rate for sample in samples]
        for samples in _groups(subject).values()
        if len(samples) >= FEWEST_IN_ORDER and not any(sample.tool in _SORTED for sample in samples)
    ]
    if not series:
        raise MissingError(Message("no-trial-order", "the order of the trials is unknown"))
    rising, falling, slowest = (
        sum(map(is_so, series))
        for is_so in (
            lambda rates: all(a < b for a, b in pairwise(rates)),
            lambda rates: all(a > b for a, b in pairwise(rates)),
            lambda rates: rates[0] == min(rates),
        )
    )
    # of the orders of n repeats, two rise or fall throughout; the sum over points of different n is no binomial one
    chances = np.ones(1)
    for rates in series:
        ordered = 2 / math.factorial(len(rates))
        chances = np.convolve(chances, (1 - ordered, ordered))
    chance = float(chances[rising + falling :].sum())
    if chance <= 1 - CONFIDENCE:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "drift-in-order",
                "throughput rises from repeat to repeat at {rising} of {all} points and falls at {falling}, which is "
                "chance in {chance:.1%} of cases, and the first repeat is the slowest at {slowest}: the servers were "
                "not in a steady state",
                rising=rising,
                falling=falling,
                all=len(series),
                slowest=slowest,
                chance=chance,
            ),
            (),
            [
                Evidence(
                    at=samples[0].figure_location("tps"),
                    figures={
                        "target": samples[0].target,
                        "tps_in_order": ", ".join(f"{sample.rate:,.0f}" for sample in samples),
                    },
                )
                for samples in _groups(subject).values()
            ],
            "warm up until throughput is level before the first repeat, and measure the targets in turns",
        )


_Group = tuple[str, str]
"""Point and arm."""


def _groups(subject: Subject) -> dict[_Group, list[Sample]]:
    names = arms_of(subject.run.trials)
    found: dict[_Group, list[Sample]] = defaultdict(list)
    for sample in subject.samples:
        if sample.rate > 0:
            found[point_of(sample.trial), names[sample.number]].append(sample)
    return found


def _places(subject: Subject) -> dict[int, float]:
    started = {each.number: each.trial.started_at for each in subject.samples}
    order = sorted(started, key=lambda number: (each.timestamp() if (each := started[number]) else 0.0, number))
    places = {number: float(place) for place, number in enumerate(order)}
    partners = {each.number: each.trial.duet.partner for each in subject.samples if each.trial.duet is not None}
    return {number: min(place, places.get(partners.get(number, number), place)) for number, place in places.items()}


def _fit_drift(groups: Mapping[_Group, Sequence[Sample]], places: Mapping[int, float]) -> _Drift | None:
    """Fit log throughput by least squares within groups; None without enough repeats or spread of positions."""
    x: list[float] = []
    y: list[float] = []
    for samples in groups.values():
        place = [places[sample.number] for sample in samples]
        rate = [math.log(sample.rate) for sample in samples]
        x += [each - statistics.fmean(place) for each in place]
        y += [each - statistics.fmean(rate) for each in rate]
    freedom = len(x) - len(groups) - 1
    squares = sum(each * each for each in x)
    if freedom < FEWEST_FREE or squares == 0:
        return None
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / squares
    rest = sum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    return _Drift(slope, math.sqrt(rest / freedom / squares), freedom)


@dataclass(frozen=True, slots=True)
class _Biased:
    """Two arms at a point that were measured at different times of the run."""

    base: str
    other: str
    bias: float
    """Log ratio that drift alone causes."""
    difference: float
    """Measured log ratio."""
    trials: tuple[int, ...]

    @property
    def explains_half(self) -> bool:
        return self.bias * self.difference > 0 and abs(self.bias) >= HALF * abs(self.difference)

    def figures(self) -> dict[str, float | str]:
        return {
            "base": self.base,
            "other": self.other,
            "by_drift": round(math.expm1(self.bias), 4),
            "measured": round(math.expm1(self.difference), 4),
        }


def _find_biased(
    groups: Mapping[_Group, Sequence[Sample]], places: Mapping[int, float], slope: float
) -> Iterator[_Biased]:
    by_point: dict[str, dict[str, Sequence[Sample]]] = defaultdict(dict)
    for (point, arm), samples in groups.items():
        by_point[point][arm] = samples
    for arms in by_point.values():
        for base, other in combinations(arms, 2):
            at = [statistics.fmean(places[each.number] for each in arms[name]) for name in (base, other)]
            level = [statistics.fmean(math.log(each.rate) for each in arms[name]) for name in (base, other)]
            bias = slope * (at[1] - at[0])
            if abs(bias) > LEAST:
                trials = tuple(each.number for name in (base, other) for each in arms[name])
                yield _Biased(base, other, bias, level[1] - level[0], trials)


RULE = Rule(
    "drift",
    "throughput by the order of trials: a line through the logarithms, with its own level for each arm and point, "
    "whose slope is significant at 99 %. Caution if it makes a difference of over 1 % between two arms, because "
    "their trials are at different positions of an order that was not drawn; invalid if that is at least half of the "
    "measured difference; a note if the order cancels it and the run as a whole changed by over 5 %. Imported outputs "
    "without a time: caution if repeats rise or fall in order at more points than chance explains at 99 %",
    Severity.INVALID,
    "docs/design/method.md, Order",
    _check,
    place=300,
)
