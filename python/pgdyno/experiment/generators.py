"""The generators of a plan, where it names some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdyno.errors import EngineError
from pgdyno.plan import LoadedPlan, Plan
from pgdyno.plan.generators import generators
from pgdyno.remote.lua_files import lua_files
from pgdyno.run.process import Running, running_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgdyno.cluster.cluster import Cluster
    from pgdyno.doctor.needs import Needs
    from pgdyno.programs import Engine
    from pgdyno.records import Check
    from pgdyno.targets.rental import Rental


@contextmanager
def brought_up(
    plan: Plan, engine: Engine, rental: Rental | None, say: Callable[[str], None]
) -> Iterator[Cluster | None]:
    """The plan's generators, or those that were rented; None where it has none, or one. Raises EngineError."""
    hosts = rental.load_hosts() if rental is not None else []
    if rental is not None and hosts:
        # SSH takes a while to load
        from pgdyno.cluster.rented import ssh_cluster

        say(f"connecting to {len(hosts)} generators")
        with ssh_cluster(engine, hosts, rental.journal.keys, say) as cluster:
            yield cluster
        return
    if not plan.generators:
        yield None
        return
    # Ray takes a second to load
    from pgdyno.cluster.cluster import opened

    with opened(generators(plan.generators), say) as cluster:
        yield cluster


def check_copies(loaded: LoadedPlan) -> None:
    """Raises EngineError for a script that cannot go to other hosts with all that it loads: before any is rented."""
    plan = loaded.plan
    if plan.workload.lua is not None and (plan.generators or plan.generator is not None):
        lua_files(plan.workload.lua, loaded.folder)


def generator_checks(
    plan: Plan, engine: Engine, needs: Needs, servers: Mapping[str, Mapping[str, str]], say: Callable[[str], None]
) -> list[Check]:
    """What a look from each of the plan's generators finds, as before a run; nothing where it names none.

    They are started for it. `servers` are those over the network, by target. Raises no error of a generator's.
    """
    if not plan.generators:
        return []
    from pgdyno.cluster.look import CEILING, look
    from pgdyno.doctor.check import stop

    try:
        with brought_up(plan, engine, None, say) as cluster:
            assert cluster is not None
            say("driving a server that answers at once from every generator")
            return look(cluster, needs, servers)
    except EngineError as error:
        means = "the plan's load cannot be made by its generators"
        return [stop(CEILING, error.message, means, error.hint or "look at docs/guides/cluster.md")]


def way_to_run(cluster: Cluster | None) -> Running:
    """How a trial's load is started."""
    return running_engine if cluster is None else cluster.running
