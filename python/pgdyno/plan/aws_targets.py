"""The plan's targets that are rented from Amazon for a run; those of EC2 have a module of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pgdyno.plan.base import Positive, Setting, Size
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.version_words import Version
from pgdyno.units import parse_duration_s

InstanceClass = Annotated[str, Field(pattern=r"^db\.[a-z0-9-]+\.[a-z0-9]+$")]


def _lasting(text: str) -> str:
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


Lasting = Annotated[str, AfterValidator(_lasting)]


class AwsTarget(NetworkTarget):
    """What all of them have in common. A server is made for the run and removed behind it."""

    version: Version
    """PostgreSQL's, a major or an exact one that the service has; of a snapshot, the snapshot's."""
    instance: str
    instead: list[str] = Field(default_factory=list)
    region: str | None = None
    """None: what boto3's own configuration says."""
    zones: list[str] = Field(default_factory=list)
    """Availability zones, tried in this order; none: Amazon chooses."""
    parameters: dict[str, Setting] = Field(default_factory=dict)
    """The server's settings: of the instance's parameter group, or lines of postgresql.conf."""
    allow: list[str] = Field(default_factory=list)
    """Networks (CIDR) from which the server may be reached; none: the address of this machine alone."""
    public: bool = True
    """Whether it has a public address; false where this machine is in the same network."""
    encrypted: bool = True
    """Storage, with the account's own key for the service."""
    ready_within: Lasting = "90m"
    """How long the service may take to make, restore or remove it."""


class DatabaseTarget(AwsTarget):
    """What RDS and Aurora have in common: no host to be seen."""

    instance: InstanceClass
    """The instance class: `db.r8g.4xlarge`."""
    instead: list[InstanceClass] = Field(default_factory=list)
    """Classes to take, in this order, where Amazon has no capacity for `instance`."""
    insights: bool = True
    """Whether Performance Insights is switched on, kept for 7 days, which costs nothing."""
    subnet_group: str | None = None
    """A subnet group that is there already; None: the account's default network."""
    snapshot: Annotated[str, Field(min_length=1)] | None = None
    """A snapshot that is there already and that the server is restored from; None: an empty server."""
    restore: Literal["once", "each-trial"] = "once"
    """When `snapshot` is restored: at the start of the run, or before every trial."""
    first_touch: Literal["read", "none"] = "read"
    """What is done with the pages of a restored server before its first trial, which fetch their blocks from far
    when they are first touched: read all, or leave that to the trials."""
    tls_root: str | None = None
    """Certificates to check the server's with; None: Amazon's bundle, which is fetched."""


class RdsTarget(DatabaseTarget):
    """A single instance of RDS for PostgreSQL."""

    kind: Literal["rds"]
    storage: Size = "20GB"
    storage_type: Literal["gp3", "gp2", "io1", "io2"] = "gp3"
    iops: Positive | None = None
    throughput: Positive | None = None
    """MB/s, of gp3."""
    backup_days: Annotated[int, Field(ge=0, le=35)] = 0
    """How long automatic backups are kept; 0: none are made."""


class AuroraTarget(DatabaseTarget):
    """A cluster of Aurora PostgreSQL with one instance, its writer."""

    kind: Literal["aurora"]
    cluster_parameters: dict[str, Setting] = Field(default_factory=dict)
    """Of the cluster's parameter group."""
    storage_type: Literal["standard", "io-optimized"] = "standard"
    """Pays for every I/O, or more for instance and storage and nothing for I/O."""
    clone_of: Annotated[str, Field(min_length=1)] | None = None
    """A cluster that is there already and whose storage is shared, copied on write; instead of `snapshot`."""
    backup_days: Annotated[int, Field(ge=1, le=35)] = 1
