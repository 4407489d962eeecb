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


class PhaseFigures(Record):
    """One of the plan's phases: the transactions that were meant to begin in it."""

    name: str
    result: bool
    """Whether it counts in the trial's figures."""
    measured_s: float
    scheduled: int
    succeeded: int
    failed: int
    skipped: int
    unstarted: int
    tps: float
    latency_ns: Latency | None
    """None when nothing succeeded."""


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
    phases: list[PhaseFigures] = Field(default_factory=list)
    """In their order; empty without phases, and in records of earlier versions."""


class Failure(Record):
    """Why a trial is not a result."""

    stage: Stage
    message: str
    hint: str | None = None
    sqlstate: str | None = None


class GeneratorHost(Record):
    """One of several generators that made the load together."""

    name: str
    """Of the node."""
    host: str
    """As the host calls itself."""
    boot: str = ""
    """Of the machine; generators with the same share it."""
    cores: int
    cpu_model: str
    """As the host sees it, of a rented one, too."""
    zone: str | None = None
    """Amazon's availability zone; None: it was not rented for the run."""
    instance: str | None = None
    """The type that was rented: of `instead`, perhaps; None: it was not rented for the run."""
    round_trips: int | None = None
    """To the server and back, just before the trial, one after the other; None where it was not rented."""
    round_trip_us: float | None = None
    """The quickest of them."""
    round_trip_median_us: float | None = None
    pgdyno: str
    pgdrive: str
    clients: int | None
    """None when it was lost before it had said so."""
    clients_aborted: int | None = None
    """Of those, that gave up; None when the load was not whole."""
    clock_ahead_us: int
    """How far its clock was ahead of ours before the load; as exact as half of the round trip."""
    clock_round_trip_us: int
    clock_ahead_after_us: int | None
    """None when the load was not whole; likewise what follows."""
    heard_late_us: int
    """From the end of an interval until it was here, at most."""
    ray_cpu_us: dict[str, int] | None
    """What Ray took there beside the engine, `user` and `system`; the load's figure has it in it."""
    start_late_us: int | None = None
    """How much later than the agreed instant a worker began, at most."""
    workers: int | None = None
    busiest_cpu_share: float | None = None
    """Of the measured part, as a share of a core, of its busiest worker."""
    succeeded: int | None = None
    tps: float | None = None
    cpu_us: dict[str, int] | None = None
    ceiling_tps: float | None = None
    """Against a server that answers at once, before the first trial; None where nobody looked."""

    @property
    def called(self) -> str:
        """Its name, and its host's."""
        return f"{self.name} ({self.host})"


class WorkersTried(Record):
    """A number of engine threads that the warm-up tried."""

    workers: int
    tps: float
    """Transactions a second, the median of its slots."""


class Generator(Record):
    """The engine that made the load, as it resolved itself."""

    version: str
    workers: int
    io: str
    seed: int
    exit_code: int | None
    cpu_user_us: int | None = None
    cpu_system_us: int | None = None
    workers_tried: list[WorkersTried] = Field(default_factory=list)
    """Fewest first; empty where the number of workers was given, or known from an earlier trial."""
    worker_added: int = 0
    """Workers that joined while measuring, because others were too busy."""
    hosts: list[GeneratorHost] = Field(default_factory=list)
    """Where several made the load together; the figures above are of all of them."""
