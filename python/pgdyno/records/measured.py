"""What a trial measured, and with what."""

from __future__ import annotations

from pydantic import Field

from pgdyno.records.base import Record, Stage
from pgdyno.records.workloads import StatementCounts, TpccFigures


class Point(Record):
    """One combination of the sweep's parameters."""

    clients: int
    """0 only in an imported trial whose source does not tell them."""
    workers: int | None = None
    """Engine threads as the plan asks; None leaves it to the engine."""
    protocol: str = "simple"
    """Empty only in an imported trial whose source does not tell it."""
    scale: int | None = None
    rate: float | None = None
    """Transactions a second in open loop; None in closed loop."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Swept settings of the server, over those of its target; empty when none are swept."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Swept variables of scripts, over the workload's; empty when none are swept."""

    def parameter(self, name: str) -> int | float | str | None:
        """The value of `workers`, `settings.work_mem` and the like; None for one that is left open here."""
        group, dot, key = name.partition(".")
        value: int | float | str | None = getattr(self, group).get(key) if dot else getattr(self, name)
        return value

    def parameters(self) -> list[str]:
        """Names of all parameters but the clients, in reading order; settings and variables as they are there."""
        further = [f"{group}.{name}" for group in ("settings", "variables") for name in getattr(self, group)]
        return ["protocol", "scale", "workers", "rate", *further]


class Latency(Record):
    """Latency of succeeded transactions, nanoseconds, from the intended start.

    Trials of our own have every figure; imported ones have those that were printed, and None for the rest.
    """

    mean: float | None = None
    stddev: float | None = None
    min: int | None = None
    p50: int | None = None
    p75: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    p999: int | None = None
    p9999: int | None = None
    max: int | None = None


class ScriptSummary(Record):
    """What one script did in the measured part of a trial."""

    id: int
    name: str
    weight: int
    succeeded: int
    failed: int
    skipped: int
    latency_ns: Latency | None = None


class ErrorCount(Record):
    """How often an error came."""

    sqlstate: str | None
    message: str
    count: int


class Summary(Record):
    """The measured part of a trial: scheduled = succeeded + failed + skipped + in_flight.

    Of an imported trial, what was not printed is None; a tool that tells nothing of failures counts none.
    """

    measured_s: float | None
    scheduled: int | None
    succeeded: int | None
    failed: int
    skipped: int
    in_flight: int | None
    retried: int
    retries: int
    clients_aborted: int
    unstarted: int = 0
    """Open loop: due before the end, and no client was free to begin them; in no other figure."""
    tps: float
    latency_ns: Latency | None
    """None when nothing succeeded."""
    connect_us: int | None
    scripts: list[ScriptSummary]
    errors: list[ErrorCount]
    statements: StatementCounts | None = None
    """Of sysbench's scripts and workloads alone."""
    tpcc: TpccFigures | None = None


class Failure(Record):
    """Why a trial is not a result."""

    stage: Stage
    message: str
    hint: str | None = None
    sqlstate: str | None = None


class Generator(Record):
    """The engine that made the load, as it resolved itself."""

    version: str
    workers: int
    io: str
    seed: int
    exit_code: int | None
    cpu_user_us: int | None = None
    cpu_system_us: int | None = None
