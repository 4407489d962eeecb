"""What each generator can do before a trial: its ceiling, and its round trip to the server."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from pgdyno.doctor.check import good, stop, unknown
from pgdyno.doctor.generator import RATE_WARNING, client_count, format_rounded
from pgdyno.doctor.needs import Needs
from pgdyno.doctor.round_trips import Trips, round_trip
from pgdyno.errors import EngineError
from pgdyno.generators.generator_lifecycle import Cluster
from pgdyno.generators.generator_protocol import LostError, Standing
from pgdyno.messages import Message
from pgdyno.records import Check

CEILING, PATH = "generator.ceiling", "network.round-trip"
SECONDS = 1.0
Missed = LostError | EngineError
"""Why nothing was measured."""


Measured = TypeVar("Measured")


def look(cluster: Cluster, needs: Needs, servers: Mapping[str, Mapping[str, str]]) -> list[Check]:
    """Return checks of every generator; `servers` are those over the network, by target.

    Measures all at once, as in a load: generators on one machine share it.
    """
    count = len(cluster.generators)
    clients = max(1, needs.clients // count)
    reached = at_once(cluster.generators, lambda each: each.ceiling(needs.protocol, clients, SECONDS))
    rate = None if needs.rate_per_s is None else needs.rate_per_s / count
    checks = [_ceiling(each, reached[each.name], clients, needs.protocol, rate) for each in cluster.generators]
    for target, environment in servers.items():
        paths = at_once(cluster.generators, partial(_median_us, environment, needs.protocol))
        checks += [_path(each, paths[each.name], target, needs) for each in cluster.generators]
    return checks


def _ceiling(
    generator: Standing, reached: float | Missed, clients: int, protocol: str, rate_per_s: float | None
) -> Check:
    if isinstance(reached, Exception):
        failed = Message(
            "generator-not-measured",
            "{generator}: not measured: {error}",
            generator=format_name(generator),
            error=str(reached),
        )
        return unknown(CEILING, failed)
    generator.facts = {**generator.facts, "ceiling_tps": round(reached, 1)}
    found = Message(
        "generator-ceiling",
        "{generator}: {tps} transactions per second (select-only; {protocol}; {clients})",
        generator=format_name(generator),
        tps=format_rounded(reached),
        protocol=protocol,
        clients=client_count(clients),
    )
    measured = {"tps": round(reached, 1)}
    if rate_per_s is not None and rate_per_s > RATE_WARNING * reached:
        means = Message(
            "generator-starts-late",
            "its share of the rate is {rate_per_s:,.0f} per second: it would start transactions late, which adds to "
            "latency",
            rate_per_s=rate_per_s,
        )
        return stop(CEILING, found, means, "use more hosts, or larger ones", measured)
    return good(CEILING, found, measured)


def _path(generator: Standing, median_us: float | Missed, target: str, needs: Needs) -> Check:
    if isinstance(median_us, Exception):
        failed = Message(
            "generator-cannot-reach",
            "{generator} does not reach {target}: {error}",
            generator=format_name(generator),
            target=target,
            error=str(median_us),
        )
        means = Message("generator-unusable", "no client can connect from this host")
        return stop(PATH, failed, means, "check the route and pg_hba.conf")
    path = Message(
        "path-from-generator", "from {generator} to {target}", generator=format_name(generator), target=target
    )
    return round_trip(needs, median_us, path)


def _median_us(environment: Mapping[str, str], protocol: str, generator: Standing) -> float:
    return generator.trips(environment, protocol).median_us


def format_name(generator: Standing) -> str:
    """Return its name and its host's name."""
    return f"{generator.name} ({generator.facts['host']})"


def at_once(generators: Sequence[Standing], measure: Callable[[Standing], Measured]) -> dict[str, Measured | Missed]:
    """Return measurements, or the reasons why there are none, by name."""

    def attempt(generator: Standing) -> Measured | Missed:
        try:
            return measure(generator)
        except (LostError, EngineError) as error:
            return error

    with ThreadPoolExecutor(len(generators)) as pool:
        return dict(zip([each.name for each in generators], pool.map(attempt, generators), strict=True))


PROTOCOL = "simple"


def measure_trips(cluster: Cluster, clients: int, environment: Mapping[str, str]) -> tuple[Standing, Trips] | None:
    """Measures and stores each generator's round trip to the server of `environment`; returns the longest.

    All measure at once, as they do during a load of `clients`. Returns None if no generator answers, which the load
    then reports. Raises EngineError if a generator cannot reach the server.
    """
    making = cluster.generators[:clients]
    found = at_once(making, lambda each: each.trips(environment, PROTOCOL))
    measured: list[tuple[Standing, Trips]] = []
    for each in cluster.generators:
        trips = found.get(each.name)
        if isinstance(trips, EngineError):
            message = f"{format_name(each)} cannot measure a round trip to the server: {trips.message}"
            raise EngineError(message, hint=trips.hint)
        known = trips if isinstance(trips, Trips) else None
        # results of an earlier trial may belong to another server
        each.facts = {**each.facts, **_facts(known)}
        if known is not None:
            measured.append((each, known))
    return max(measured, key=lambda each: each[1].least_us, default=None)


def _facts(trips: Trips | None) -> Mapping[str, Any]:
    return {
        "round_trips": trips.count if trips else None,
        "round_trip_us": trips.least_us if trips else None,
        "round_trip_median_us": round(trips.median_us, 1) if trips else None,
    }
