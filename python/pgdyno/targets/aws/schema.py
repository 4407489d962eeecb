"""What a plan says of servers and generators at Amazon, which are rented for a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from pgdyno.errors import Problem
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.targets import RentedHosts, RentedTarget, TargetSpec, Version
from pgdyno.plan.values import Model, Positive, Setting, Size
from pgdyno.units import parse_duration_s

PROVIDER = "aws"
LOGIN = "pgdyno"
"""The account that is made on a host."""
MOST_GENERATORS = 64
InstanceType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Architecture = Literal["arm64", "x86_64"]
System = Literal["debian-12", "debian-13", "ubuntu-24.04"]
InstanceClass = Annotated[str, Field(pattern=r"^db\.[a-z0-9-]+\.[a-z0-9]+$")]


def _lasting(text: str) -> str:
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


Lasting = Annotated[str, AfterValidator(_lasting)]


class AwsTarget(RentedTarget):
    """What all of them have in common. A server is made for the run and removed behind it."""

    provider: ClassVar[str] = PROVIDER
    summary: ClassVar[str] = "rented from Amazon"
    setting_remedy: ClassVar[str] = "put it under parameters"

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

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Everything of it that its service would refuse."""
        del targets
        # it imports this module
        from pgdyno.targets.aws.checks import check_aws

        yield from check_aws(("target", name), self, document)

    def rented_in_words(self) -> str:
        """`db.m7g.large in eu-central-1`."""
        return f"{self.instance} in {', '.join(self.zones) or self.region or 'the configured region'}"


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

    def rented_in_words(self) -> str:
        """The same, and what it is restored from."""
        origin = self.snapshot or getattr(self, "clone_of", None)
        restored = "" if origin is None else f", from {origin}, {self.restore.replace('-', ' ')}"
        return f"{super().rented_in_words()}{restored}"


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

    def describe(self) -> str:
        """The target in words."""
        storage = f"{self.storage} of {self.storage_type}"
        return f"RDS for PostgreSQL {self.version}, {self.rented_in_words()}, {storage}"


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

    def describe(self) -> str:
        """The target in words."""
        return f"Aurora PostgreSQL {self.version}, {self.rented_in_words()}, {self.storage_type} storage"


class Volume(Model):
    """A volume of EBS; it goes with its host."""

    size: Size
    type: Literal["gp3", "io1", "io2"] = "gp3"
    iops: Positive | None = None
    """None: the 3,000 of gp3."""
    throughput: Positive | None = None
    """MB/s, of gp3; None: its 125."""


class DataVolume(Volume):
    """One with a file system of its own."""

    file_system: Literal["ext4", "xfs"] = "ext4"
    mount_options: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_=:.-]+$")]] = Field(
        default_factory=lambda: ["noatime"]
    )


class Host(Model):
    """What every host has."""

    system: System = "debian-12"
    """Its newest image is asked of Amazon."""
    architecture: Architecture | None = None
    """None: what the instance type has."""
    root: Volume = Field(default_factory=lambda: Volume(size="10GB"))
    login: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$")] = LOGIN
    """The account for SSH."""
    ssh_port: Port = 22
    subnet: Annotated[str, Field(pattern=r"^subnet-[0-9a-z]+$")] | None = None
    """One that is there already; None: that of the zone in the account's default network."""


class Ec2Target(AwsTarget, Host):
    """A host of EC2 with a PostgreSQL from packages."""

    kind: Literal["ec2"]
    instance: InstanceType
    """The instance type: `m8g.2xlarge`."""
    instead: list[InstanceType] = Field(default_factory=list)
    """Types to take, in this order, where Amazon has no capacity for `instance`; of the same architecture."""
    packages: Literal["pgdg", "distribution"] = "pgdg"
    """Of the PostgreSQL project, or of the system itself."""
    data: DataVolume | None = None
    """None: the cluster is on the root volume."""
    wal: DataVolume | None = None
    """None: with the cluster."""
    huge_pages: bool = False
    """Reserve huge pages for the whole shared memory, and take nothing else."""
    initdb: list[str] = Field(default_factory=list)
    """Further arguments of initdb."""
    tls: bool = True
    """Whether connections are encrypted, the server's certificate checked."""
    port: Port = 5432

    def describe(self) -> str:
        """The target in words."""
        named = (("data", self.data), ("WAL", self.wal))
        volumes = [f"{name} on {each.size} of {each.type}" for name, each in named if each is not None]
        return ", ".join([f"PostgreSQL {self.version} on {self.system}", self.rented_in_words(), *volumes])


class Ec2Generator(Host, RentedHosts):
    """A host of EC2 that the load comes from, in the zone of the servers; or several of them, as one."""

    provider: ClassVar[str] = PROVIDER

    kind: Literal["ec2"]
    count: Annotated[int, Field(ge=1, le=MOST_GENERATORS)] = 1
    """How many hosts: the load is shared out over them."""
    instance: InstanceType
    """The instance type: `c8g.4xlarge`."""
    instead: list[InstanceType] = Field(default_factory=list)
    """Types to take, in this order, where Amazon has no capacity for `instance`; of the same architecture."""
    allow: list[str] = Field(default_factory=list)
    """Networks (CIDR) from which it may be reached over SSH; none: the address of this machine alone."""
    public: bool = True
    """Whether it has a public address; false where this machine is in the same network."""
    encrypted: bool = True
    """Storage, with the account's own key for the service."""
    ready_within: Lasting = "30m"
    """How long it may take to come up."""

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Everything of it that does not go with the rest of the plan, or would be refused."""
        # it imports this module
        from pgdyno.targets.aws.checks import check_generator

        yield from check_generator(self, targets, document)


DATA_DEVICE, WAL_DEVICE = "/dev/sdf", "/dev/sdg"
