"""The targets of a run: started when the first trial needs them, and up to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack

from pgdyno.errors import TargetError
from pgdyno.experiment.cloud import keep_told
from pgdyno.experiment.conditions import keep_mark, keep_server
from pgdyno.experiment.rented import note_limits, touch_first
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.plan.scripts import scripts_that_run
from pgdyno.prepare import Dataset, Preparer, check_extension
from pgdyno.prepare.steps import Steps
from pgdyno.records import Preparation, ServerFacts, TargetRecord
from pgdyno.targets import Server, fetch_target, open_target
from pgdyno.targets.rental import is_generator
from pgdyno.units import parse_bytes


def server_for(state: RunState, target: str) -> Server:
    """The trial's server, up: as it is, restarted after a crash, or started now. Raises TargetError."""
    if target in state.unavailable:
        raise state.unavailable[target]
    _restore_rented(state, target)
    server = state.servers.get(target)
    if server is None:
        try:
            server = _start(state, target)
        except TargetError as error:
            state.unavailable[target] = error
            raise
    elif server.promoted:
        state.note(f"target {target}: the replica that took over is given up, and the primary started again")
        server.fail_back()
        # acknowledged work that only one of them has: nobody knows its sums
        state.preparers[target].forget()
    elif not server.alive():
        state.note(f"target {target} went down; it is started again")
        server.restart()
    return server


def _restore_rented(state: RunState, target: str) -> None:
    """Makes a rented server anew where the plan wants that before every trial. Raises TargetError."""
    ground = state.ground
    if ground.rental is None:
        return
    if ground.rental.wants_restore(target):
        keep_told(state, target)
        if target in state.opened:
            state.opened.pop(target).close()
            state.servers.pop(target, None)
        ground.rental.restore(target)
        connection = ground.targets[target] = ground.rental.connection(target)
        ground.found[target] = fetch_target(
            target, connection, home=ground.home, progress=ground.progress, use=ground.use
        )
    ground.rental.fresh.discard(target)


def note_rented(state: RunState) -> None:
    """Keeps with the run what its rented servers are, and where. Raises StoreError."""
    rental = state.ground.rental
    ready = rental.journal.ready if rental is not None else {}
    hosts = Counter((each["instance"], each["zone"]) for name, each in ready.items() if is_generator(name))
    for (instance, zone), count in hosts.items():
        state.note(f"the load comes from {count if count > 1 else 'a'} {instance} in {zone}")
    for name, place in ready.items():
        if is_generator(name):
            continue
        state.note(f"target {name} is a {place['instance']} in {place['zone']}, version {place['version']}")
    note_limits(state)


def _start(state: RunState, target: str) -> Server:
    plan = state.plan
    context = open_target(
        target,
        state.ground.targets[target],
        home=state.ground.home,
        progress=state.ground.progress,
        found=state.ground.found[target],
        use=state.ground.use,
    )
    state.opened[target] = state.contexts.enter_context(ExitStack())
    server = state.opened[target].enter_context(context)
    check_extension(target, server, plan.reset)
    state.servers[target] = server
    if server.machine is not None:
        state.ground.guard.watch_cluster(target, server.machine.data_directory)
    keep_free = parse_bytes(plan.trial.min_free_disk) if plan.trial.min_free_disk else 0
    state.preparers[target] = Preparer(
        server, state.ground.engine, state.ground.progress, plan.reset, scripts_that_run(plan), keep_free
    )
    for note in server.notes:
        state.note(f"target {target}: {note}")
    facts = server.facts()
    _keep_facts(state, target, facts)
    keep_server(state, target, server, facts)
    return server


def _keep_facts(state: RunState, target: str, facts: ServerFacts) -> None:
    """Notes what a target is, on disk at once: a run that is killed later has it, too."""
    before = known_facts(state.folder.manifest.targets).get(target)
    if before is not None and before.version_full != facts.version_full:
        state.note(f"target {target} is {facts.version_full} now, and was {before.version_full} in earlier trials")
    records = [
        record.model_copy(update={"facts": facts}) if record.name == target else record
        for record in state.folder.manifest.targets
    ]
    state.folder.update_manifest(targets=records)


def known_facts(targets: list[TargetRecord]) -> dict[str, ServerFacts]:
    """What is known of `targets`, by name."""
    return {target.name: target.facts for target in targets if target.facts is not None}


def prepare(state: RunState, trial: PlannedTrial, server: Server) -> Preparation:
    """Brings the trial's `server` to the state in which it starts. Raises TargetError, psycopg.Error."""
    steps = Steps(state.ground.progress)
    asked = {**state.plan.target[trial.target].settings, **trial.point.settings}
    if asked != server.plan_settings:
        steps.do("configure", "changing settings", lambda: _configure(server, asked))
    touch_first(state, trial, server, steps)
    prepared = _dataset(state, trial)
    return prepared.model_copy(
        update={"steps": [*steps.done, *prepared.steps], "seconds": round(steps.seconds + prepared.seconds, 6)}
    )


def _configure(server: Server, asked: Mapping[str, str]) -> str | None:
    done = server.configure(asked)
    return None if done is None else done.in_words()


def _dataset(state: RunState, trial: PlannedTrial) -> Preparation:
    assert trial.point.scale is not None
    dataset = Dataset.of(state.plan.workload, trial.point.scale)
    prepared = state.preparers[trial.target].prepare(dataset)
    for place, directory in enumerate(state.servers[trial.target].replica_directories(), start=1):
        state.ground.guard.watch_cluster(f"{trial.target}, replica {place}", directory)
    keep_mark(state, trial.target, dataset)
    return prepared
