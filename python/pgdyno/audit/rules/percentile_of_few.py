"""Reports percentiles that few transactions support."""

import re
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

BEYOND = 10
"""Transactions that must be slower than a percentile for it to be more than chance."""
_NAME = re.compile(r"latency_p([\d.]+)_ms")


def _check(subject: Subject) -> Iterator[RuleFinding]:
    counted = [(sample, name, beyond) for sample in subject.samples for name, beyond in _counts_beyond(sample)]
    if not counted:
        raise MissingError(
            Message("no-percentiles", "no percentile is reported, or the number of transactions is unknown")
        )
    few = [each for each in counted if each[2] < BEYOND]
    if few:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "percentile-of-few",
                "{count} percentile has fewer than {least} transactions beyond it",
                "{count} percentiles have fewer than {least} transactions beyond them",
                count=len(few),
                percentiles=len(few),
                least=BEYOND,
            ),
            sorted({sample.number for sample, _, _ in few}),
            [
                Evidence(
                    at=sample.figure_location(name), figures={name: sample.figures[name], "beyond": round(beyond, 1)}
                )
                for sample, name, beyond in few
            ],
            "run longer trials, or report a lower percentile",
        )


def _counts_beyond(sample: Sample) -> Iterator[tuple[str, float]]:
    done = sample.figures.get("transactions")
    if done is None and sample.length_s is not None:
        done = sample.summary.tps * sample.length_s
    for name in sample.figures if done is not None else ():
        match = _NAME.fullmatch(name)
        if match is not None and done is not None:
            yield name, done * (1 - float(match[1]) / 100)


RULE = Rule(
    "percentile-of-few",
    "transactions beyond each percentile up to p99: fewer than ten",
    Severity.CAUTION,
    "docs/design/method.md, Interval",
    _check,
    place=390,
    needs_rate=True,
)
