"""The keys of a plan for EC2 hosts, of servers and of generators, and the limits that are known without a request."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath, RentedHosts, TargetSpec
from pgdyno.plan.values import Lasting
from pgdyno.targets.aws.schema import PROVIDER, AwsMachine, AwsTarget, check_networks
from pgdyno.targets.aws.volumes import DataVolume, Volume, check_volume
from pgdyno.targets.rented.packaged_server import RESERVED, check_major, check_settings
from pgdyno.units import parse_bytes

LOGIN = "pgdyno"
"""The account that pgdyno creates on a host."""
MOST_GENERATORS = 64
DATA_DEVICE, WAL_DEVICE = "/dev/sdf", "/dev/sdg"
InstanceType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Architecture = Literal["arm64", "x86_64"]
System = Literal["debian-12", "debian-13", "ubuntu-24.04", "amazon-linux-2023"]
DISTRIBUTED = {
    "debian-12": ("15",),
    "debian-13": ("17",),
    "ubuntu-24.04": ("16",),
    "amazon-linux-2023": ("15", "16", "17"),
}
"""The PostgreSQL versions that each system packages."""
LEAST_ROOT = 8 * 1024**3
"""The size of the images, and therefore the smallest root volume."""
COUNTS_HUGE_PAGES = 15
"""The first major version that reports how many huge pages it needs (shared_memory_size_in_huge_pages)."""
_RESERVED = RESERVED | {
    "cluster_name": "it marks the servers of pgdyno",
    "huge_pages": "use the target's key huge_pages",
}


class Host(AwsMachine):
    """Options that every kind of rented host has."""

    instance: InstanceType
    """The instance type: `m8g.2xlarge`."""
    instead: list[InstanceType] = []
    """Types to try, in this order, if Amazon has no capacity for `instance`; of the same architecture."""
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

    def check_host(self, where: PlanPath, document: Document) -> Iterator[Problem]:
        """Yield the problems that any host can have: of a server or a generator."""
        yield from check_volume((*where, "root"), self.root, document)
        if parse_bytes(self.root.size) < LEAST_ROOT:
            yield document.problem((*where, "root", "size"), f"{self.root.size} is too small; the minimum is 8GB")


class Ec2Target(Host, AwsTarget):
    """An EC2 host with PostgreSQL from packages."""

    kind: Literal["ec2"]
    packages: Literal["pgdg", "distribution"] = "pgdg"
    """Packages of the PostgreSQL project, or of the operating system."""
    data: DataVolume | None = None
    """A volume for the cluster; None: it is on the root volume."""
    wal: DataVolume | None = None
    """A volume for WAL; None: it is with the cluster."""
    huge_pages: bool = False
    """Reserve huge pages for all shared memory, and require them."""
    initdb: list[str] = []
    """More arguments of initdb."""
    tls: bool = True
    """Whether connections are encrypted, and the server's certificate is verified."""
    port: Port = 5432

    def describe(self) -> str:
        named = (("data", self.data), ("WAL", self.wal))
        volumes = [f"{name} on {each.size} of {each.type}" for name, each in named if each is not None]
        return ", ".join([f"PostgreSQL {self.version} on {self.system}", self.rented_in_words(), *volumes])

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Add problems that would keep its server from starting."""
        yield from super().check(name, targets, document)
        where = ("target", name)
        yield from self._check_version(where, document)
        yield from check_settings(where, self.parameters, _RESERVED, document)
        yield from self.check_host(where, document)
        for key, volume in (("data", self.data), ("wal", self.wal)):
            if volume is not None:
                yield from check_volume((*where, key), volume, document)
        if self.huge_pages and self.version.isdigit() and int(self.version) < COUNTS_HUGE_PAGES:
            message = f"PostgreSQL {self.version} does not report how many it needs; {COUNTS_HUGE_PAGES} does"
            yield document.problem((*where, "huge_pages"), message)
        if self.subnet is not None and self.zones:
            yield document.problem((*where, "zones"), "excludes subnet, which is in one zone", "remove one of them")
        if self.port == self.ssh_port:
            yield document.problem((*where, "ssh_port"), "is also the server's port", "choose another")
        # the tags are those of all hosts
        if name == next(each for each, target in targets.items() if isinstance(target, Ec2Target)):
            yield from check_host_tags(document)

    def _check_version(self, where: PlanPath, document: Document) -> Iterator[Problem]:
        if not self.version.isdigit():
            yield from check_major(where, self.version, document)
            return
        theirs = DISTRIBUTED[self.system]
        if self.packages == "pgdg" and self.system == "amazon-linux-2023":
            message = f"the PostgreSQL project has no packages for {self.system}"
            yield document.problem((*where, "packages"), message, 'use packages = "distribution", or another system')
        elif self.packages == "distribution" and self.version not in theirs:
            message = f"{self.system} has packages of PostgreSQL {', '.join(theirs)}, not {self.version}"
            other = "another system" if self.system == "amazon-linux-2023" else 'packages = "pgdg", or another system'
            yield document.problem((*where, "version"), message, f"use {other}")


class Ec2Generator(Host, RentedHosts):
    """One or several EC2 hosts that generate the load, in the zone of the servers."""

    provider: ClassVar[str] = PROVIDER

    kind: Literal["ec2"]
    count: Annotated[int, Field(ge=1, le=MOST_GENERATORS)] = 1
    """How many hosts share the load."""
    spot: bool = False
    """Rent spot instances, which cost at most the price on demand, and which Amazon may take back at any time."""
    ready_within: Lasting = "30m"

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yield what in the generator conflicts with the rest of the plan, or would be refused."""
        yield from self.check_host(("generator",), document)
        if not any(isinstance(each, Ec2Target) for each in targets.values()):
            yield from check_host_tags(document)
        yield from check_networks(("generator",), self.allow, document, forced=self.allow_wide)
        regions = set()
        for name, target in targets.items():
            if isinstance(target, AwsTarget):
                regions.add(target.region)
                continue
            message = f"target {name} is not rented, and a rented generator can reach only servers that are"
            yield document.problem(
                ("generator",), message, 'use generator = "here", or a target of kind ec2, rds or aurora'
            )
        if len(regions) > 1:
            yield document.problem(
                ("generator",), "the servers are in several regions, but the generator can be in only one"
            )


_ON_HOSTS = re.compile(r"[A-Za-z0-9+=.,_:@-]+")
_NOT_ON_HOSTS = (".", "..", "_index")


def check_host_tags(document: Document) -> Iterator[Problem]:
    """Yield the plan's tags that EC2 refuses for hosts, which read their expiry from the metadata of their tags.

    Their keys are parts of paths there: "View tags for your EC2 instances using instance metadata" in EC2's user guide.
    """
    tags = document.value_at(("cloud", "tags"))
    for key in tags if isinstance(tags, dict) else ():
        if _ON_HOSTS.fullmatch(key) is None or key in _NOT_ON_HOSTS:
            message = f"the key {key!r} is not possible for hosts at EC2"
            yield document.problem(("cloud", "tags", key), message, "use the letters A to Z, digits and +-=.,_:@ in it")
