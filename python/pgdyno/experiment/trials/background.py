"""Loads in the background of a trial, which have no trials: groups with `background`, and idle clients."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.trials.scenario import environment_of_group
from pgdyno.plan import PlannedTrial
from pgdyno.plan.scenario.loads import background_groups
from pgdyno.run.engine import background_options
from pgdyno.run.parallel_load import ParallelLoad
from pgdyno.store import TrialWriter
from pgdyno.targets import Server

SEED_STEP = 1_000_003
"""Distance between the seeds of the loads of one trial; seeds of trials are consecutive."""


@contextmanager
def background_loads(
    context: RunContext, trial: PlannedTrial, server: Server, environment: Mapping[str, str], writer: TrialWriter
) -> Iterator[list[ParallelLoad]]:
    """Run the groups in the background of `trial` during the block, which begins when all their clients are
    connected, or one group is broken.

    Their events are kept after the block. Raises EngineError, StoreError, TargetError.
    """
    loads = []
    with ExitStack() as stack:
        for place, group in enumerate(background_groups(context.plan, trial.point), start=1):
            seed = context.seed + trial.number + place * SEED_STEP
            options = background_options(context.plan, group, trial.point, seed, writer.log)
            there = environment_of_group(group, server, environment)
            name = f"group-{group.name}"
            log, spool = writer.log / f"{name}-engine.log", writer.spool(f"{name}-events")
            load = ParallelLoad(
                group.name, group.connections, context.engine, options, there, context.loaded.folder, log, spool
            )
            loads.append(stack.enter_context(load))
        for load in loads:
            load.wait_connected()
        yield loads
    for load in loads:
        writer.keep_events(f"group-{load.name}-events", load.events)
