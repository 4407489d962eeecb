"""Reports repeats of a point that differ widely."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from pgdyno.analyse.intervals import two_sided_quantile
from pgdyno.audit.arms import arms_of, point_of
from pgdyno.audit.finding import COUNTS, Evidence, MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

SPREAD = 0.05
"""Standard deviation over mean. The 95 % interval of the mean difference of six pairs is ± 1.48 standard deviations
wide (t = 2.571 with 5 degrees of freedom, times √2, over √6): above 5 %, six pairs cannot show a difference of 7 %.
"""
CHANCE = 0.01
"""Chance of reporting an outlier among trials that differ by chance alone: F. E. Grubbs, Procedures for Detecting
Outlying Observations in Samples, Technometrics 11 (1969).
"""
FEWEST, FEWEST_FOR_OUTLIERS = 3, 5


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.manifest.counts_instructions:
        raise MissingError(COUNTS)
    names = arms_of(subject.run.trials)
    groups = [samples for samples in _repeats(subject, names) if len(samples) >= FEWEST]
    if not groups and subject.samples and all(sample.trial.duet is not None for sample in subject.samples):
        return
    if not groups:
        raise MissingError(Message("few-repeats", "no point has {least} trials", least=FEWEST))
    figure = "tps" if not subject.manifest.runs_once else "composite"
    wide: list[list[Sample]] = []
    outliers: list[tuple[Sample, float]] = []
    for samples in groups:
        far = _outliers(samples)
        outliers += far.items()
        rest = [sample for sample in samples if sample not in far]
        if _spread(rest) > SPREAD:
            wide.append(rest)
    if outliers:
        most = max(abs(sample.rate / mean - 1) for sample, mean in outliers)
        named = ", ".join(str(sample.number) for sample, _ in outliers)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "repeats-spread-outliers",
                "throughput of trial {trials} is up to {share:.0%} off the mean of the other trials of the same point"
                if figure == "tps"
                else "the composite of trial {trials} is up to {share:.0%} off the mean of the other trials of the "
                "same point",
                "throughput of trials {trials} is up to {share:.0%} off the mean of the other trials of the same point"
                if figure == "tps"
                else "the composite of trials {trials} is up to {share:.0%} off the mean of the other trials of the "
                "same point",
                count=len(outliers),
                trials=named,
                share=most,
            ),
            *evidence_of(
                {
                    sample: {figure: sample.rate, f"mean_of_others_{figure}": round(mean, 3)}
                    for sample, mean in outliers
                },
                "tps",
            ),
            "find out what was different in these trials or in the others, and repeat them",
        )
    if wide:
        most = max(_spread(samples) for samples in wide)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "repeats-spread",
                "repeats of {points} of {all} points vary by up to {spread:.1%} (standard deviation over mean); the "
                "noise grade says which difference still shows",
                points=len(wide),
                all=len(groups),
                spread=most,
            ),
            [sample.number for samples in wide for sample in samples],
            [
                Evidence(at=samples[0].figure_location("tps"), figures=_figures(samples, figure, names))
                for samples in wide
            ],
            "run longer trials, pin processes to cores, or repeat more often",
        )
    if subject.imported:
        # a run of pgdyno's own is judged by intervals
        yield from _rank(groups, names)


def _rank(groups: Sequence[Sequence[Sample]], names: Mapping[int, str]) -> Iterator[RuleFinding]:
    """Report arms whose order by their best repeats differs from that by their worst, of which a source ranks one."""
    by_point: dict[str, list[Sequence[Sample]]] = defaultdict(list)
    for samples in groups:
        by_point[point_of(samples[0].trial)].append(samples)
    pairs = [pair for alike in by_point.values() for pair in combinations(alike, 2)]
    changed = [(a, b) for a, b in pairs if (_best(a) > _best(b)) != (_worst(a) > _worst(b))]
    if changed:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "repeats-spread-rank",
                "the best repeats rank {changed} of {all} pairs of targets in another order than the worst, such as "
                "{first} and {second}",
                changed=len(changed),
                all=len(pairs),
                first=names[changed[0][0][0].number],
                second=names[changed[0][1][0].number],
            ),
            sorted({sample.number for pair in changed for each in pair for sample in each}),
            [
                Evidence(
                    at=each[0].figure_location("tps"),
                    figures={"target": names[each[0].number], "best_tps": _best(each), "worst_tps": _worst(each)},
                )
                for pair in changed
                for each in pair
            ],
            "rank means with their intervals: the best or the worst of few repeats is mostly chance",
        )


def _best(samples: Sequence[Sample]) -> float:
    return max(sample.rate for sample in samples)


def _worst(samples: Sequence[Sample]) -> float:
    return min(sample.rate for sample in samples)


def _repeats(subject: Subject, names: Mapping[int, str]) -> list[list[Sample]]:
    found: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in subject.samples:
        # in a duet, disturbances scatter throughput, and not the ratio of the two trials; a power run may have no
        # composite
        if sample.trial.duet is None and (sample.rate > 0 or sample.summary.rate_tps is not None):
            found[names[sample.number], point_of(sample.trial)].append(sample)
    return list(found.values())


def _spread(samples: Sequence[Sample]) -> float:
    rates = [sample.rate for sample in samples]
    return statistics.stdev(rates) / statistics.fmean(rates) if len(rates) > 1 and any(rates) else 0.0


def _outliers(samples: Sequence[Sample]) -> dict[Sample, float]:
    """Return the outliers of `samples` by Grubbs' test, the farthest first, with the mean of the rest."""
    found: dict[Sample, float] = {}
    left = list(samples)
    while len(left) >= FEWEST_FOR_OUTLIERS:
        mean = statistics.fmean(sample.rate for sample in left)
        farthest = max(left, key=lambda sample: abs(sample.rate - mean))
        others = [sample for sample in left if sample is not farthest]
        rates = [sample.rate for sample in others]
        level = statistics.fmean(rates)
        # the farthest of n against the others: Student's t with n - 2 degrees of freedom, with the chance divided by n
        error = statistics.stdev(rates) * math.sqrt(1 + 1 / len(rates))
        least = two_sided_quantile(1 - CHANCE / len(left), len(left) - 2) * error
        if not level or abs(farthest.rate - level) <= max(least, SPREAD * level):
            break
        found[farthest] = level
        left = others
    return found


def _figures(samples: Sequence[Sample], figure: str, names: Mapping[int, str]) -> dict[str, float | str]:
    rates = [sample.rate for sample in samples]
    return {
        "target": samples[0].target,
        **({"arm": arm} if (arm := names[samples[0].number]) != samples[0].target else {}),
        "clients": samples[0].clients,
        "trials": ", ".join(str(sample.number) for sample in samples),
        f"least_{figure}": min(rates),
        f"most_{figure}": max(rates),
        "spread": round(_spread(samples), 4),
    }


RULE = Rule(
    "repeats-spread",
    "throughput of the trials of one point, at least three: a standard deviation over 5 % of the mean (six pairs "
    "then cannot show a difference of 7 %); from five trials on, the rule names trials that are outliers by Grubbs' "
    "test at 1 % and over 5 % off the mean of the others. For imports also whether best and worst "
    "repeats rank targets differently",
    Severity.CAUTION,
    "docs/design/method.md, Interval",
    _check,
    place=280,
)
