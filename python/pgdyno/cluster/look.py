"""What each generator can do before the first trial: against a server that answers at once, and on its way to ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from pgdyno.cluster.cluster import Cluster, Standing
from pgdyno.cluster.load import LostError
from pgdyno.doctor.check import good, stop, unknown
from pgdyno.doctor.generator import RATE_WARNING, round_trip, rounded
from pgdyno.doctor.needs import Needs
from pgdyno.errors import EngineError
from pgdyno.records import Check

CEILING, PATH = "generator.ceiling", "network.round-trip"
SECONDS = 1.0


def look(cluster: Cluster, needs: Needs, servers: Mapping[str, Mapping[str, str]]) -> list[Check]:
    """Checks of every generator; `servers` are those over the network, by target.

    All are measured at once, as they will work: generators of one machine share it.
    """
    count = len(cluster.generators)
    clients = max(1, needs.clients // count)
    reached = _at_once(cluster, lambda each: each.ceiling(needs.protocol, clients, SECONDS))
    rate = None if needs.rate_per_s is None else needs.rate_per_s / count
    checks = [_ceiling(each, reached[each.name], clients, needs.protocol, rate) for each in cluster.generators]
    for target, environment in servers.items():
        paths = _at_once(cluster, partial(_way, environment, needs.protocol))
        checks += [_path(each, paths[each.name], target, needs) for each in cluster.generators]
    return checks


def _ceiling(generator: Standing, reached: float | str, clients: int, protocol: str, rate_per_s: float | None) -> Check:
    if isinstance(reached, str):
        return unknown(CEILING, f"{_called(generator)}: not measured: {reached}")
    generator.facts = {**generator.facts, "ceiling_tps": round(reached, 1)}
    most = rounded(reached)
    found = f"{_called(generator)}: {most} transactions a second (select-only; {protocol}; {clients} clients)"
    measured = {"tps": round(reached, 1)}
    if rate_per_s is not None and rate_per_s > RATE_WARNING * reached:
        means = f"its part of the rate is {rate_per_s:,.0f} a second: it will be late, and that shows as latency"
        return stop(CEILING, found, means, "use more hosts, or larger ones", measured)
    return good(CEILING, found, measured)


def _path(generator: Standing, median_us: float | str, target: str, needs: Needs) -> Check:
    if isinstance(median_us, str):
        means = "no client can connect from there"
        return stop(
            PATH, f"{_called(generator)} does not reach {target}: {median_us}", means, "look at the route, pg_hba"
        )
    return round_trip(needs, median_us, f"from {_called(generator)} to {target}")


def _way(environment: Mapping[str, str], protocol: str, generator: Standing) -> float:
    return generator.path_us(environment, protocol)


def _called(generator: Standing) -> str:
    return f"{generator.name} ({generator.facts['host']})"


def _at_once(cluster: Cluster, measure: Callable[[Standing], float]) -> dict[str, float | str]:
    """What each measured, or why it could not."""
    found: dict[str, float | str] = {}

    def one(generator: Standing) -> None:
        try:
            found[generator.name] = measure(generator)
        except (LostError, EngineError) as error:
            found[generator.name] = error.message if isinstance(error, EngineError) else str(error)

    threads = [threading.Thread(target=one, args=(each,)) for each in cluster.generators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
