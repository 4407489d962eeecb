"""Standbys that did not keep up with the load on their primary."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records.beside import ReplicaLag
from pgdyno.units import format_bytes

LEFT_BYTES = 16 << 20
"""A WAL segment: less at the end is what is on its way at any instant."""
LEFT_S, BEHIND_S = 5.0, 1.0
"""Standbys are asked once a second, so that one second is no lag; what takes five seconds to replay after the end
would have grown with a longer trial."""


def _check(subject: Subject) -> Iterator[Said]:
    if subject.imported:
        raise MissingError("the source does not report standbys")
    lags = [(sample, lag) for sample in subject.samples for lag in sample.trial.replication]
    silent = [(sample, lag) for sample, lag in lags if not lag.samples]
    if silent:
        yield Said(
            Severity.CAUTION,
            Message(
                "standby-lag-not-connected",
                "{standbys} was not connected in {count} trial: these trials were without it",
                "{standbys} was not connected in {count} trials: these trials were without it",
                standbys=_names(silent),
                count=_trials(silent),
            ),
            sorted({sample.number for sample, _ in silent}),
            [Evidence(at=sample.at(), figures={"standby": lag.name, "samples": 0}) for sample, lag in silent],
            "log/ of the trial has the standby's log",
        )
    behind = [(sample, lag) for sample, lag in lags if lag.samples and _is_behind(lag)]
    if behind:
        most = max(lag.bytes_last or 0 for _, lag in behind)
        yield Said(
            Severity.CAUTION,
            Message(
                "standby-lag",
                "{standbys} had up to {wal} of WAL left to replay at the end of {count} trial: "
                "the primary went faster than both together can for long",
                "{standbys} had up to {wal} of WAL left to replay at the end of {count} trials: "
                "the primary went faster than both together can for long",
                standbys=_names(behind),
                wal=format_bytes(most),
                count=_trials(behind),
            ),
            sorted({sample.number for sample, _ in behind}),
            [_evidence(sample, lag) for sample, lag in behind],
            "measure longer, or at a rate that the standby keeps up with (sweep.rate)",
        )
    late = [(sample, lag) for sample, lag in lags if (lag.replay_lag_max_s or 0.0) > BEHIND_S and not _is_behind(lag)]
    if late:
        yield Said(
            Severity.NOTE,
            Message(
                "standby-lag-caught-up",
                "{standbys} replayed up to {late_s:.1f} s late in {count} trial, and caught up before the end",
                "{standbys} replayed up to {late_s:.1f} s late in {count} trials, and caught up before the end",
                standbys=_names(late),
                late_s=max(lag.replay_lag_max_s or 0.0 for _, lag in late),
                count=_trials(late),
            ),
            sorted({sample.number for sample, _ in late}),
            [_evidence(sample, lag) for sample, lag in late],
            "reads on the standby saw data that old",
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
    return Evidence(at=sample.at(), figures={"standby": lag.name, **figures})


RULE = Rule(
    "standby-lag",
    "standbys of the target: caution where one was never connected, or had over 16 MiB of WAL (a segment) and 5 s left "
    "to replay at the end of a trial; a note where it replayed over 1 s late and caught up",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/monitoring-stats.html, pg_stat_replication",
    _check,
)
