"""Standbys during a trial: the load on them, if the plan has one, and their lag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pgdyno.analyse.over_time.probe_series import figures
from pgdyno.experiment.earlier_sessions import sessions_name
from pgdyno.experiment.run_context import RunContext
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.optional_sections import shares
from pgdyno.plan.targets import OwnTarget
from pgdyno.plan.workload_schema import script_options
from pgdyno.records import ReplicaFigures, ReplicaLag
from pgdyno.run import ParallelLoad, TrialResult, failed_with
from pgdyno.run.engine import replica_options
from pgdyno.store import TrialWriter
from pgdyno.targets import ArchiveWatch, LagWatch, ReadWatch, Server

SEED_STEP = 1_000_003
"""Distance between the seeds of the loads of one trial; seeds of trials are consecutive."""

Load = Callable[[Callable[[], bool]], TrialResult]
"""The load on the primary, which stops when the function that it gets returns True."""


@dataclass(frozen=True, slots=True)
class ReplicaResults:
    loads: list[ReplicaFigures] = field(default_factory=list)
    lags: list[ReplicaLag] = field(default_factory=list)


def with_replicas(
    context: RunContext, trial: PlannedTrial, server: Server, writer: TrialWriter, load: Load
) -> tuple[TrialResult, ReplicaResults]:
    """Run `load` while the plan's `replica_load`, if there is one, runs on the standbys of `server`.

    The loads on standbys begin before `load` and end after it. If one of them fails, so does the trial. Raises what
    `load` raises, EngineError, StoreError.
    """
    replica_loads = _loads(context, trial, server, writer)
    result: TrialResult | None = None
    watch = LagWatch(server.address, server.replica_names())
    with ExitStack() as stack:
        for each, _ in replica_loads:
            stack.enter_context(each)
        connected = [each.wait_connected() for each, _ in replica_loads]
        if all(connected):
            with watch:
                result = load(lambda: any(each.broken for each, _ in replica_loads))
    failure = next((why for why in (each.failure() for each, _ in replica_loads) if why is not None), None)
    for place, (each, _) in enumerate(replica_loads, start=1):
        writer.keep_events(f"replica-{place}-events", each.events)
    if failure is not None:
        result = failed_with(result, failure)
    assert result is not None
    found = [figures(each.name, clients, each.events, result.events) for each, clients in replica_loads]
    return result, ReplicaResults([each for each in found if each is not None], watch.lags())


@contextmanager
def reads_in_turn(plan: Plan, server: Server) -> Iterator[ReadWatch | None]:
    """Read from `server` and its standbys while clients keep a commit ledger; None without either."""
    if not (plan.trial.ledger and server.has_replicas):
        yield None
        return
    with ReadWatch(server.address, server.replica_addresses(), server.dbname) as watch:
        yield watch


@contextmanager
def archiving(context: RunContext, trial: PlannedTrial, server: Server) -> Iterator[ArchiveWatch | None]:
    """Archive the WAL of `server` as the plan's target says; None if it says nothing. Raises TargetError."""
    spec = context.plan.target[trial.target]
    if not isinstance(spec, OwnTarget) or spec.archive is None:
        yield None
        return
    with ArchiveWatch(spec.archive, server, context.home.account) as watch:
        yield watch


def _loads(
    context: RunContext, trial: PlannedTrial, server: Server, writer: TrialWriter
) -> list[tuple[ParallelLoad, int]]:
    plan = context.plan
    wanted = plan.replica_load
    if wanted is None:
        return []
    names, environments = server.replica_names(), server.replica_environments()
    scripts = script_options(wanted.scripts)
    loads = []
    for place, clients in enumerate(shares(wanted.clients, len(names))):
        rate = None if wanted.rate is None else wanted.rate * clients / wanted.clients
        seed = context.seed + trial.number + (place + 1) * SEED_STEP
        options = replica_options(plan, trial.point, seed, clients, rate)
        log = writer.log / f"replica-{place + 1}-engine.log"
        environment = {**environments[place], "PGAPPNAME": sessions_name(context.folder.manifest, trial)}
        spool = writer.spool(f"replica-{place + 1}-events")
        command = [*options, *scripts]
        each = ParallelLoad(names[place], context.engine, command, environment, context.loaded.folder, log, spool)
        loads.append((each, clients))
    return loads
