"""Where the load and the server of a trial stood, looked at just before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.doctor.generator import Trips, round_trips
from pgdyno.errors import EngineError, TargetError
from pgdyno.experiment.events import clients_environment
from pgdyno.experiment.stage import stage
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import Stage, WayRecord
from pgdyno.targets import Server
from pgdyno.targets.provider import own_zone
from pgdyno.targets.rental import GENERATOR
from pgdyno.targets.way import measure_way

if TYPE_CHECKING:
    from pgdyno.cluster.cluster import Cluster

Found = dict[str, int | float | str | None]
"""Fields of a way."""


def way_of(state: RunState, trial: PlannedTrial, server: Server) -> WayRecord:
    """From where the load comes from to the `server` of `trial`; of several rented generators the farthest counts.

    Raises TargetError, and StageFailedError when the generators cannot be had.
    """
    ready = state.ground.rental.journal.ready if state.ground.rental is not None else {}
    place, generator = ready.get(trial.target), ready.get(GENERATOR)
    way = measure_way(server)
    there: Found = {}
    if place is not None:
        there |= {"server_zone": place["zone"], "instance": place["instance"]}
    if generator is not None and state.ground.cluster is not None:
        there |= _from_farthest(state, state.ground.cluster, trial, server)
    elif generator is not None:
        there |= _from_generator(state, trial, server) | {"generator_zone": generator["zone"]}
    elif place is not None or server.machine is None:
        there["generator_zone"] = own_zone()
    if generator is not None:
        there |= _clock(state, way)
    return way.model_copy(update=there)


def _clock(state: RunState, way: WayRecord) -> Found:
    """The server's clock against the generator's, whose seconds the trial has. Raises TargetError."""
    # SSH takes a while to load
    from pgdyno.probe.ahead import measure_ahead

    spec = state.ground.rental.generator_ssh() if state.ground.rental is not None else None
    assert spec is not None
    ahead = state.generator_ahead = measure_ahead(spec)
    if way.clock_ahead_us is None or way.clock_uncertainty_us is None:
        return {}
    return {
        "clock_ahead_us": round(way.clock_ahead_us - ahead.us),
        "clock_uncertainty_us": way.clock_uncertainty_us - int(-ahead.uncertainty_us // 1),
    }


def _from_generator(state: RunState, trial: PlannedTrial, server: Server) -> Found:
    """By pgdrive on the one rented generator. Raises TargetError."""
    try:
        return _trips(round_trips(state.ground.engine, clients_environment(state, trial, server), "simple"))
    except EngineError as error:
        message = f"the generator cannot measure a round trip to the server: {error.message}"
        raise TargetError(message, hint=error.hint) from error


def _from_farthest(state: RunState, cluster: Cluster, trial: PlannedTrial, server: Server) -> Found:
    """By pgdrive on each of the rented generators. Raises EngineError, and StageFailedError when they cannot be had."""
    # Ray takes a second to load; where there is a cluster, it is loaded
    from pgdyno.cluster.look import called
    from pgdyno.cluster.trips import measure_trips

    stage(Stage.RUN, cluster.gather)
    farthest = measure_trips(cluster, trial.point.clients, clients_environment(state, trial, server))
    if farthest is None:
        return {}
    generator, trips = farthest
    return _trips(trips) | {"generator": called(generator), "generator_zone": generator.facts.get("zone")}


def _trips(trips: Trips) -> Found:
    return {"round_trips": trips.count, "least_us": trips.least_us, "median_us": round(trips.median_us, 1)}
