"""The plan's hosts at Amazon: PostgreSQL on EC2, made for a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pgdyno.plan.aws_targets import AwsTarget, Lasting
from pgdyno.plan.base import Model, Positive, Size

LOGIN = "pgdyno"
"""The account that is made on a host."""
MOST_GENERATORS = 64
InstanceType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Architecture = Literal["arm64", "x86_64"]
System = Literal["debian-12", "debian-13", "ubuntu-24.04"]


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


class Ec2Generator(Host):
    """A host of EC2 that the load comes from, in the zone of the servers; or several of them, as one."""

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
