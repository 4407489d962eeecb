"""The keys of a plan for servers and generators at Amazon, which pgdyno rents for a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import RentedHosts, RentedTarget, TargetSpec, Version
from pgdyno.plan.values import Model, Positive, Setting, Size
from pgdyno.units import parse_duration_s

PROVIDER = "aws"
DEAD_MAN_ROLE = "pgdyno-dead-man"
"""The default name of the role with which Amazon's scheduler removes databases."""
RESTORE_S = 3600.0
"""An upper estimate of the seconds that it takes to remove a database and create it again from a snapshot."""
LOGIN = "pgdyno"
"""The account that pgdyno creates on a host."""
MOST_GENERATORS = 64
InstanceType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Architecture = Literal["arm64", "x86_64"]
System = Literal["debian-12", "debian-13", "ubuntu-24.04", "amazon-linux-2023"]
KmsKey = Annotated[str, Field(pattern=r"^[\w:/-]+$")]
InstanceClass = Annotated[str, Field(pattern=r"^db\.[a-z0-9-]+\.[a-z0-9]+$")]


_SMALL_SIZES = {"nano": 1 / 64, "micro": 1 / 32, "small": 1 / 16, "medium": 1 / 4, "large": 1 / 2}
"""Below xlarge, by rank; processors and memory grow with it, though not everywhere by these factors."""


def _lasting(text: str) -> str:
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


Lasting = Annotated[str, AfterValidator(_lasting)]


class AwsTarget(RentedTarget):
    """What all kinds have in common. pgdyno creates a server for the run, and removes it after the run."""

    provider: ClassVar[str] = PROVIDER
    summary: ClassVar[str] = "rented from Amazon"
    setting_remedy: ClassVar[str] = "put it under parameters"

    version: Version
    """A major or exact version of PostgreSQL that the service has; with a snapshot, the snapshot's."""
    instance: str
    instead: list[str] = Field(default_factory=list)
    region: str | None = None
    """None: the region of boto3's configuration."""
    zones: list[str] = Field(default_factory=list)
    """Availability zones, tried in this order; none: Amazon chooses."""
    parameters: dict[str, Setting] = Field(default_factory=dict)
    """The server's settings, in the instance's parameter group, or in postgresql.conf on a host."""
    allow: list[str] = Field(default_factory=list)
    """Networks (CIDR) that may connect to the server; none: only the address of this machine."""
    allow_wide: bool = False
    """Accept networks in `allow` that are wider than /16 (IPv6: /32)."""
    public: bool = True
    """Whether the server has a public address; false if this machine is in the same network."""
    encrypted: bool = True
    """Encrypt storage with `kms_key`, or with the account's default key of the service."""
    kms_key: KmsKey | None = None
    """A key of the account's own (its ARN or alias)."""
    ready_within: Lasting = "90m"
    """How long the service may take to create, restore or remove the server."""

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yields each problem that would make its service refuse the target."""
        # This import would be circular at the top of the module.
        from pgdyno.targets.aws.checks import check_aws, check_host_tags

        yield from check_aws(("target", name), self, document)
        # the tags are those of all hosts
        if name == next((each for each, target in targets.items() if isinstance(target, Ec2Target)), None):
            yield from check_host_tags(document)

    def family_and_size(self) -> tuple[str, float] | None:
        """Returns `db.m7g` and 2 for `db.m7g.2xlarge`, by Amazon's names of sizes; None for another name."""
        family, _, size = self.instance.rpartition(".")
        large = re.fullmatch(r"(\d*)xlarge", size)
        if large is not None:
            return family, float(large[1] or 1)
        return (family, _SMALL_SIZES[size]) if size in _SMALL_SIZES else None

    def rented_in_words(self) -> str:
        """Returns the type and the place, such as `db.m7g.large in eu-central-1`."""
        return f"{self.instance} in {', '.join(self.zones) or self.region or 'the configured region'}{self.times()}"


