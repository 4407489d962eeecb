"""The network path from the load to the server of a trial, which pgdyno measures before the load begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno.doctor.round_trips import Trips, round_trips
from pgdyno.errors import EngineError, TargetError
from pgdyno.experiment.generators import Generators
from pgdyno.experiment.trials.hooks_and_events import stage
from pgdyno.plan import PlannedTrial
from pgdyno.programs import Engine
from pgdyno.records import NetworkPathRecord, Stage
from pgdyno.targets import Server
from pgdyno.targets.rented.provider import own_zone
from pgdyno.targets.rented.rental import GENERATOR, Rental
from pgdyno.targets.round_trip import measure_network_path

if TYPE_CHECKING:
    from pgdyno.generators.generator_lifecycle import Cluster

Fields = dict[str, int | float | str | None]
"""Fields of a NetworkPathRecord."""


def measure_path(
    trial: PlannedTrial, server: Server, environment: Mapping[str, str], generators: Generators, rental: Rental | None
) -> NetworkPathRecord:
    """Measure the path to `server`, which clients find by `environment`; of several generators the farthest counts.

    Measures also the clock of a rented generator. Raises TargetError, and StageFailedError if the generators of a
    cluster are not available.
    """
    ready = rental.journal.ready if rental is not None else {}
    location, generator = ready.get(trial.server), ready.get(GENERATOR)
    path = measure_network_path(server)
    found: Fields = {}
    if location is not None:
        found |= {"server_zone": location["zone"], "instance": location["instance"]}
    if generator is not None and generators.cluster is not None:
        found |= _from_farthest(generators.cluster, trial.point.planned_clients, environment)
    elif generator is not None:
        found |= _from_generator(generators.engine, environment) | {"generator_zone": generator["zone"]}
    elif location is not None or server.machine is None:
        found["generator_zone"] = own_zone()
    if rental is not None and generator is not None:
        found |= _clock(generators, rental, path)
    return path.model_copy(update=found)


def _clock(generators: Generators, rental: Rental, path: NetworkPathRecord) -> Fields:
    """Convert the server's clock offset, measured from here, to one from the rented generator. Raises TargetError."""
    ahead = generators.measure_clock(rental.load_hosts()[0].ssh)
    if path.clock_ahead_us is None or path.clock_uncertainty_us is None:
        return {}
    return {
        "clock_ahead_us": round(path.clock_ahead_us - ahead.us),
        "clock_uncertainty_us": path.clock_uncertainty_us - int(-ahead.uncertainty_us // 1),
    }


def _from_generator(engine: Engine, environment: Mapping[str, str]) -> Fields:
    """Measure with pgdrive on the one rented generator. Raises TargetError."""
    try:
        return _trips(round_trips(engine, environment, "simple"))
    except EngineError as error:
        message = f"the generator cannot measure a round trip to the server: {error.message}"
        raise TargetError(message, hint=error.hint) from error


def _from_farthest(cluster: Cluster, clients: int, environment: Mapping[str, str]) -> Fields:
    """Measure with pgdrive on each rented generator. Raises EngineError, and StageFailedError if one is missing."""
    # a run with a cluster has loaded these modules already; others save the time
    from pgdyno.generators.ceiling import format_name, measure_trips

    stage(Stage.RUN, cluster.gather)
    farthest = measure_trips(cluster, clients, environment)
    if farthest is None:
        return {}
    generator, trips = farthest
    return _trips(trips) | {"generator": format_name(generator), "generator_zone": generator.facts.get("zone")}


def _trips(trips: Trips) -> Fields:
    return {"round_trips": trips.count, "least_us": trips.least_us, "median_us": round(trips.median_us, 1)}
