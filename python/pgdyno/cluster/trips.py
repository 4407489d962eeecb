"""How far each generator is from the server, just before a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.cluster.cluster import Cluster, Standing
from pgdyno.cluster.look import at_once, called
from pgdyno.doctor.generator import Trips
from pgdyno.errors import EngineError

PROTOCOL = "simple"


def measure_trips(cluster: Cluster, clients: int, environment: Mapping[str, str]) -> tuple[Standing, Trips] | None:
    """Keeps with each generator how far it is from the server of `environment`; the farthest of a load of `clients`.

    All measure at once, as they will work. None when not one of them answers, which the load then says. Raises
    EngineError when the server cannot be reached from one of them.
    """
    making = cluster.generators[:clients]
    found = at_once(making, lambda each: each.trips(environment, PROTOCOL))
    measured: list[tuple[Standing, Trips]] = []
    for each in cluster.generators:
        trips = found.get(each.name)
        if isinstance(trips, EngineError):
            message = f"{called(each)} cannot measure a round trip to the server: {trips.message}"
            raise EngineError(message, hint=trips.hint)
        known = trips if isinstance(trips, Trips) else None
        # what an earlier trial left is of another server, perhaps
        each.facts = {**each.facts, **_facts(known)}
        if known is not None:
            measured.append((each, known))
    return max(measured, key=_least_us, default=None)


def _least_us(of: tuple[Standing, Trips]) -> float:
    return of[1].least_us


def _facts(trips: Trips | None) -> Mapping[str, Any]:
    return {
        "round_trips": trips.count if trips else None,
        "round_trip_us": trips.least_us if trips else None,
        "round_trip_median_us": round(trips.median_us, 1) if trips else None,
    }
