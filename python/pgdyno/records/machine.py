"""The machine and its servers, as a run found them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from pgdyno.records.base import Record


class Host(Record):
    """The machine that a run ran on."""

    cpu_model: str
    cores: int
    memory_bytes: int
    kernel: str
    os: str
    architecture: str


class CheckVerdict(StrEnum):
    """What a check of the conditions comes to, the worst last; `unknown` is what could not be seen."""

    GOOD = "good"
    UNKNOWN = "unknown"
    NOTE = "note"
    WARNING = "warning"
    STOP = "stop"


class Check(Record):
    """One condition of a run, as `pgdyno doctor` found it."""

    id: str
    """Of `docs/reference/doctor.md`: `storage.fsync`."""
    verdict: CheckVerdict
    found: str
    """What is there."""
    means: str = ""
    """What it means for the plan."""
    change: str = ""
    """How to change it."""
    measured: dict[str, float | int | str] = Field(default_factory=dict)
    """Figures for programs, with the unit at the end of each name."""


class HostPrint(Record):
    """What of the machine must be alike for two runs to be comparable."""

    cpu_model: str
    cores: int
    numa_nodes: int | None = None
    threads_per_core: int | None = None
    memory_bytes: int
    cpu_limit: float | None = None
    """Cores that the control group allows; None without a limit."""
    memory_limit_bytes: int | None = None
    """Of the control group; None without a limit."""
    virtualisation: str | None = None
    """`none`, the hypervisor's name, or `unknown hypervisor`; None where that cannot be told."""
    architecture: str
    kernel: str
    os: str
    boot: dict[str, str] = Field(default_factory=dict)
    """Those parameters of the kernel's command line that change speed; a bare one has an empty value."""
    tuning: dict[str, str] = Field(default_factory=dict)
    """Settings of the kernel that change speed: governor, huge pages, swappiness, clock source."""
    disks: dict[str, str] = Field(default_factory=dict)
    """File system, device and its kind, by what lies there: `data of pg18`."""


class ServerPrint(Record):
    """What of a server must be alike."""

    version: str
    version_full: str
    configure: str | None = None
    """Arguments of its configure or meson, as pg_config tells; None where the server does not tell."""
    settings_changed: dict[str, str] = Field(default_factory=dict)
    """Settings whose source is not the default."""
    data_checksums: bool = False
    dataset_marks: list[str] = Field(default_factory=list)
    """What was loaded, by its marks: `pgbench version 1 scale 10`."""
    loaded_without_wal: list[str] = Field(default_factory=list)
    """Those of them that were loaded under wal_level = minimal."""


class Fingerprint(Record):
    """What must be equal for two results to be comparable."""

    host: HostPrint
    pgdyno: str
    pgdrive: str
    generator: str
    """Where the load comes from: `the same machine`."""
    seed: int
    workload: dict[str, Any] = Field(default_factory=dict)
    """Scripts, dataset and variables as resolved; files with their SHA-256."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """How the state before every trial was made."""
    servers: dict[str, ServerPrint] = Field(default_factory=dict)
    """By target; those that have started."""


class ServerFacts(Record):
    """What a target turned out to be."""

    version: str
    """As the server says: "18.6"."""
    version_full: str
    """select version()"""
    settings_changed: dict[str, str]
    """Settings whose source is not the default, by name, in the server's units."""
    data_checksums: bool
    cluster_bytes: int | None = None


class TargetRecord(Record):
    """A target of a run: what the plan asked for, and what came."""

    name: str
    kind: str
    asked: dict[str, Any]
    facts: ServerFacts | None = None
    """None until it has started once."""
