"""Reports that a trial of an hour or more lost throughput, or that its latency rose, from beginning to end."""

from collections.abc import Iterator

from pgdyno.analyse.over_time.endurance import Endurance, EnduranceVerdict, Trend, trial_endurance
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    found = [(sample, long) for sample in subject.samples if (long := trial_endurance(subject, sample.number))]
    if not found:
        raise MissingError(Message("no-long-trial", "no trial has an hour of figures"))
    declining = [(sample, long) for sample, long in found if long.verdict is EnduranceVerdict.DECLINES]
    if not declining:
        return
    _, worst = max(declining, key=lambda each: _loss(each[1]))
    trials, every = len(declining), len(found)
    if worst.tps.verdict is EnduranceVerdict.DECLINES:
        message = Message(
            "declines-throughput",
            "throughput declines in {trials} of {all} trials of an hour or more, by up to {change:.1%} an hour: the "
            "server does not sustain the mean",
            trials=trials,
            all=every,
            change=-worst.tps.per_hour,
        )
    else:
        message = Message(
            "declines-latency",
            "latency rises in {trials} of {all} trials of an hour or more, by up to {change:.1%} an hour: at the "
            "end, clients see more than the mean",
            trials=trials,
            all=every,
            change=worst.latency.per_hour if worst.latency is not None else 0.0,
        )
    yield RuleFinding(
        Severity.CAUTION,
        message,
        *evidence_of({sample: _figures(long) for sample, long in declining}),
        "look for dead rows that vacuum may not remove (old snapshots, replication slots, prepared transactions), "
        "for tables that outgrow the cache, and for throttled storage or processors; measure until the figures stay "
        "level",
    )


def _loss(of: Endurance) -> tuple[bool, float]:
    if of.tps.verdict is EnduranceVerdict.DECLINES:
        return True, -of.tps.per_hour
    return False, of.latency.per_hour if of.latency is not None else 0.0


def _figures(of: Endurance) -> dict[str, float | str]:
    return {
        "hours": round(of.hours, 2),
        **_trend("tps", of.tps),
        **(_trend("latency", of.latency) if of.latency else {}),
    }


def _trend(name: str, of: Trend) -> dict[str, float | str]:
    return {
        f"{name}_per_hour": round(of.per_hour, 4),
        f"{name}_low": round(of.low, 4),
        f"{name}_high": round(of.high, 4),
    }


RULE = Rule(
    "declines",
    "trials of an hour or more: the slope of throughput and of latency, whose 95 % interval (stationary block "
    "bootstrap) lies beyond a loss of 1 % over the trial",
    Severity.CAUTION,
    "docs/concepts/endurance.md",
    _check,
    place=245,
    needs_rate=True,
)
