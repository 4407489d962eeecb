"""Servers that are rented for a run, what they cost, and their figures, which the provider reports minutes later."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import StopRunError, TargetError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.model import rented_targets
from pgdyno.plan.targets import RentedTarget, TargetSpec
from pgdyno.plan.time_budget.time_and_disk import estimated_s, loading_s, needed_s, overhead_s, trial_count
from pgdyno.plan.workload import trial_s
from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, RentRecord, TrialRecord
from pgdyno.records.price import PriceList
from pgdyno.store import RunFolder
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.store.read_runs import RunData
from pgdyno.store.trial_tables import CloudEventRow, CloudSeriesRow
from pgdyno.targets.rented.estimate import CURRENCY, RESERVE
from pgdyno.targets.rented.provider import provider_of
from pgdyno.targets.rented.rental import SECOND_US, Load, Note, Observed, Rental, SourceReport, Span, take_down
from pgdyno.targets.rented.rental_journal import stamp
from pgdyno.units import duration_words

MARGIN_S = 4 * 3600.0
"""Added to twice the planned time before servers expire: creating and removing them is slow."""
LONGEST_S = 24 * 3600.0
"""When servers expire if the length of the trials is unknown."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Renting:
    keep_s: float | None = None
    """How long the servers stay after the run; None to remove them at its end."""
    price: PriceList | None = None
    """What the servers cost; None if no prices are given."""
    most: float | None = None
    """The most that all attempts at the run may cost, in USD; None for no limit."""
    spent: float = 0.0
    """What earlier attempts have cost."""


@contextmanager
def rent_servers(plan: Plan, root: Path, step: Say, note: Note, renting: Renting) -> Iterator[Rental | None]:
    """Rent the servers of `plan` for the block; None if it rents none.

    Servers that `pgdyno target up` created are used, prolonged if necessary, and stay. `root` is pgdyno's home. Raises
    TargetError.
    """
    provider = provider_of(plan)
    if provider is None:
        yield None
        return
    found = provider.standing_rental(plan, root, step)
    if found is not None:
        note(
            Message(
                "rental-used",
                "using the servers that are already up (run {rental}); remove them: pgdyno target down",
                rental=found.journal.run,
            )
        )
        try:
            _prolong_for_run(found, note)
            yield found
            if renting.keep_s is not None and found.journal.expires < _from_now(renting.keep_s):
                _keep(found, note, renting.keep_s)
        finally:
            found.journal.release()
        return
    rental = provider.preflight(plan, root, step, lasts_s(plan))
    keep = False
    try:
        rental.up()
        yield rental
        keep = True
    finally:
        if keep and renting.keep_s is not None:
            _keep(rental, note, renting.keep_s)
            rental.journal.release()
        else:
            take_down(rental, note)


def lasts_s(plan: Plan) -> float:
    """Return after how many seconds the resources of a run of `plan` expire, unless they are removed before."""
    needed = needed_s(plan, plan.points())
    return LONGEST_S if needed is None else 2 * (needed + _rented_s(plan)) + MARGIN_S


def _rented_s(plan: Plan) -> float:
    trials = trial_count(plan, plan.points()) / len(plan.target)
    provider = provider_of(plan)
    restore_s = sum(spec.restore_s for spec in rented_targets(plan).values())
    return trials * restore_s + (0.0 if provider is None else provider.slower_s(plan))


def _prolong_for_run(rental: Rental, note: Note) -> None:
    """Make servers that are already up last for the run. Raises TargetError if they end before its planned end."""
    plan, before = rental.plan, rental.journal.expires
    needed = estimated_s(plan, plan.points())
    if needed is None:
        note(
            Message(
                "rental-may-expire",
                "the servers expire at {until}, and the plan does not say how long the run takes; to rent them for "
                "longer: pgdyno target down, then pgdyno target up --for",
                until=stamp(before),
            )
        )
        return
    planned_s = needed + _rented_s(plan)
    # a run may take twice as long as planned, as for servers of its own; data of its last trial come late
    wanted_s = 2 * planned_s + LATE_S
    until = _from_now(wanted_s)
    if before >= until:
        return
    try:
        rental.prolong(until)
    except TargetError as error:
        end = _from_now(planned_s)
        if before >= end:
            note(_not_prolonged(rental, before, duration_words(wanted_s), error))
            return
        raise TargetError(
            f"the servers of run {rental.journal.run} expire at {stamp(before)}, before the run's planned end at "
            f"{stamp(end)}, and cannot be prolonged: {error.message}",
            hint="rent them again for longer: pgdyno target down, then pgdyno target up --for DURATION",
        ) from error
    note(
        Message(
            "rental-prolonged",
            "the servers expire at {until}, not at {before}: the run may take that long",
            until=stamp(until),
            before=stamp(before),
        )
    )


