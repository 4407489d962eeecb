"""What Amazon tells of rented servers beside trials, fetched behind them: it comes minutes late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pgdyno.experiment.state import RunState
from pgdyno.plan.aws_targets import AuroraTarget, RdsTarget
from pgdyno.plan.ec2_target import Ec2Target
from pgdyno.records import CloudGap, CloudRecord, CloudSource, CloudTold, TrialRecord
from pgdyno.store.cloud import stored_cloud, write_cloud
from pgdyno.store.read import RunData
from pgdyno.store.tables import CloudEventRow, CloudSeriesRow
from pgdyno.target.aws.cloud import Cloud
from pgdyno.target.aws.cloudwatch import asking_of_host, cloudwatch_figures, database
from pgdyno.target.aws.faults import AwsError
from pgdyno.target.aws.insights import insights_figures
from pgdyno.target.aws.late import whole
from pgdyno.target.aws.life import Rental
from pgdyno.target.aws.observed import SECOND_US, Observed, Span
from pgdyno.target.aws.patience import Patience
from pgdyno.target.aws.server import instance_of
from pgdyno.target.aws.server_log import log_part
from pgdyno.units import format_duration

LATE_S = 300.0
"""So long behind a trial's end nobody waits any more: CloudWatch is one to three minutes late."""
AT_ONCE_S = 30.0
"""For so long a run that was interrupted goes on asking for what is there: somebody waits for its end."""
_NAMES = {
    CloudSource.CLOUDWATCH: "CloudWatch's figures",
    CloudSource.INSIGHTS: "figures of Performance Insights",
    CloudSource.LOG: "the server's log",
}


@dataclass(frozen=True, slots=True)
class _Clock:
    """How the server's time becomes the trial's."""

    epoch_us: int
    """The engine's start since 1970, by the generator's clock."""
    origin_us: int
    """Where seconds of the trial count from, since the engine's start."""
    ahead_us: int
    """By how much the server's clock is ahead."""

    def engine_us(self, t_us: int) -> int:
        """Since the engine's start."""
        return t_us - self.ahead_us - self.epoch_us

    def gap(self, span: Span) -> CloudGap:
        """The same as seconds of the trial."""
        begin, end = (
            round((self.engine_us(each) - self.origin_us) / SECOND_US, 3) for each in (span.from_us, span.to_us)
        )
        return CloudGap(from_s=begin, to_s=end)


@dataclass(slots=True)
class _Kept:
    """What is to be stored with a trial."""

    trial: int
    clock: _Clock
    sources: list[CloudTold] = field(default_factory=list)
    series: list[CloudSeriesRow] = field(default_factory=list)
    events: list[CloudEventRow] = field(default_factory=list)
    log: Sequence[str] = ()

    def event(self, t_us: int, kind: str, message: str | None, /, **detail: object) -> None:
        at_us = self.clock.engine_us(t_us)
        text = json.dumps(detail, separators=(",", ":"))
        self.events.append(CloudEventRow(self.trial, at_us, kind, None, None, None, None, message, text))


def keep_told(state: RunState, target: str | None = None, *, late_s: float = LATE_S) -> None:
    """Fetches what Amazon tells of the trials so far, of `target` or of all, and stores it with them.

    Waits for what is late, up to `late_s` behind a trial's end. Whatever a source says, the trials stay what they are.
    Trials of earlier attempts are among them, if their servers are still there. Raises StoreError.
    """
    for record in _told_of(state, target):
        ended = record.ended_at
        left_s = late_s - (datetime.now(UTC) - ended).total_seconds() if ended is not None else 0.0
        _keep(state, record, max(left_s, 0.0))


def keep_told_at_once(state: RunState, within_s: float = AT_ONCE_S) -> None:
    """The same behind a run that was interrupted: nothing is waited for, and no trial begun behind `within_s`.

    Raises StoreError.
    """
    patience = Patience(within_s)
    for record in _told_of(state, None):
        if patience.over():
            state.note(f"what Amazon tells of trial {record.number} and those behind it was not asked for")
            return
        state.view.set_up("asking Amazon for what it knows of the trials that are whole")
        _keep(state, record, 0.0)


