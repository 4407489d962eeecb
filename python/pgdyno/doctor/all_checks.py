"""Runs all checks in order; at the start of a run, reports problems, and stops the run if it cannot succeed."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from pgdyno.doctor import clock, cpu, generator, machine, memory, process_limits, remote, round_trips, storage
from pgdyno.doctor.check import CHECKS, not_fine, unknown
from pgdyno.doctor.needs import Needs, Place
from pgdyno.doctor.storage import snapshot
from pgdyno.doctor.system import System
from pgdyno.errors import EngineError, PreflightError
from pgdyno.messages import Message
from pgdyno.programs import Engine
from pgdyno.records import Check, CheckVerdict


@dataclass(frozen=True, slots=True)
class Patience:
    """Durations of measurements in seconds."""

    idle_s: float
    sync_s: float
    load_s: float


THOROUGH = Patience(idle_s=1.0, sync_s=1.5, load_s=2.0)
"""Durations for `pgdyno doctor`."""
BRIEF = Patience(idle_s=0.3, sync_s=0.3, load_s=1.0)
"""Durations for the checks before a run."""


Servers = Mapping[str, Mapping[str, str]]
"""Running servers by target: libpq's variables for each."""


def examine(
    needs: Needs, engine: Engine, patience: Patience, notify: Callable[[str], None], *, servers: Servers | None = None
) -> list[Check]:
    """Look at everything and changes nothing. Checks are in CHECKS' order.

    `notify` receives the name of each measurement. Measures the round trip to `servers`; without any, to pgnull. Files
    are written and removed again where data and WAL will lie; a pgnull and a pgdrive run for a moment, and on hosts
    over SSH a pgprobe, which stays there.
    """
    checks = list(_run_checks(needs, engine, patience, notify, servers or {}, System()))
    order = list(CHECKS)
    return sorted(checks, key=lambda check: order.index(check.id))


def _run_checks(
    needs: Needs, engine: Engine, patience: Patience, notify: Callable[[str], None], servers: Servers, system: System
) -> Iterator[Check]:
    # before pgdyno itself generates load
    notify("watching the idle machine")
    before = cpu.cpu_times(system)
    time.sleep(patience.idle_s)
    yield machine.load(system, before, cpu.cpu_times(system))
    yield machine.other_processes(system, os.getpid())
    yield process_limits.open_files(system, needs)
    yield cpu.cores(system, needs)
    yield cpu.governor(system)
    yield cpu.turbo(system)
    yield memory.size(system, needs)
    yield memory.dataset(system, needs)
    yield memory.swap(system)
    yield memory.huge_pages(system, needs)
    yield memory.transparent(system)
    yield clock.source(system)
    notify("reading the clock")
    yield clock.cost(clock.measure_cost())
    for place in needs.places:
        notify(f"syncing {place.path}")
        yield from _storage(system, place, needs, patience)
    notify("measuring the generator's ceiling")
    yield from _generator(system, needs, engine, patience)
    notify("measuring network round-trip time")
    yield from _round_trips(needs, engine, servers)
    for target, host in needs.hosts.items():
        notify(f"reaching {host.host} over SSH")
        yield remote.reach_host(target, host)


def _storage(system: System, place: Place, needs: Needs, patience: Patience) -> Iterator[Check]:
    yield storage.file_system(system, place)
    yield storage.mount_options(system, place)
    try:
        yield storage.free(place, *storage.room(system, place))
    except OSError as error:
        yield unknown(
            "storage.free",
            Message("space-unknown", "{place}: {error}", place=place.title, error=error.strerror or str(error)),
        )
    if needs.snapshots and place.holds_data:
        yield snapshot(place, needs.snapshot_method)
    if not place.wal:
        return
    try:
        yield storage.sync_time(place, needs, storage.measure_sync(place.path, patience.sync_s))
    except OSError as error:
        yield unknown("storage.fsync", storage.unwritable(place, error))


def _generator(system: System, needs: Needs, engine: Engine, patience: Patience) -> Iterator[Check]:
    count = system.cpus_allowed() or 1
    before = cpu.cpu_times(system)
    try:
        yield generator.ceiling(needs, generator.measure_ceiling(engine, needs, count, patience.load_s))
    except (EngineError, OSError) as error:
        yield generator.not_measured("generator.ceiling", error)
    # a hypervisor takes time only from busy processors
    yield cpu.steal(system, before, cpu.cpu_times(system))


def _round_trips(needs: Needs, engine: Engine, servers: Servers) -> Iterator[Check]:
    for target, environment in servers.items():
        path = Message(
            "path-to-server",
            "to {target} at {host}" if "PGHOST" in environment else "to {target} at its host",
            target=target,
            host=environment.get("PGHOST", ""),
        )
        yield _trip(needs, path, partial(_median_us, engine, environment, needs.protocol))
    if needs.on_this_host:
        path = Message("path-over-loopback", "to pgnull over loopback")
        if not needs.tcp:
            path = Message("path-over-socket", "to pgnull over a socket of this machine")
        yield _trip(needs, path, partial(round_trips.measure_round_trip, engine, needs))


def _median_us(engine: Engine, environment: Mapping[str, str], protocol: str) -> float:
    return round_trips.round_trips(engine, environment, protocol).median_us


def _trip(needs: Needs, path: Message, measure: Callable[[], float]) -> Check:
    try:
        return round_trips.round_trip(needs, measure(), path)
    except (EngineError, OSError) as error:
        return generator.not_measured("network.round-trip", error)


def preflight(
    needs: Needs, engine: Engine, servers: Servers, notify: Callable[[Check], None], step: Callable[[str], None]
) -> list[Check]:
    """Run every check, for the manifest.

    `servers` are up; `notify` receives problems, `step` the current measurement. Raises PreflightError if the plan
    cannot run on this machine.
    """
    return report_problems(needs, examine(needs, engine, BRIEF, step, servers=servers), notify)


def report_problems(needs: Needs, checks: list[Check], notify: Callable[[Check], None]) -> list[Check]:
    """Report the problems among `checks` and return all. Raises PreflightError if one is a stop."""
    for check in not_fine(checks):
        notify(check)
    stops = [check for check in checks if check.verdict is CheckVerdict.STOP]
    if stops:
        reasons = "; ".join(f"{check.id}: {check.found}: {check.means}" for check in stops)
        hint = "; ".join(dict.fromkeys(check.change for check in stops))
        raise PreflightError(
            f"plan {needs.plan} cannot run on this machine: {reasons}",
            hint=f"{hint}; to run it regardless: --no-preflight",
        )
    return checks
