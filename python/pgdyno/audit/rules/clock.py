"""Reports untrustworthy clocks: seconds that overlap or are missing, and slow clock sources."""

from collections.abc import Iterator

import numpy as np

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.records import CheckVerdict
from pgdyno.store.seconds import Seconds

GAP_US = 1_000_000
"""Largest gap between two intervals that should be contiguous."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    timelines = {sample.number: subject.seconds(sample.number) for sample in subject.samples}
    if all(len(seconds) < 2 for seconds in timelines.values()) and not subject.manifest.preflight:
        raise MissingError(
            Message("no-seconds-and-clock", "neither the seconds of a trial nor a check of the clock are recorded")
        )
    for check in subject.manifest.preflight:
        if check.id.startswith("clock.") and check.verdict in (CheckVerdict.WARNING, CheckVerdict.STOP):
            evidence = [Evidence(at="manifest, preflight", figures={check.id: check.found})]
            yield RuleFinding(
                Severity.CAUTION,
                Message("clock-check", "{found}: {means}", check=check.id, found=check.state, means=check.consequence),
                (),
                evidence,
                check.change,
            )
    for sample in subject.samples:
        jumps = _jumps(timelines[sample.number])
        if jumps:
            end, begin = jumps[0]
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "clock-jumps",
                    "the seconds of trial {trial} are not contiguous: {count} jump, from {from_s:.1f} s to "
                    "{to_s:.1f} s",
                    "the seconds of trial {trial} are not contiguous: {count} jumps, the first from {from_s:.1f} s "
                    "to {to_s:.1f} s",
                    trial=sample.number,
                    count=len(jumps),
                    jumps=len(jumps),
                    from_s=end / 1e6,
                    to_s=begin / 1e6,
                ),
                [sample.number],
                [Evidence(at=sample.figure_location(), figures={"jumps": len(jumps)})],
                "check whether the clock was set, or the machine was suspended",
            )


def _jumps(seconds: Seconds) -> list[tuple[float, float]]:
    """Return the end of each interval that the next one does not follow, with the start of that."""
    ends, begins = seconds.to_us[:-1], seconds.from_us[1:]
    there = np.abs(begins - ends) > GAP_US
    return list(zip(ends[there].tolist(), begins[there].tolist(), strict=True))


RULE = Rule(
    "clock",
    "checks of the clock before the run; intervals of a trial that are not contiguous to within a second",
    Severity.CAUTION,
    "docs/reference/doctor.md",
    _check,
    place=410,
)
