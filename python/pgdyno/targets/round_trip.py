"""Measures the network path to a server: round trips, the offset of its clock, and its processor."""

import statistics
import time
from typing import Any

import psycopg
from psycopg import pq

from pgdyno.errors import TargetError
from pgdyno.host import cpu_model
from pgdyno.records import NetworkPathRecord
from pgdyno.targets.server import Server

TRIPS, LEAST_TRIPS = 50, 5
WITHIN_S = 2.0
"""After this time it makes no round trips beyond `LEAST_TRIPS`, to spare servers on another continent."""
_CLOCK = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
_PROCESSOR = "SELECT pg_read_file('/proc/cpuinfo', 0, 100000)"


def measure_network_path(server: Server) -> NetworkPathRecord:
    """Query the time of `server` repeatedly over one connection. Raises TargetError."""
    with server.connect() as connection:
        trips: list[tuple[float, int]] = []
        end = time.monotonic() + WITHIN_S
        while len(trips) < TRIPS and (len(trips) < LEAST_TRIPS or time.monotonic() < end):
            trips.append(_trip(connection.pgconn))
        quickest_us, ahead_us = min(trips)
        return NetworkPathRecord(
            round_trips=len(trips),
            least_us=round(quickest_us, 1),
            median_us=round(statistics.median(each for each, _ in trips), 1),
            clock_ahead_us=ahead_us,
            clock_uncertainty_us=-int(-quickest_us / 2 // 1),
            cpu_model=_processor(connection),
        )


def _trip(connection: pq.abc.PGconn) -> tuple[float, int]:
    wall_ns, begin = time.time_ns(), time.perf_counter_ns()
    result = connection.exec_(_CLOCK)
    took_us = (time.perf_counter_ns() - begin) / 1e3
    answer = result.get_value(0, 0) if result.status == pq.ExecStatus.TUPLES_OK else None
    if answer is None:
        said = connection.get_error_message()
        raise TargetError(f"cannot measure the round trip: {said}")
    # assumes the answer in the middle of the round trip, with half of it as the error (NTP, RFC 5905)
    return took_us, int(answer) - round(wall_ns / 1e3 + took_us / 2)


def _processor(connection: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    """Return None if the role may not read files, as on all managed services."""
    try:
        row = connection.execute(_PROCESSOR).fetchone()
    except psycopg.Error:
        return None
    return cpu_model(row[0]) if row is not None and row[0] else None
