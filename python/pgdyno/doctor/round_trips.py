"""The round trip between the generator and the server, or pgnull in place of a server that does not run yet."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.doctor.check import grade_value, note, warning
from pgdyno.doctor.generator import drive, format_rounded, null_server, p50_us
from pgdyno.doctor.needs import Needs
from pgdyno.messages import Message
from pgdyno.programs import Engine
from pgdyno.records import Check

ROUND_TRIP_S = 0.3
NOTE_US, WARNING_US = 200, 1_000


@dataclass(frozen=True, slots=True)
class Trips:
    """Round trips of one client that repeats the shortest statement."""

    count: int
    least_us: float
    median_us: float


def measure_round_trip(engine: Engine, needs: Needs) -> float:
    """Return the median latency of one client's `SELECT` against pgnull in microseconds. Raises EngineError."""
    with null_server(engine, 1, tcp=needs.tcp) as environment:
        return round_trips(engine, environment, needs.protocol).median_us


def round_trips(engine: Engine, environment: Mapping[str, str], protocol: str) -> Trips:
    """Measures round trips between the host of `engine` and the server of `environment`. Raises EngineError."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("SELECT 1;\n")
        script.flush()
        options = ["--client=1", "--jobs=1", f"--protocol={protocol}", f"--file={script.name}"]
        end = drive(engine, options, environment, ROUND_TRIP_S)
        return Trips(end["succeeded"], round(end["latency_ns"]["min"] / 1e3, 1), p50_us(end))


def round_trip(needs: Needs, median_us: float, path: Message) -> Check:
    """`network.round-trip`: the minimum latency of a statement, and so of a transaction."""
    name = "network.round-trip"
    found = Message("round-trip", "{median} µs {path}", median=f"{median_us:.3g}", path=path)
    if needs.statements > 1:
        means = Message(
            "transaction-minimum",
            "a transaction of {statements} statements takes at least {least} µs",
            statements=needs.statements,
            least=f"{median_us * needs.statements:.3g}",
        )
    else:
        means = Message(
            "statement-minimum",
            "no statement is faster; a client runs at most {most} per second",
            most=format_rounded(1e6 / median_us),
        )
    change = "move the generator closer to the server (the same zone or rack)"
    limits = [(NOTE_US, note), (WARNING_US, warning)]
    measured = {"median_us": round(median_us, 2)}
    return grade_value(name, median_us, limits, found, means, change, measured, always_means=True)
