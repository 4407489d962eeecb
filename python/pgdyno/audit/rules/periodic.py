"""Reports throughput that rises and falls with a period of a few trials."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator

from pgdyno.analyse.over_time.periodicity import period_of
from pgdyno.audit.arms import arms_of, order_is_drawn, point_of
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

LEAST = 0.01
"""Amplitude that can turn a verdict (docs/design/method.md, Verdict)."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    samples = [sample for sample in subject.samples if sample.rate > 0 and sample.trial.duet is None]
    if subject.imported and not all(sample.trial.started_at is not None for sample in samples):
        raise MissingError(Message("no-trial-order", "the order of the trials is unknown"))
    names = arms_of(subject.run.trials)
    levels: dict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        levels[point_of(sample.trial), names[sample.number]].append(math.log(sample.rate))
    samples.sort(key=lambda sample: (at.timestamp() if (at := sample.trial.started_at) else 0.0, sample.number))
    period = period_of(
        [
            math.log(sample.rate) - statistics.fmean(levels[point_of(sample.trial), names[sample.number]])
            for sample in samples
        ]
    )
    if period is None or period.amplitude < LEAST:
        return
    yield RuleFinding(
        Severity.CAUTION,
        Message(
            "periodic-disturbance",
            "throughput rises and falls by ±{amplitude:.1%} every {trials:.1f} trials, whatever the arm",
            amplitude=math.expm1(period.amplitude),
            trials=period.trials,
        ),
        (),
        [Evidence(at="trials", figures={"period": round(period.trials, 2), "amplitude": round(period.amplitude, 4)})],
        "find what comes so often (cron, checkpoints, a backup, another guest), or make each trial several times as "
        "long"
        + (
            ""
            if order_is_drawn(subject.manifest)
            else '; set trial.order = "interleaved", which draws the order of the arms for each repeat'
        ),
    )


RULE = Rule(
    "periodic",
    "throughput by the order of trials, without the level of each arm and point, a line, and the memory of noise: "
    "whether a wave of 2 to 8 trials is significant at 99 % and at least 1 % high. A drawn order keeps it from "
    "favouring an arm, and it still hides differences; a fixed order can be in step with it. Needs 12 trials",
    Severity.CAUTION,
    "docs/design/method.md, Order",
    _check,
    place=305,
)
