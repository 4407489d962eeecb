"""The servers of a run: each starts when the first trial needs it, and stays up until the end."""

import time
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime

from pgdyno.analyse.price import prices_of
from pgdyno.errors import PgdynoError, TargetError
from pgdyno.experiment.changes_since_begin import keep_server
from pgdyno.experiment.cloud_recorder import CloudRecorder
from pgdyno.experiment.limits.budget_left import LOAD, LoadTooLongError
from pgdyno.experiment.preflight_and_fingerprint import keep_stamp
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.settings.attached_server import AttachedServer, attach_server, check_left
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.targets import NetworkTarget, RentedTarget
from pgdyno.plan.time_budget.time_and_disk import keep_load_rate
from pgdyno.plan.workload import scripts_that_run
from pgdyno.prepare import Dataset, Preparer, check_extension
from pgdyno.prepare.cache import read_every_page
from pgdyno.prepare.timed_steps import Steps
from pgdyno.records import Consistency, Manifest, Preparation, PrepareStep, RentRecord
from pgdyno.records.base import target_of
from pgdyno.records.price import PriceList
from pgdyno.targets import Server, fetch_target, open_target
from pgdyno.targets.cluster.reconfigure import Configured, reconfigure
from pgdyno.targets.rented.estimate import CURRENCY
from pgdyno.targets.rented.rental import Rental, is_generator
from pgdyno.units import parse_bytes

BACK_WITHIN_S = 30.0
"""The time for a server over the network to restart."""
_LOOK_S = 1.0


def touch_first(rental: Rental, target: str, server: Server, steps: Steps, progress: RunProgress) -> None:
    """Read every page of a server that was restored, once, unless the plan disables it.

    Raises TargetError, psycopg.Error.
    """
    if target not in rental.unread:
        return
    if rental.reads_first(target):
        steps.do("first touch", "reading every page once", lambda: read_every_page(server))
    else:
        progress.note_once(
            Message(
                "target-not-read",
                "target {target} was restored but not prewarmed: its figures include the first read of each page",
                target=target,
            )
        )
    rental.unread.discard(target)


def note_rented(rental: Rental, progress: RunProgress) -> None:
    """Note what the checks before the rental found, what the rented servers and generators are, where, and what their
    storage provides. Raises StoreError.
    """
    for note in rental.notes:
        progress.note(note)
    ready = rental.journal.ready
    hosts = Counter((each["instance"], each["zone"]) for name, each in ready.items() if is_generator(name))
    for (instance, zone), count in hosts.items():
        progress.note(
            Message(
                "load-host",
                "the load comes from a {instance} in {zone}",
                "the load comes from {count} {instance} in {zone}",
                count=count,
                instance=instance,
                zone=zone,
            )
        )
    targets = {name: each for name, each in ready.items() if not is_generator(name)}
    for name, each in targets.items():
        progress.note(
            Message(
                "target-rented",
                "target {target} is a {instance} in {zone}, version {version}",
                target=name,
                instance=each["instance"],
                zone=each["zone"],
                version=each["version"],
            )
        )
    for name in targets:
        for limit in rental.limits(name):
            progress.note(Message("target-limit", "target {target}: {limit}", target=name, limit=limit))


def rent_of(rental: Rental, manifest: Manifest, until: datetime) -> list[RentRecord]:
    """Return what the servers of the current attempt cost up to `until`."""
    prices = prices_of(manifest)
    began = manifest.attempts[-1].started_at
    return [
        _rent(rental, name, rental.since.get(name, began), rental.released.get(name, until), prices)
        for name in rental.journal.ready
    ]


def _rent(rental: Rental, name: str, since: datetime, until: datetime, prices: PriceList | None) -> RentRecord:
    if is_generator(name):
        return _generators_rent(rental, name, since, until)
    location = rental.journal.ready[name]
    target = target_of(name)
    priced = prices if prices is not None and target in prices.target else None
    return RentRecord(
        target=name,
        instance=location["instance"],
        zone=location["zone"],
        since=since,
        until=until,
        hourly=priced.hourly_of(target) if priced is not None else None,
        once=rental.request_cost(name, until) or 0.0,
        currency=prices.currency if prices is not None else None,
        price_date=priced.date if priced is not None else None,
        price_source=priced.source or None if priced is not None else None,
    )