class DatabaseTarget(AwsTarget):
    """What RDS and Aurora have in common: nobody can log in to the host."""

    instance: InstanceClass
    """The instance class: `db.r8g.4xlarge`."""
    instead: list[InstanceClass] = Field(default_factory=list)
    """Classes to try, in this order, if Amazon has no capacity for `instance`."""
    insights: bool = True
    """Enable Performance Insights with 7 days of history, which is free."""
    subnet_group: str | None = None
    """An existing subnet group; None: the account's default network."""
    snapshot: Annotated[str, Field(min_length=1)] | None = None
    """An existing snapshot from which the server is restored; None: an empty server."""
    restore: Literal["once", "each-trial"] = "once"
    """When the server is restored: at the start of the run, or before every trial; without `snapshot` and `clone_of`,
    `each-trial` restores a snapshot that pgdyno takes once the data are loaded.
    """
    first_touch: Literal["read", "none"] = "read"
    """What happens before the first trial to the pages of a restored server, which loads a block from remote storage at
    the first access: read all of them, or leave that to the trials.
    """
    extended_support: bool = False
    """Rent a version after its end of standard support; Amazon charges an amount per processor and hour for it."""
    dead_man: Annotated[str, Field(pattern=r"^[\w+=,.@:/-]+$")] = DEAD_MAN_ROLE
    """The role (its name or ARN) with which Amazon removes the server after its expiry, even if pgdyno is gone; `none`
    leaves the server without a dead-man switch.
    """
    tls_root: str | None = None
    """Root certificates for the server; None: Amazon's bundle, which pgdyno downloads."""

    @property
    def origin(self) -> str | None:
        """The snapshot or cluster of which the server is a copy; None for an empty server."""
        return self.snapshot or getattr(self, "clone_of", None)

    @property
    def takes_snapshot(self) -> bool:
        return self.restore == "each-trial" and self.origin is None

    @property
    def restore_s(self) -> float:
        return RESTORE_S if self.restore == "each-trial" else 0.0

    def rented_in_words(self) -> str:
        """Returns the same text, with the snapshot or cluster of which the server is a copy."""
        origin = "a snapshot of its own" if self.takes_snapshot else self.origin
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
    """How many days automatic backups are kept; 0: no backups."""

    def describe(self) -> str:
        storage = f"{self.storage} of {self.storage_type}"
        return f"RDS for PostgreSQL {self.version}, {self.rented_in_words()}, {storage}"


SERVERLESS = "db.serverless"
"""The class of instances whose capacity Amazon changes with the load (Aurora Serverless v2)."""


class Capacity(Model):
    """The range of a serverless instance in Aurora capacity units (ACU), each with about 2 GiB of memory."""

    min: Annotated[float, Field(ge=0, le=256, multiple_of=0.5, strict=False)]
    max: Annotated[float, Field(ge=1, le=256, multiple_of=0.5, strict=False)]


class AuroraTarget(DatabaseTarget):
    """An Aurora PostgreSQL cluster with one instance, its writer."""

    kind: Literal["aurora"]
    instance: Annotated[str, Field(pattern=r"^db\.([a-z0-9-]+\.[a-z0-9]+|serverless)$")]
    """The instance class: `db.r8g.4xlarge`, or `db.serverless` with `capacity`."""
    capacity: Capacity | None = None
    """The capacity units (ACU) of `db.serverless`: `{ min = 8, max = 64 }`. Equal values keep it from changing."""
    cluster_parameters: dict[str, Setting] = Field(default_factory=dict)
    """Settings in the cluster's parameter group."""
    storage_type: Literal["standard", "io-optimized"] = "standard"
    """"standard" is billed for each I/O; "io-optimized" costs more for instance and storage, and nothing for I/O."""
    clone_of: Annotated[str, Field(min_length=1)] | None = None
    """An existing cluster whose storage the new one shares, copied on write; instead of `snapshot`."""
    backup_days: Annotated[int, Field(ge=1, le=35)] = 1

    def describe(self) -> str:
        units = "" if self.capacity is None else f", {self.capacity.min:g} to {self.capacity.max:g} ACU"
        return f"Aurora PostgreSQL {self.version}, {self.rented_in_words()}{units}, {self.storage_type} storage"


