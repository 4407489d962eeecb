"""Reports scripts that ran more or less often than their weights require."""

import math
from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import MIX_BY_PHASE, Sample, Subject
from pgdyno.messages import Message

SIGMAS = 4.0
LEAST_POINTS = 0.005
"""Share of all transactions; a smaller deviation is not reported."""
INVALID_POINTS = 0.05


def _check(subject: Subject) -> Iterator[RuleFinding]:
    counted = [sample for sample in subject.samples if sample.summary.scripts]
    if not counted:
        raise MissingError(Message("no-mix", "the number of executions of each script is unknown"))
    if any(phase.get("mix") for phase in subject.manifest.plan.get("phase") or ()):
        raise MissingError(MIX_BY_PHASE)
    for severity, least, most in (
        (Severity.INVALID, INVALID_POINTS, 1.1),
        (Severity.CAUTION, LEAST_POINTS, INVALID_POINTS),
    ):
        off = [
            (sample, found) for sample in counted if (found := _farthest_script(sample)) and least < found[1] <= most
        ]
        if off:
            furthest = max(points for _, (_, points, _, _) in off)
            yield RuleFinding(
                severity,
                Message(
                    "mix-off",
                    "the mix of {trials} trial is not as requested: a script's share is up to {points:.2g} "
                    "percentage points off",
                    "the mix of {trials} trials is not as requested: a script's share is up to {points:.2g} "
                    "percentage points off",
                    trials=len(off),
                    points=100 * furthest,
                ),
                *evidence_of(
                    {
                        sample: {"script": name, "share": round(share, 4), "asked": round(asked, 4)}
                        for sample, (name, _, share, asked) in off
                    }
                ),
                "look at the failures of that script, and run longer trials",
            )


def _farthest_script(sample: Sample) -> tuple[str, float, float, float] | None:
    """Return name, deviation, actual and required share of the script that deviates most; None if chance explains it.

    Chance is 4 standard deviations of a binomial count, plus what was in flight at the end: long transactions are cut
    off more often than short ones.
    """
    scripts = sample.summary.scripts
    done = sum(script.succeeded for script in scripts)
    weights = sum(script.weight for script in scripts)
    if len(scripts) < 2 or not done or not weights:
        return None
    found = []
    for script in scripts:
        asked, share = script.weight / weights, script.succeeded / done
        chance = SIGMAS * math.sqrt(asked * (1 - asked) / done) + (sample.summary.in_flight or 0) / done
        if abs(share - asked) > chance:
            found.append((script.name, abs(share - asked), share, asked))
    return max(found, key=lambda each: each[1], default=None)


RULE = Rule(
    "mix-off",
    "shares of the scripts compared with their weights, beyond 4 standard deviations: caution from half a point, "
    "invalid from 5 points",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
    place=360,
)