def _keep(rental: Rental, note: Note, keep_s: float) -> None:
    before, wanted = rental.journal.expires, duration_words(keep_s)
    try:
        rental.prolong(_from_now(keep_s))
        stay = Message(
            "rental-kept",
            "the servers stay for {duration}; remove them: pgdyno reap --run {rental}",
            duration=wanted,
            rental=rental.journal.run,
        )
    except TargetError as error:
        # the run is complete: an error here must not fail it
        stay = _not_prolonged(rental, before, wanted, error)
    note(stay)


def _from_now(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _not_prolonged(rental: Rental, until: datetime, wanted: str, error: TargetError) -> Message:
    return Message(
        "rental-not-prolonged",
        "the servers stay only until {until}, not for {duration}: {error}; remove them: pgdyno reap --run {rental}",
        until=stamp(until),
        duration=wanted,
        error=error.message,
        rental=rental.journal.run,
    )


def with_rented_address(rental: Rental | None, name: str, spec: TargetSpec) -> TargetSpec:
    """Return how to open target `name`: `spec`, or the address of its rented server. Raises TargetError."""
    if isinstance(spec, RentedTarget):
        assert rental is not None
        return rental.connection(name)
    return spec


REMOVAL_S = 1800.0
"""An upper estimate of the time until servers are removed, for which they cost money, too."""
SNAPSHOT_S = 1800.0
"""An upper estimate of the time until a snapshot of a server is complete."""


def spent_on(rented: Sequence[RentRecord]) -> float:
    """Return what the rented servers of earlier attempts have cost in USD, as far as it is known."""
    return math.fsum(each.amount or 0.0 for each in rented)


@dataclass(slots=True)
class CostGuard:
    """Compares what a run has cost with its limit."""

    plan: Plan
    rental: Rental | None
    renting: Renting
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    _loaded: set[str] = field(default_factory=set)
    """Servers whose first trial has loaded the data."""
    _busy_since: datetime | None = None
    """The start of the first trial."""

    def check(self, trial: PlannedTrial) -> None:
        """Raise StopRunError if `trial` and the removal after it could exceed the limit."""
        most = self.renting.most
        if self.rental is None or most is None:
            return
        idle_s = REMOVAL_S + self._restore_s(trial)
        now = self.now()
        self._busy_since = self._busy_since or now
        accrued = self.rental.accrued_usd(now, Load(self._busy_since, RESERVE * self._needed_s(trial), idle_s))
        if accrued is None:
            raise StopRunError(
                Message(
                    "price-unknown", "a price is unknown, so pgdyno cannot tell when the run costs more than agreed"
                )
            )
        so_far, then = (self.renting.spent + each for each in accrued)
        if then > most:
            raise StopRunError(
                Message(
                    "cost-limit",
                    "the run has cost {spent:.2f} {currency}, and with its next trial and the removal it could cost "
                    "{could:.2f}, more than {most:.2f}; resume it with a higher --max-cost",
                    spent=so_far,
                    currency=CURRENCY,
                    could=then,
                    most=most,
                )
            )

    def _restore_s(self, trial: PlannedTrial) -> float:
        spec = self.plan.target[trial.target]
        if not isinstance(spec, RentedTarget):
            return 0.0
        takes_one = spec.takes_snapshot and trial.server not in self._loaded
        return spec.restore_s + (SNAPSHOT_S if takes_one else 0.0)

    def _needed_s(self, trial: PlannedTrial) -> float:
        # The first trial of a server loads; later ones of another scale count as overhead.
        load_s = 0.0 if trial.server in self._loaded else loading_s(self.plan, self.plan.points())
        self._loaded.add(trial.server)
        return load_s + overhead_s(self.plan, trial.point) + (trial_s(self.plan) or 0.0)


LATE_S = 300.0
"""How long after the end of a trial pgdyno waits for the provider, whose figures are minutes late."""
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