def _told_of(state: RunState, target: str | None) -> Iterator[TrialRecord]:
    """Those of the trials so far that Amazon can tell of, and has not told all."""
    rental = state.ground.rental
    if rental is None:
        return
    attempt = len(state.folder.manifest.attempts)
    for record in state.folder.trials():
        if target not in (None, record.target):
            continue
        if not isinstance(state.plan.target.get(record.target), RdsTarget | AuroraTarget | Ec2Target):
            continue
        before = stored_cloud(state.folder.trials_path / record.slug)
        if record.attempt == attempt:
            wanted = before is None
        else:
            wanted = _is_same(rental, record, before) and (before is None or not _is_whole(before))
        if wanted:
            yield record


def _is_same(rental: Rental, record: TrialRecord, before: CloudRecord | None) -> bool:
    """Whether the server of a trial of an earlier attempt is the one that is there now."""
    if before is not None:
        return before.instance == rental.observed(record.target)[1]
    since = rental.journal.begun
    return record.started_at is not None and since < record.started_at and not rental.is_restored_often(record.target)


def _is_whole(told: CloudRecord) -> bool:
    return not any(each.gaps or each.message for each in told.sources)


def _keep(state: RunState, record: TrialRecord, late_s: float) -> None:
    rental = state.ground.rental
    clock = _clock(state, record)
    if rental is None or clock is None or record.started_at is None or record.ended_at is None:
        return
    cloud, instance = rental.observed(record.target)
    # the engine's clock tells when, and the server's is known against that one alone
    begin = clock.epoch_us + clock.ahead_us
    end = begin + round((record.ended_at - record.started_at).total_seconds() * SECOND_US)
    span, kept = Span(begin, end), _Kept(record.number, clock)
    if isinstance(state.plan.target.get(record.target), Ec2Target):
        # its probe sees the rest from inside
        ask = asking_of_host(cloud, rental.requests(record.target), span)
        _figures(state, kept, CloudSource.CLOUDWATCH, ask, late_s)
    else:
        _of_database(state, kept, cloud, instance, span, late_s)
    for told in kept.sources:
        _note(state, record, told)
    record_ = CloudRecord(instance=instance, shift_us=clock.ahead_us, sources=kept.sources)
    write_cloud(state.folder.trials_path / record.slug, record_, kept.series, kept.events, kept.log)


def _of_database(state: RunState, kept: _Kept, cloud: Cloud, instance: str, span: Span, late_s: float) -> None:
    resource, problem = _resource(cloud, instance)
    # Performance Insights is there first, and CloudWatch is waited for
    if resource is not None:
        _figures(state, kept, CloudSource.INSIGHTS, partial(insights_figures, cloud, resource, span), late_s)
    else:
        kept.sources.append(CloudTold(source=CloudSource.INSIGHTS, message=problem))
    ask = partial(cloudwatch_figures, cloud, database(instance), span)
    _figures(state, kept, CloudSource.CLOUDWATCH, ask, late_s)
    _log(kept, cloud, instance, span)


def _clock(state: RunState, record: TrialRecord) -> _Clock | None:
    """None when the engine never got to its load."""
    said = {row.kind: json.loads(row.detail) for row in RunData(state.folder, [record]).events(record.number)}
    if "start" not in said or "connected" not in said:
        return None
    ahead_us = (record.way.clock_ahead_us or 0) if record.way is not None else 0
    return _Clock(said["start"]["epoch_us"], said["connected"]["origin_us"], ahead_us)


def _resource(cloud: Cloud, instance: str) -> tuple[str | None, str]:
    """The instance's id at Performance Insights; None with the reason."""
    try:
        found = instance_of(cloud, instance)
    except AwsError as error:
        return None, error.message
    if not found.get("PerformanceInsightsEnabled"):
        return None, "Performance Insights is switched off for this server"
    return str(found["DbiResourceId"]), ""


