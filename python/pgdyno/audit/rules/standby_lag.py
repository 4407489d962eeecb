"""Reports standbys that did not keep up with the load on their primary."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records.during_trial import ReplicaLag
from pgdyno.units import format_size

LEFT_BYTES = 16 << 20
"""A WAL segment: at any instant, less than this may be in transit."""
LEFT_S, BEHIND_S = 5.0, 1.0
"""Standbys are sampled once per second: one second is no lag; five at the end would have grown with the trial."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-standbys", "the source does not report standbys"))
    lags = [(sample, lag) for sample in subject.samples for lag in sample.trial.replication]
    silent = [(sample, lag) for sample, lag in lags if not lag.samples]
    if silent:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "standby-lag-not-connected",
                "{standbys} was not connected in {count} trial, which ran without it",
                "{standbys} was not connected in {count} trials, which ran without it",
                standbys=_names(silent),
                count=_trials(silent),
            ),
            sorted({sample.number for sample, _ in silent}),
            [
                Evidence(at=sample.figure_location(), figures={"standby": lag.name, "samples": 0})
                for sample, lag in silent
            ],
            "see the standby's log in log/ of the trial",
        )
    behind = [(sample, lag) for sample, lag in lags if lag.samples and _is_behind(lag)]
    if behind:
        most = max(lag.bytes_last or 0 for _, lag in behind)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "standby-lag",
                "{standbys} had up to {wal} of WAL left to replay at the end of {count} trial: the primary ran "
                "faster than both together can sustain",
                "{standbys} had up to {wal} of WAL left to replay at the end of {count} trials: the primary ran "
                "faster than both together can sustain",
                standbys=_names(behind),
                wal=format_size(most),
                count=_trials(behind),
            ),
            sorted({sample.number for sample, _ in behind}),
            [_evidence(sample, lag) for sample, lag in behind],
            "run longer trials, or set a rate that the standby can sustain (sweep.rate)",
        )
    late = [(sample, lag) for sample, lag in lags if (lag.replay_lag_max_s or 0.0) > BEHIND_S and not _is_behind(lag)]
    if late:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "standby-lag-caught-up",
                "{standbys} had a replay lag of up to {late_s:.1f} s in {count} trial, and caught up before the end",
                "{standbys} had a replay lag of up to {late_s:.1f} s in {count} trials, and caught up before the end",
                standbys=_names(late),
                late_s=max(lag.replay_lag_max_s or 0.0 for _, lag in late),
                count=_trials(late),
            ),
            sorted({sample.number for sample, _ in late}),
            [_evidence(sample, lag) for sample, lag in late],
            "reads on the standby returned data of that age",
        )


def _is_behind(lag: ReplicaLag) -> bool:
    return (lag.bytes_last or 0) > LEFT_BYTES and (lag.replay_lag_last_s or lag.replay_lag_max_s or 0.0) > LEFT_S


def _names(lags: list[tuple[Sample, ReplicaLag]]) -> str:
    return ", ".join(dict.fromkeys(f"{lag.name} of {sample.target}" for sample, lag in lags))


def _trials(lags: list[tuple[Sample, ReplicaLag]]) -> int:
    return len({sample.number for sample, _ in lags})


def _evidence(sample: Sample, lag: ReplicaLag) -> Evidence:
    known: dict[str, float | None] = {
        "bytes_last": lag.bytes_last,
        "bytes_max": lag.bytes_max,
        "replay_lag_max_s": lag.replay_lag_max_s,
        "replay_lag_last_s": lag.replay_lag_last_s,
    }
    figures: dict[str, float | str] = {name: value for name, value in known.items() if value is not None}
    return Evidence(at=sample.figure_location(), figures={"standby": lag.name, **figures})


RULE = Rule(
    "standby-lag",
    "standbys of the target: caution if one was never connected, or had over 16 MiB of WAL (a segment) and 5 s left "
    "to replay at the end of a trial; a note if its replay lag exceeded 1 s and it caught up",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/monitoring-stats.html, pg_stat_replication",
    _check,
    place=350,
)
