"""Figures of a rented server, which its provider reports minutes after a trial: asked for, and kept with the trial."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgdyno.experiment.rented_servers import LATE_S
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan.targets import RentedTarget
from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, TrialRecord
from pgdyno.store import RunFolder
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.store.read_runs import RunData
from pgdyno.store.trial_tables import CloudEventRow, CloudSeriesRow
from pgdyno.targets.rented.provider import provider_of
from pgdyno.targets.rented.rental import SECOND_US, Observed, Rental, SourceReport, Span
from pgdyno.units import duration_words

AT_ONCE_S = 30.0
"""How long an interrupted run continues to ask, because somebody waits for its end."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Converts the server's time to the trial's."""

    epoch_us: int
    """The engine's start since 1970, by the generator's clock."""
    origin_us: int
    """The instant from which seconds of the trial count, since the engine's start."""
    ahead_us: int

    def engine_us(self, t_us: int) -> int:
        return t_us - self.ahead_us - self.epoch_us

    def gap(self, span: Span) -> CloudGap:
        """Return `span` in seconds of the trial."""
        begin, end = (
            round((self.engine_us(each) - self.origin_us) / SECOND_US, 3) for each in (span.from_us, span.to_us)
        )
        return CloudGap(from_s=begin, to_s=end)


@dataclass(slots=True)
class _Collected:
    """Gathers what is to be stored with one trial."""

    trial: int
    clock: _Clock
    sources: list[CloudReport] = field(default_factory=list)
    series: list[CloudSeriesRow] = field(default_factory=list)
    events: list[CloudEventRow] = field(default_factory=list)
    log: Sequence[str] = ()

    def add(self, report: SourceReport) -> Sequence[CloudGap]:
        """Take `report`, and return its gaps."""
        if report.observed is not None:
            stored = self._figures(report.source, report.observed)
        else:
            self.log = self.log if report.log is None else report.log
            for t_us, detail in report.checkpoints:
                self._event(t_us, "cloud_checkpoint", None, **detail)
            why = None if report.message is None else str(report.message)
            stored = CloudReport(source=report.source, figures=len(report.log or ()), message=why)
        self.sources.append(stored)
        return stored.gaps

    def _event(self, t_us: int, kind: str, message: str | None, /, **detail: object) -> None:
        at_us = self.clock.engine_us(t_us)
        text = json.dumps(detail, separators=(",", ":"))
        self.events.append(CloudEventRow(self.trial, at_us, kind, None, None, None, None, message, text))

    def _figures(self, source: CloudSource, found: Observed) -> CloudReport:
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
            self._event(gap.to_us, "cloud_gap", "no data", source=source.value, span_us=gap.to_us - gap.from_us)
        gaps = [self.clock.gap(each) for each in found.gaps]
        return CloudReport(source=source, period_s=found.period_s, figures=len(found.figures), gaps=gaps)


class CloudRecorder:
    """Collects what the provider reports on the run's trials. A source that fails does not change their outcome.

    Trials of earlier attempts are included if their servers still exist. Methods raise StoreError, and do nothing in a
    run without rented servers.
    """

    def __init__(self, context: RunContext, rental: Rental | None, progress: RunProgress) -> None:
        self._context = context
        self._rental = rental
        self._progress = progress

    def collect(self, server: str | None = None, *, late_s: float = LATE_S) -> None:
        """Collect for the trials of `server`, or of all; wait until each trial's end is `late_s` ago, if necessary."""
        if self._rental is None:
            return
        for record in self._due_trials(self._rental, server):
            ended = record.ended_at
            left_s = late_s - (datetime.now(UTC) - ended).total_seconds() if ended is not None else 0.0
            self._collect(self._rental, record, max(left_s, 0.0))

    def collect_at_once(self, within_s: float = AT_ONCE_S) -> None:
        """Collect what is available without waiting; begin no trial after `within_s`."""
        if self._rental is None:
            return
        end = time.monotonic() + within_s
        for record in self._due_trials(self._rental, None):
            if time.monotonic() >= end:
                self._progress.note(
                    Message(
                        "cloud-not-requested",
                        "{provider} was not asked for data of trial {trial} and later ones",
                        provider=self._provider,
                        trial=record.number,
                    )
                )
                return
            self._progress.set_up(f"asking {self._provider} for data of the finished trials")
            self._collect(self._rental, record, 0.0)

    @property
    def _provider(self) -> str:
        found = provider_of(self._context.plan)
        return found.title if found is not None else "the provider"

    def _due_trials(self, rental: Rental, server: str | None) -> Iterator[TrialRecord]:
        folder = self._context.folder
        for record in folder.trials():
            if server not in (None, record.server):
                continue
            # a resumed search does not rent targets again that are decided
            if not isinstance(rental.plan.target.get(record.target), RentedTarget):
                continue
            before = stored_cloud(folder.trials_path / record.slug)
            if record.attempt == self._context.attempt:
                is_due = before is None
            else:
                lacks = before is None or any(each.gaps or each.message for each in before.sources)
                is_due = lacks and _is_same(rental, record, before)
            if is_due:
                yield record

    def _collect(self, rental: Rental, record: TrialRecord, late_s: float) -> None:
        folder = self._context.folder
        clock = _clock(folder, record)
        if clock is None or record.started_at is None or record.ended_at is None:
            return
        # the server's clock is known relative to the engine's only
        begin = clock.epoch_us + clock.ahead_us
        end = begin + round((record.ended_at - record.started_at).total_seconds() * SECOND_US)
        collected = _Collected(record.number, clock)
        for report in rental.observe(record.server, Span(begin, end), late_s, self._progress.set_up):
            self._note_missing(record, report, collected.add(report))
            for note in report.notes:
                self._progress.note(Message("trial-cloud", "trial {trial}: {note}", trial=record.number, note=note))
        stored_record = CloudRecord(
            instance=rental.server_id(record.server), shift_us=clock.ahead_us, sources=collected.sources
        )
        path = folder.trials_path / record.slug
        write_cloud(path, stored_record, collected.series, collected.events, collected.log)

    def _note_missing(self, record: TrialRecord, report: SourceReport, gaps: Sequence[CloudGap]) -> None:
        if report.message is not None:
            self._progress.note_once(
                Message(
                    "cloud-incomplete",
                    "data of the rented server {server} are incomplete: {source}: {why}",
                    server=record.server,
                    source=report.name,
                    why=report.message,
                )
            )
        elif gaps:
            missing_s = sum(each.to_s - each.from_s for each in gaps)
            self._progress.note_once(
                Message(
                    "cloud-gaps",
                    "trial {trial}: {source} are missing for {missing}",
                    trial=record.number,
                    source=report.name,
                    missing=duration_words(missing_s),
                )
            )


def _is_same(rental: Rental, record: TrialRecord, before: CloudRecord | None) -> bool:
    if before is not None:
        return before.instance == rental.server_id(record.server)
    since = rental.journal.begun
    return record.started_at is not None and since < record.started_at and not rental.is_restored_often(record.server)


def _clock(folder: RunFolder, record: TrialRecord) -> _Clock | None:
    """Return None if the engine's load never began."""
    events = {row.kind: json.loads(row.detail) for row in RunData(folder, [record]).events(record.number)}
    if "start" not in events or "connected" not in events:
        return None
    ahead_us = (record.network_path.clock_ahead_us or 0) if record.network_path is not None else 0
    return _Clock(events["start"]["epoch_us"], events["connected"]["origin_us"], ahead_us)