def _figures(state: RunState, kept: _Kept, source: CloudSource, ask: Callable[[], Observed], late_s: float) -> None:
    def waits() -> None:
        state.view.set_up(f"waiting for {_NAMES[source]}, up to {format_duration(max(late_s, 1.0))}")

    try:
        found = whole(ask, late_s, waits)
    except AwsError as error:
        kept.sources.append(CloudTold(source=source, message=error.message))
        return
    kept.series += [
        CloudSeriesRow(
            kept.trial,
            kept.clock.engine_us(each.t_us),
            each.t_us - kept.clock.ahead_us,
            each.span_us,
            source.value,
            each.metric,
            json.dumps(dict(each.labels), separators=(",", ":")),
            each.value,
        )
        for each in found.figures
    ]
    for text in _spent(found):
        state.note(f"trial {kept.trial}: {text}")
    for gap in found.gaps:
        kept.event(gap.to_us, "cloud_gap", "nothing is told", source=source.value, span_us=gap.to_us - gap.from_us)
    told = CloudTold(source=source, period_s=found.period_s, figures=len(found.figures))
    gaps = [kept.clock.gap(each) for each in found.gaps]
    kept.sources.append(told.model_copy(update={"gaps": gaps}))


_CREDITS = {
    "storage_burst": ("burst credits of the volume", 100.0, " %"),
    "volume_burst": ("burst credits of the volume", 100.0, " %"),
    "ebs_io_burst": ("the instance's burst credits for requests to storage", 100.0, " %"),
    "ebs_byte_burst": ("the instance's burst credits for bytes to storage", 100.0, " %"),
    "cpu_credits": ("CPU credits", 1.0, ""),
}
LEAST_SPENT = 0.02
"""Of what was there when the trial began."""
_LIMITS = {"volume_iops_exceeded": "requests", "volume_throughput_exceeded": "bytes"}


def _by_what(found: Observed) -> dict[tuple[str, str], list[float]]:
    """Values in time, by metric and by the words that tell a volume from others."""
    values: dict[tuple[str, str], list[float]] = {}
    for each in found.figures:
        volume = dict(each.labels).get("volume", "")
        values.setdefault((each.metric, f" {volume}" if volume else ""), []).append(each.value)
    return values


def _spent(found: Observed) -> Iterator[str]:
    """What a trial lived on, and a longer one would not have had; and limits of volumes that it met."""
    for (metric, which), values in _by_what(found).items():
        if metric in _CREDITS and min(values) < (1 - LEAST_SPENT) * values[0]:
            words, factor, unit = _CREDITS[metric]
            fell = f"fell from {factor * values[0]:.3g} to {factor * min(values):.3g}{unit}"
            yield f"{words}{which} {fell}: when they are used up, the server is slower"
        if metric in _LIMITS and any(values):
            minutes = f"{sum(each > 0 for each in values)} of {len(values)} minutes"
            yield f"the volume{which} was asked for more {_LIMITS[metric]} than it gives in {minutes}"


def _log(kept: _Kept, cloud: Cloud, instance: str, span: Span) -> None:
    try:
        part = log_part(cloud, instance, span)
    except AwsError as error:
        kept.sources.append(CloudTold(source=CloudSource.LOG, message=error.message))
        return
    kept.log = part.lines
    for t_us, detail in part.checkpoints:
        kept.event(t_us, "cloud_checkpoint", None, **detail)
    message = "there was more than is kept" if part.cut else None
    kept.sources.append(CloudTold(source=CloudSource.LOG, figures=len(part.lines), message=message))


def _note(state: RunState, record: TrialRecord, told: CloudTold) -> None:
    """Says what is missing; the same of every trial once."""
    text = None
    if told.message is not None:
        text = f"not all is known of the rented server {record.target}: {_NAMES[told.source]}: {told.message}"
    elif told.gaps:
        missing_s = sum(each.to_s - each.from_s for each in told.gaps)
        text = f"trial {record.number}: {_NAMES[told.source]} lack {format_duration(missing_s)} of it"
    if text is not None and text not in state.folder.manifest.notes:
        state.note(text)