def _generators_rent(rental: Rental, name: str, since: datetime, until: datetime) -> RentRecord:
    # price lists contain targets only
    location, paid = rental.journal.ready[name], rental.generator_cost(name)
    return RentRecord(
        target="generator",
        instance=location["instance"],
        zone=location["zone"],
        since=since,
        until=until,
        hourly=None if paid.unknown else paid.hourly,
        currency=CURRENCY,
        price_date=paid.asked,
        price_source=paid.source,
    )


@dataclass(frozen=True, slots=True)
class _Running:
    server: Server
    preparer: Preparer
    """Restores the state in which a trial starts."""
    context: ExitStack
    """Stops the server."""
    attached: AttachedServer | None
    """The server if pgdyno did not start it and a search changes its configuration."""


class Servers:
    """Owns the servers of a run. An idle server costs next to nothing, a load does: it stops none between trials."""

    def __init__(self, context: RunContext, resources: Resources, progress: RunProgress, cloud: CloudRecorder) -> None:
        self._context = context
        self._resources = resources
        self._progress = progress
        self._cloud = cloud
        self._specs = dict(resources.servers)
        self._found = dict(resources.found)
        self._running: dict[str, _Running] = {}
        self._unavailable: dict[str, PgdynoError] = {}
        self._contexts = ExitStack()
        self._before: dict[str, list[PrepareStep]] = {}
        """What was done to a server for its next trial before it was opened for it."""

    def is_unavailable(self, name: str) -> bool:
        """Whether server `name` could not be started; pgdyno does not try it again."""
        return name in self._unavailable

    def attached_server(self, name: str) -> AttachedServer | None:
        """Server `name`, which is up, if pgdyno did not start it and a search changes its configuration."""
        return self._running[name].attached

    @property
    def none_available(self) -> bool:
        return len(self._unavailable) == len(self._specs)

    def probed_host(self, name: str) -> SshSpec | None:
        """How to log in to the host of server `name` to probe it; None if the plan does not say."""
        return self._specs[name].probed_host

    def obtain(self, trial: PlannedTrial) -> Server:
        """Return the server of `trial`, and start or restart it if it is not up. Raises TargetError."""
        name = trial.server
        if name in self._unavailable:
            raise self._unavailable[name]
        if name in self._running:
            # its idle sessions are no leftovers of the trial before, and would hold the database
            self._running[name].server.stop_pooler()
        self._restore_rented(trial)
        if name not in self._running:
            return self._start_or_exclude(trial)
        running = self._running[name]
        server = running.server
        if server.promoted:
            self._progress.note(
                Message(
                    "primary-restarted",
                    "target {target}: pgdyno discards the promoted replica and starts the original primary again",
                    target=name,
                )
            )
            server.fail_back()
            # transactions that only one of the two servers has make the expected sums unknown
            running.preparer.forget()
        elif not server.alive():
            self._progress.note(
                Message("target-restarted", "target {target} went down; pgdyno starts it again", target=name)
            )
            server.restart()
        return server

    def give_up_unreachable(self, target: str) -> None:
        """Make `target` unavailable after a failed trial, if its server over the network cannot be reached.

        pgdyno cannot start such a server again; each remaining trial would fail after a timeout.
        """
        running = self._running.get(target)
        if running is None or running.server.machine is not None or target in self._unavailable:
            return
        self._progress.set_up(f"waiting for target {target}")
        end = time.monotonic() + BACK_WITHIN_S
        while True:
            try:
                running.server.connect().close()
                return
            except TargetError as error:
                if time.monotonic() > end:
                    self._unavailable[target] = error
                    self._progress.note(
                        Message(
                            "target-unreachable",
                            "target {target} cannot be reached: pgdyno skips its other trials",
                            target=target,
                        )
                    )
                    return
            time.sleep(_LOOK_S)

    def prepare(self, trial: PlannedTrial) -> Preparation:
        """Bring the server of `trial` to the state in which a trial starts. Raises TargetError, psycopg.Error."""
        server, theirs = self._running[trial.server].server, self._running[trial.server].attached
        steps = Steps(self._resources.progress)
        steps.done += self._before.pop(trial.server, [])
        plan = self._context.plan
        asked = plan.server_settings(trial.target, trial.point)
        server.session_settings = plan.session_settings(trial.target, trial.point)
        if asked != server.plan_settings:
            steps.do("configure", "changing settings", lambda: _in_words(reconfigure(server, asked)))
        if theirs is not None and not theirs.is_in_force(system := plan.system_settings(trial.point)):
            steps.do("configure", "changing the server's settings", lambda: _in_words(theirs.configure(system)))
        if self._resources.rental is not None:
            touch_first(self._resources.rental, trial.server, server, steps, self._progress)
        prepared = self._load_dataset(trial)
        server.start_pooler()
        return prepared.model_copy(
            update={"steps": [*steps.done, *prepared.steps], "seconds": round(steps.seconds + prepared.seconds, 6)}
        )

    def check(self, name: str) -> Consistency | None:
        """Check the dataset of server `name`; None if it has no check. Raises TargetError, psycopg.Error."""
        return self._running[name].preparer.check()

    def forget(self, name: str) -> None:
        """Assume nothing about the dataset of server `name`: the load ended in a way that leaves it unknown."""
        self._running[name].preparer.forget()

    def release(self, target: str) -> None:
        """Begin to remove the server of `target`, which no further trial needs, if this run has rented it.

        Servers that were up before the run stay, and with --keep all do. Raises StoreError.
        """
        rental, keep_s = self._resources.rental, self._resources.renting.keep_s
        if rental is None or keep_s is not None or target not in rental.since or target in rental.released:
            return
        self._cloud.collect(target)
        self._stop(target)
        try:
            rental.release(target)
        except TargetError as error:
            # the end of the run removes it
            self._progress.note_once(
                Message(
                    "target-not-released",
                    "target {target} stays until the end of the run: {error}",
                    target=target,
                    error=error.message,
                )
            )
            return
        self._progress.note(
            Message("target-released", "target {target} is decided: pgdyno removes its server", target=target)
        )

    def close(self) -> None:
        self._contexts.close()

    def _restore_rented(self, trial: PlannedTrial) -> None:
        """Restore the rented server of `trial` if the plan wants that before every trial.

        Raises TargetError, psycopg.Error.
        """
        rental, resources, name = self._resources.rental, self._resources, trial.server
        if rental is None:
            return
        dataset = self._dataset_of_snapshot(trial)
        if dataset is not None and not rental.has_snapshot(name, repr(dataset)):
            self._take_snapshot(rental, trial, dataset)
        if rental.wants_restore(name):
            self._cloud.collect(name)
            self._stop(name)
            rental.restore(name, None if dataset is None else repr(dataset))
            self._specs[name] = rental.connection(name)
            self._found[name] = fetch_target(
                name, self._specs[name], home=resources.home, progress=resources.progress, use=resources.use
            )
        rental.fresh.discard(name)

    def _dataset_of_snapshot(self, trial: PlannedTrial) -> Dataset | None:
        """Return what pgdyno's own snapshot of the server contains; None for a server that has none."""
        spec = self._context.plan.target[trial.target]
        if not isinstance(spec, RentedTarget) or not spec.takes_snapshot or trial.point.scale is None:
            return None
        return self._dataset(trial)

    def _dataset(self, trial: PlannedTrial) -> Dataset | None:
        return Dataset.for_point(self._context.plan.workload, trial.point, self._context.loaded.folder)

    def _take_snapshot(self, rental: Rental, trial: PlannedTrial, dataset: Dataset) -> None:
        """Load `dataset` into a rented server, and take a snapshot of that. Raises TargetError, psycopg.Error."""
        name, steps = trial.server, Steps(self._resources.progress)
        if name not in self._running:
            self._start_or_exclude(trial)
        preparer = self._running[name].preparer
        steps.do("load", f"loading {dataset}", lambda: preparer.load_anew(dataset))
        # settings that the plan changes for its trials are no part of the snapshot
        self._stop(name)
        try:
            steps.do("snapshot", "taking a snapshot of the server", lambda: rental.take_snapshot(name, repr(dataset)))
        except TargetError as error:
            # each further trial would load the data again before it fails
            self._unavailable[name] = error
            raise
        self._before[name] = steps.done

    def _stop(self, name: str) -> None:
        if name in self._running:
            self._running.pop(name).context.close()

    def _start_or_exclude(self, trial: PlannedTrial) -> Server:
        """Start the server of `trial`; if that fails, it stays unavailable. Raises TargetError."""
        try:
            return self._start(trial)
        except TargetError as error:
            self._unavailable[trial.server] = error
            raise

    def _start(self, trial: PlannedTrial) -> Server:
        plan, resources, name = self._context.plan, self._resources, trial.server
        opened = open_target(
            name,
            self._specs[name],
            home=resources.home,
            progress=resources.progress,
            found=self._found[name],
            use=resources.use,
        )
        context = self._contexts.enter_context(ExitStack())
        server = context.enter_context(opened)
        check_left(server, self._context.home, self._context.folder.path)
        check_extension(name, server, plan.reset)
        if server.machine is not None:
            resources.guard.watch_cluster(name, server.machine.data_directory)
        keep_free = parse_bytes(plan.trial.min_free_disk) if plan.trial.min_free_disk else 0
        reset = plan.reset
        if self._dataset_of_snapshot(trial) is not None:
            # its provider brings the data back, with the whole server
            reset = reset.model_copy(update={"method": "snapshot"})
        preparer = Preparer(server, self._context.engine, resources.progress, reset, scripts_that_run(plan), keep_free)
        theirs = attach_server(name, server, self._context, resources) if plan.system_names else None
        found = None if theirs is None else context.enter_context(theirs)
        self._running[name] = _Running(server, preparer, context, found)
        for note in server.notes:
            self._progress.note(Message("target-note", "target {target}: {note}", target=name, note=note))
        for settings in _sessions(plan, trial.target):
            server.check_session(settings)
        server.session_settings = plan.target[trial.target].session_settings
        facts, spec = server.facts(), plan.target[trial.target]
        if isinstance(spec, NetworkTarget) and not isinstance(spec, RentedTarget):
            facts = facts.model_copy(update={"identity": server.identity()})
        keep_server(self._context.folder, self._progress, trial.target, name, server, facts)
        return server

    def _load_dataset(self, trial: PlannedTrial) -> Preparation:
        dataset = self._dataset(trial)
        running = self._running[trial.server]
        prepared = self._prepare(running.preparer, trial.target, dataset)
        for number, directory in enumerate(running.server.replica_directories(), start=1):
            self._resources.guard.watch_cluster(f"{trial.server}, replica {number}", directory)
        keep_stamp(self._context.folder, trial.target, running.server, dataset)
        return prepared

    def _prepare(self, preparer: Preparer, target: str, dataset: Dataset | None) -> Preparation:
        left = self._resources.left
        try:
            with left.preparation() if left is not None else nullcontext():
                prepared = preparer.prepare(dataset)
        except LoadTooLongError as error:
            self._keep_rate(target, dataset, error.seconds)
            raise
        for step in prepared.steps:
            if step.name == LOAD and step.detail == str(dataset):
                self._keep_rate(target, dataset, step.seconds)
        return prepared

    def _keep_rate(self, target: str, dataset: Dataset | None, seconds: float) -> None:
        if dataset is not None:
            scale = dataset.pgbench_scale
            kind = self._context.plan.target[target].kind
            keep_load_rate(self._resources.home.root, kind, dataset.name, scale, seconds)


def _sessions(plan: Plan, target: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for point in plan.points():
        settings = plan.session_settings(target, point)
        if settings and settings not in found:
            found.append(settings)
    return found


def _in_words(done: Configured | None) -> str | None:
    return None if done is None else done.in_words()
