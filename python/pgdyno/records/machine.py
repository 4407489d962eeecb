"""The machine and its servers, as a run found them."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pgdyno.messages import Message
from pgdyno.records.base import Instant, KeptMessage, Record
from pgdyno.records.secret_values import without_secrets

ServerSettings = Annotated[dict[str, str], AfterValidator(without_secrets)]
"""Values of server settings by name, secrets masked."""


class Host(Record):
    cpu_model: str
    cores: int
    memory_bytes: int
    kernel: str
    os: str
    architecture: str


class CheckVerdict(StrEnum):
    """The verdict of a check, in ascending order of severity; `unknown` means not observable."""

    GOOD = "good"
    UNKNOWN = "unknown"
    NOTE = "note"
    WARNING = "warning"
    STOP = "stop"


class Check(Record):
    """One condition of a run, as found by `pgdyno doctor`."""

    id: str
    """As in `docs/reference/doctor.md`: `storage.fsync`."""
    verdict: CheckVerdict
    found: str
    """The observed state."""
    found_details: KeptMessage | None = None
    """The same as a message; None in records of earlier versions."""
    means: str = ""
    """The consequence for the plan."""
    means_details: KeptMessage | None = None
    """The same as a message; None without a consequence, and in records of earlier versions."""
    change: str = ""
    """The remedy."""
    measured: dict[str, float | int | str] = {}
    """Figures for programs, with the unit at the end of each name."""

    @property
    def state(self) -> Message:
        return (
            Message(self.id, "{found}", found=self.found) if self.found_details is None else self.found_details.message
        )

    @property
    def consequence(self) -> Message:
        return (
            Message(self.id, "{means}", means=self.means) if self.means_details is None else self.means_details.message
        )


class HostPrint(Record):
    """Properties of the machine that must be equal for two runs to be comparable."""

    cpu_model: str
    cores: int
    numa_nodes: int | None = None
    threads_per_core: int | None = None
    memory_bytes: int
    cpu_limit: float | None = None
    """Cores that the control group allows; None without a limit."""
    memory_limit_bytes: int | None = None
    """Limit of the control group; None without a limit."""
    virtualisation: str | None = None
    """`none`, the hypervisor's name, or `unknown hypervisor`; None if unknown."""
    architecture: str
    kernel: str
    os: str
    boot: dict[str, str] = {}
    """Kernel boot parameters that affect performance; one without a value has an empty one."""
    tuning: dict[str, str] = {}
    """Kernel settings that affect performance: governor, huge pages, swappiness, clock source."""
    disks: dict[str, str] = {}
    """File system, device and its kind, by content: `data of pg18`."""


class ServerPrint(Record):
    """Properties of a server that must be equal."""

    version: str
    version_full: str
    configure: str | None = None
    """Arguments of its configure or meson, as in pg_config; None if the server does not reveal them."""
    settings_changed: ServerSettings = {}
    """Settings whose source is not the default."""
    data_checksums: bool = False
    collation: str | None = None
    """Of the database: `en_US.UTF-8 (libc 2.36)`; None in older runs."""
    identity: dict[str, str] | None = None
    """Of a server that was there before: system identifier, database, role, primary or standby, TLS; None of others."""
    dataset_marks: list[str] = []
    """Loaded datasets, from their dataset stamps: `pgbench version 1 scale 10`."""
    loaded_without_wal: list[str] = []
    """Those of them that were loaded under wal_level = minimal."""
    indexes: dict[str, str] | None = None
    """By table: `unique btree (id); btree (kind)`. None in older runs, and if the tables are too many."""
    pooler: str | None = None
    """The connection pooler of the load's clients; None without one."""
    built: str | None = None
    """What pgdyno built: commit, patches with their hashes, extensions with their versions; None if nothing."""


class Fingerprint(Record):
    """What must be equal for two results to be comparable."""

    host: HostPrint
    pgdyno: str
    pgdrive: str
    generator: str
    """Origin of the load: `the same machine`."""
    seed: int
    workload: dict[str, Any] = {}
    """Scripts, dataset and variables as resolved; files with their SHA-256."""
    reset: dict[str, Any] = {}
    """How the state before every trial was restored."""
    servers: dict[str, ServerPrint] = {}
    """By target; only those that have started."""


class ServerFacts(Record):
    version: str
    """As the server reports it: "18.6"."""
    version_full: str
    """select version()"""
    settings_changed: ServerSettings
    """Settings whose source is not the default, by name, in the server's units."""
    data_checksums: bool
    cluster_bytes: int | None = None
    is_standby: bool = False
    """In recovery, when the run began."""
    collation: str | None = None
    """Of the database: `en_US.UTF-8 (libc 2.36)`; None in older runs."""
    identity: dict[str, str] | None = None
    """Of a server that was there before: system identifier, database, role, primary or standby, TLS; None of others."""
    pooler: str | None = None
    """The connection pooler of the load's clients: `PgBouncer 1.18.0, transaction pooling, pool of 20`."""
    built: str | None = None
    """What pgdyno built: `/src/postgres, commit 1a2b3c4d5e6f, v3-0001.patch (9f8e7d6c)`; None if nothing."""

    @property
    def program_words(self) -> str:
        """Return what the server reports of itself, and what pgdyno built."""
        return self.version_full if self.built is None else f"{self.version_full}; {self.built}"


class TargetRecord(Record):
    """A target of a run: the plan's request, and the resulting server."""

    name: str
    kind: str
    asked: dict[str, Any]
    facts: ServerFacts | None = None
    """None until it has started once."""


class RentRecord(Record):
    """One target's server in one attempt of the run."""

    target: str
    instance: str
    """The rented class, possibly one of `instead`."""
    zone: str
    since: Instant
    """Time of the request; for a server that existed before, the start of the attempt."""
    until: Instant
    """End of the attempt, when the removal began; the same for a server that stays."""
    hourly: float | None = Field(default=None, ge=0)
    """Hourly cost with storage, at the run's prices; None if unknown."""
    once: float = Field(default=0.0, ge=0)
    """Cost of what is not billed by time: requests to storage."""
    currency: str | None = None
    price_date: date | None = None
    """Date of the price; for several prices, the oldest."""
    price_source: str | None = None
    """Where that is from: the provider's price list, or the package's."""

    @property
    def hours(self) -> float:
        return (self.until - self.since).total_seconds() / 3600.0

    @property
    def amount(self) -> float | None:
        """In the currency; None if unknown."""
        return None if self.hourly is None else self.hours * self.hourly + self.once
