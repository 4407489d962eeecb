"""Throughput that rises or falls from trial to trial, whatever the arm."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pgdyno.analyse.student_t import two_sided_quantile
from pgdyno.audit.arms import arms_of, point_of
from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

CONFIDENCE = 0.99
"""That the slope is not chance: one clean run in a hundred is called drifting."""
LEAST = 0.01
"""What drift may add to a difference of two arms: smaller ones count as none (docs/design/method.md, Verdict)."""
OVER_RUN = 0.05
"""From the first trial to the last, where the order of trials keeps drift out of differences: worth a note."""
HALF = 0.5
"""Share of a measured difference that drift alone explains, from which the difference says nothing."""
FEWEST_FREE = 3
"""Degrees of freedom of the residuals."""


@dataclass(frozen=True, slots=True)
class _Drift:
    """A common slope of log throughput by place in the order of trials, each arm and point with its own level."""

    slope: float
    """Per trial."""
    error: float
    freedom: int

    @property
    def is_certain(self) -> bool:
        return abs(self.slope) > two_sided_quantile(CONFIDENCE, self.freedom) * self.error


def _check(subject: Subject) -> Iterator[Said]:
    if subject.imported and not all(sample.trial.started_at is not None for sample in subject.samples):
        raise MissingError("the order of the trials is unknown")
    groups = _groups(subject)
    places = _places(subject)
    found = _fitted(groups, places)
    if found is None:
        raise MissingError("too few repeats to tell drift from noise")
    if not found.is_certain:
        return
    biased = list(_biased(groups, places, found.slope))
    change = math.expm1(found.slope * (max(places.values()) - min(places.values())))
    figures: dict[str, float | str] = {
        "change_per_trial": round(math.expm1(found.slope), 5),
        "standard_error": round(found.error, 5),
        "change_over_run": round(change, 4),
    }
    if biased:
        worst = max(biased, key=lambda each: abs(each.bias))
        yield Said(
            Severity.INVALID if any(each.explains_half for each in biased) else Severity.CAUTION,
            Message(
                "drift-between-arms",
                "throughput changes by {change:+.1%} from one trial to the next, and the arms were not measured at the "
                "same times: drift alone accounts for {bias:+.1%} of {other} vs {base} (measured: {difference:+.1%})",
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
            'measure again with trial.order = "interleaved", and find out what drifts',
        )
    elif abs(change) > OVER_RUN:
        yield Said(
            Severity.NOTE,
            Message(
                "drift-over-run",
                "throughput changes by {change:+.0%} from the first trial to the last, in all arms alike",
                change=change,
            ),
            (),
            [Evidence(at="trials", figures=figures)],
            "find out what drifts: temperature, caches, bloat, a burst balance; the order of trials evens it out",
        )


_Group = tuple[str, str]
"""Point and arm."""


def _groups(subject: Subject) -> dict[_Group, list[Sample]]:
    names = arms_of(subject.run.trials)
    found: dict[_Group, list[Sample]] = defaultdict(list)
    for sample in subject.samples:
        if sample.summary.tps > 0:
            found[point_of(sample.trial), names[sample.number]].append(sample)
    return found


def _places(subject: Subject) -> dict[int, float]:
    """Place of each trial in the order in which they ran."""
    started = {each.number: each.trial.started_at for each in subject.samples}
    order = sorted(started, key=lambda number: (each.timestamp() if (each := started[number]) else 0.0, number))
    return {number: float(place) for place, number in enumerate(order)}


def _fitted(groups: Mapping[_Group, Sequence[Sample]], places: Mapping[int, float]) -> _Drift | None:
    """Least squares of log throughput within groups; None without enough repeats, or without any spread of places."""
    x: list[float] = []
    y: list[float] = []
    for samples in groups.values():
        place = [places[sample.number] for sample in samples]
        rate = [math.log(sample.summary.tps) for sample in samples]
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
    """Two arms at a point that were measured at other times of the run."""

    base: str
    other: str
    bias: float
    """Log ratio that drift alone makes."""
    difference: float
    """Log ratio as measured."""
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


def _biased(groups: Mapping[_Group, Sequence[Sample]], places: Mapping[int, float], slope: float) -> Iterator[_Biased]:
    by_point: dict[str, dict[str, Sequence[Sample]]] = defaultdict(dict)
    for (point, arm), samples in groups.items():
        by_point[point][arm] = samples
    for arms in by_point.values():
        for base, other in combinations(arms, 2):
            at = [statistics.fmean(places[each.number] for each in arms[name]) for name in (base, other)]
            level = [statistics.fmean(math.log(each.summary.tps) for each in arms[name]) for name in (base, other)]
            bias = slope * (at[1] - at[0])
            if abs(bias) > LEAST:
                trials = tuple(each.number for name in (base, other) for each in arms[name])
                yield _Biased(base, other, bias, level[1] - level[0], trials)


RULE = Rule(
    "drift",
    "throughput by the order of trials: a line through the logarithms, with a level of its own for each arm and point, "
    "whose slope is certain at 99 %. Caution where it makes a difference of over 1 % between two arms, as their trials "
    "lie at other places of the order; invalid where that is half of the difference measured or more; a note where the "
    "order evens it out and the run as a whole moved by over 5 %",
    Severity.INVALID,
    "docs/design/method.md, Order",
    _check,
)
