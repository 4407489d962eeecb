"""Reports untrustworthy clocks: seconds that overlap or are missing, and slow clock sources."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import CheckVerdict

GAP_US = 1_000_000
"""Largest gap between two intervals that should be contiguous."""


def _check(subject: Subject) -> Iterator[Said]:
    courses = {sample.number: _bounds(subject, sample) for sample in subject.samples}
    if not any(courses.values()) and not subject.manifest.preflight:
        raise MissingError(
            Message("no-seconds-and-clock", "neither the seconds of a trial nor a check of the clock are recorded")
        )
    for check in subject.manifest.preflight:
        if check.id.startswith("clock.") and check.verdict in (CheckVerdict.WARNING, CheckVerdict.STOP):
            evidence = [Evidence(at="manifest, preflight", figures={check.id: check.found})]
            yield Said(
                Severity.CAUTION,
                Message("clock-check", "{found}: {means}", check=check.id, found=check.found, means=check.means),
                (),
                evidence,
                check.change,
            )
    for sample in subject.samples:
        jumps = [(end, begin) for end, begin in courses[sample.number] if abs(begin - end) > GAP_US]
        if jumps:
            end, begin = jumps[0]
            yield Said(
                Severity.CAUTION,
                Message(
                    "clock-jumps",
                    "the seconds of trial {trial} are not contiguous: {jumps} jumps, the first from {from_s:.1f} s "
                    "to {to_s:.1f} s",
                    trial=sample.number,
                    jumps=len(jumps),
                    from_s=end / 1e6,
                    to_s=begin / 1e6,
                ),
                [sample.number],
                [Evidence(at=sample.at(), figures={"jumps": len(jumps)})],
                "check whether the clock was set, or the machine was suspended",
            )


def _bounds(subject: Subject, sample: Sample) -> list[tuple[int, int]]:
    """Yield the end of each interval with the start of the next."""
    seconds = {row.second: (row.from_us, row.to_us) for row in subject.intervals(sample.number)}
    course = [seconds[second] for second in sorted(seconds)]
    return [(before[1], after[0]) for before, after in itertools.pairwise(course)]


RULE = Rule(
    "clock",
    "checks of the clock before the run; intervals of a trial that are not contiguous to within a second",
    Severity.CAUTION,
    "docs/reference/doctor.md",
    _check,
    place=410,
)
