"""What the provider tells of rented servers alongside trials, fetched behind them: it comes minutes late."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgdyno.experiment.state import RunState
from pgdyno.plan.rented import RentedTarget
from pgdyno.records import CloudGap, CloudRecord, CloudSource, CloudTold, TrialRecord
from pgdyno.report.run_events import SetUp
from pgdyno.store.cloud import stored_cloud, write_cloud
from pgdyno.store.read import RunData
from pgdyno.store.tables import CloudEventRow, CloudSeriesRow
from pgdyno.targets.observed import SECOND_US, Observed, Span
from pgdyno.targets.provider import provider_of
from pgdyno.targets.rental import Rental, Told
from pgdyno.units import format_duration

LATE_S = 300.0
"""So long behind a trial's end nobody waits any more: figures of providers are minutes late."""
AT_ONCE_S = 30.0
"""For so long a run that was interrupted goes on asking for what is there: somebody waits for its end."""


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
    told: list[Told] = field(default_factory=list)
    sources: list[CloudTold] = field(default_factory=list)
    """The same as it is stored."""
    series: list[CloudSeriesRow] = field(default_factory=list)
    events: list[CloudEventRow] = field(default_factory=list)
    log: Sequence[str] = ()

    def event(self, t_us: int, kind: str, message: str | None, /, **detail: object) -> None:
        at_us = self.clock.engine_us(t_us)
        text = json.dumps(detail, separators=(",", ":"))
        self.events.append(CloudEventRow(self.trial, at_us, kind, None, None, None, None, message, text))

    def add(self, told: Told) -> None:
        """What one source told."""
        self.told.append(told)
        if told.observed is not None:
            self.sources.append(self._figures(told.source, told.observed))
        elif told.log is not None:
            self.log = told.log
            for t_us, detail in told.checkpoints:
                self.event(t_us, "cloud_checkpoint", None, **detail)
            self.sources.append(CloudTold(source=told.source, figures=len(told.log), message=told.message))
        else:
            self.sources.append(CloudTold(source=told.source, message=told.message))

    def _figures(self, source: CloudSource, found: Observed) -> CloudTold:
        self.series += [
            CloudSeriesRow(
                self.trial,
                self.clock.engine_us(each.t_us),
                each.t_us - self.clock.ahead_us,
                each.span_us,
                source.value,
                each.metric,
                json.dumps(dict(each.labels), separators=(",", ":")),
                each.value,
            )
            for each in found.figures
        ]
        for gap in found.gaps:
            self.event(gap.to_us, "cloud_gap", "nothing is told", source=source.value, span_us=gap.to_us - gap.from_us)
        gaps = [self.clock.gap(each) for each in found.gaps]
        return CloudTold(source=source, period_s=found.period_s, figures=len(found.figures), gaps=gaps)


def keep_told(state: RunState, target: str | None = None, *, late_s: float = LATE_S) -> None:
    """Fetches what the provider tells of the trials so far, of `target` or of all, and stores it with them.

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
    end = time.monotonic() + within_s
    for record in _told_of(state, None):
        if time.monotonic() >= end:
            state.note(f"what {_title(state)} tells of trial {record.number} and those behind it was not asked for")
            return
        state.view.event(SetUp(f"asking {_title(state)} for what it knows of the trials that are whole"))
        _keep(state, record, 0.0)


def _told_of(state: RunState, target: str | None) -> Iterator[TrialRecord]:
    """Those of the trials so far that the provider can tell of, and has not told all."""
    rental = state.ground.rental
    if rental is None:
        return
    attempt = len(state.folder.manifest.attempts)
    for record in state.folder.trials():
        if target not in (None, record.target):
            continue
        if not isinstance(state.plan.target.get(record.target), RentedTarget):
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
        return before.instance == rental.server_id(record.target)
    since = rental.journal.begun
    return record.started_at is not None and since < record.started_at and not rental.is_restored_often(record.target)


def _is_whole(told: CloudRecord) -> bool:
    return not any(each.gaps or each.message for each in told.sources)


def _keep(state: RunState, record: TrialRecord, late_s: float) -> None:
    rental = state.ground.rental
    clock = _clock(state, record)
    if rental is None or clock is None or record.started_at is None or record.ended_at is None:
        return
    # the engine's clock tells when, and the server's is known against that one alone
    begin = clock.epoch_us + clock.ahead_us
    end = begin + round((record.ended_at - record.started_at).total_seconds() * SECOND_US)
    kept = _Kept(record.number, clock)
    for told in rental.observe(record.target, Span(begin, end), late_s, lambda text: state.view.event(SetUp(text))):
        kept.add(told)
        for text in told.notes:
            state.note(f"trial {record.number}: {text}")
    for told, stored in zip(kept.told, kept.sources, strict=True):
        _note(state, record, told.name, stored)
    record_ = CloudRecord(instance=rental.server_id(record.target), shift_us=clock.ahead_us, sources=kept.sources)
    write_cloud(state.folder.trials_path / record.slug, record_, kept.series, kept.events, kept.log)


def _title(state: RunState) -> str:
    found = provider_of(state.plan)
    return found.title if found is not None else "the provider"


def _clock(state: RunState, record: TrialRecord) -> _Clock | None:
    """None when the engine never got to its load."""
    said = {row.kind: json.loads(row.detail) for row in RunData(state.folder, [record]).events(record.number)}
    if "start" not in said or "connected" not in said:
        return None
    ahead_us = (record.way.clock_ahead_us or 0) if record.way is not None else 0
    return _Clock(said["start"]["epoch_us"], said["connected"]["origin_us"], ahead_us)


def _note(state: RunState, record: TrialRecord, name: str, told: CloudTold) -> None:
    """Says what is missing; the same of every trial once."""
    text = None
    if told.message is not None:
        text = f"not all is known of the rented server {record.target}: {name}: {told.message}"
    elif told.gaps:
        missing_s = sum(each.to_s - each.from_s for each in told.gaps)
        text = f"trial {record.number}: {name} lack {format_duration(missing_s)} of it"
    if text is not None and text not in state.folder.manifest.notes:
        state.note(text)