class Volume(Model):
    """An EBS volume, which is removed with its host."""

    size: Size
    type: Literal["gp3", "io1", "io2"] = "gp3"
    iops: Positive | None = None
    """None: 3,000 for gp3."""
    throughput: Positive | None = None
    """MB/s, of gp3; None: 125."""


class DataVolume(Volume):
    """A volume with its own file system."""

    file_system: Literal["ext4", "xfs"] = "ext4"
    mount_options: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_=:.-]+$")]] = Field(
        default_factory=lambda: ["noatime"]
    )


class Host(Model):
    """Options that every kind of rented host has."""

    system: System = "debian-12"
    """The operating system; pgdyno asks Amazon for its newest image."""
    architecture: Architecture | None = None
    """None: that of the instance type."""
    root: Volume = Field(default_factory=lambda: Volume(size="10GB"))
    login: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]*$")] = LOGIN
    """The account for SSH."""
    ssh_port: Port = 22
    subnet: Annotated[str, Field(pattern=r"^subnet-[0-9a-z]+$")] | None = None
    """An existing subnet; None: that of the zone in the account's default network."""


class Ec2Target(AwsTarget, Host):
    """An EC2 host with PostgreSQL from packages."""

    kind: Literal["ec2"]
    instance: InstanceType
    """The instance type: `m8g.2xlarge`."""
    instead: list[InstanceType] = Field(default_factory=list)
    """Types to try, in this order, if Amazon has no capacity for `instance`; of the same architecture."""
    packages: Literal["pgdg", "distribution"] = "pgdg"
    """Packages of the PostgreSQL project, or of the operating system."""
    data: DataVolume | None = None
    """A volume for the cluster; None: it is on the root volume."""
    wal: DataVolume | None = None
    """A volume for WAL; None: it is with the cluster."""
    huge_pages: bool = False
    """Reserve huge pages for all shared memory, and require them."""
    initdb: list[str] = Field(default_factory=list)
    """More arguments of initdb."""
    tls: bool = True
    """Whether connections are encrypted, and the server's certificate is verified."""
    port: Port = 5432

    def describe(self) -> str:
        named = (("data", self.data), ("WAL", self.wal))
        volumes = [f"{name} on {each.size} of {each.type}" for name, each in named if each is not None]
        return ", ".join([f"PostgreSQL {self.version} on {self.system}", self.rented_in_words(), *volumes])


class Ec2Generator(Host, RentedHosts):
    """One or several EC2 hosts that generate the load, in the zone of the servers."""

    provider: ClassVar[str] = PROVIDER

    kind: Literal["ec2"]
    count: Annotated[int, Field(ge=1, le=MOST_GENERATORS)] = 1
    """How many hosts share the load."""
    instance: InstanceType
    """The instance type: `c8g.4xlarge`."""
    instead: list[InstanceType] = Field(default_factory=list)
    """Types to try, in this order, if Amazon has no capacity for `instance`; of the same architecture."""
    allow: list[str] = Field(default_factory=list)
    """Networks (CIDR) that may connect over SSH; none: only the address of this machine."""
    allow_wide: bool = False
    """Accept networks in `allow` that are wider than /16 (IPv6: /32)."""
    public: bool = True
    """Whether the host has a public address; false if this machine is in the same network."""
    encrypted: bool = True
    """Encrypt storage with `kms_key`, or with the account's default key of the service."""
    kms_key: KmsKey | None = None
    """A key of the account's own (its ARN or alias)."""
    spot: bool = False
    """Rent spot instances, which cost at most the price on demand, and which Amazon may take back at any time."""
    ready_within: Lasting = "30m"
    """How long a host may take until it is ready."""

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yields what in the generator conflicts with the rest of the plan, or would be refused."""
        # This import would be circular at the top of the module.
        from pgdyno.targets.aws.checks import check_generator

        yield from check_generator(self, targets, document)


DATA_DEVICE, WAL_DEVICE = "/dev/sdf", "/dev/sdg"
