"""The keys of a plan for a server on one of several hosts of your own."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.hosts import SshSpec, check_ssh
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath, RentedTarget, TargetSpec, Version
from pgdyno.plan.values import Lasting, Setting
from pgdyno.targets.rented.packaged_server import RESERVED, check_major, check_settings

PROVIDER = "pool"


class PoolTarget(RentedTarget):
    """PostgreSQL from packages on your own host, which pgdyno borrows for the run."""

    provider: ClassVar[str] = PROVIDER
    summary: ClassVar[str] = "on your own host, borrowed for the run"
    setting_remedy: ClassVar[str] = "put it under parameters"

    kind: Literal["pool"]
    version: Version
    """A major version of PostgreSQL."""
    hosts: Annotated[list[SshSpec], Field(min_length=1)]
    """Hosts with Debian or Ubuntu and systemd, of which pgdyno borrows the first free one, as root or by sudo."""
    packages: Literal["pgdg", "distribution"] = "pgdg"
    """Packages of the PostgreSQL project, or of the operating system."""
    parameters: dict[str, Setting] = {}
    """The server's settings, in postgresql.conf."""
    initdb: list[str] = []
    """More arguments of initdb."""
    folder: str = "/srv/pgdyno"
    """Parent folder of the cluster on the host."""
    port: Annotated[int, Field(ge=1, le=65535)] = 5432
    allow: list[str] = []
    """Networks (CIDR) that may connect to the server; none: only the address of this machine."""
    tls: bool = True
    """Whether connections are encrypted, and the server's certificate is verified."""
    ready_within: Lasting = "30m"
    """How long the set-up of the host may take, which downloads packages."""

    def describe(self) -> str:
        where = f"{' or '.join(each.host for each in self.hosts)}, cluster in {self.folder}"
        return f"PostgreSQL {self.version} on your own host: {where}{self.times()}"

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Yield what pgdyno does as root on the hosts, and the commands of SSH config files."""
        hosts = ", ".join(each.host for each in self.hosts)
        yield ("hosts",), f"installs packages and starts a server as root on one of {hosts}"
        for number, each in enumerate(self.hosts):
            if each.config is not None:
                yield ("hosts", number, "config"), f"commands that {each.config} names (ProxyCommand, Match exec)"

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check the hosts, their number, the version, the folder, the networks and the settings."""
        where = ("target", name)
        for number, each in enumerate(self.hosts):
            yield from check_ssh((*where, "hosts", number), each, document)
            if each in self.hosts[:number]:
                yield document.problem((*where, "hosts", number), f"{each.host} is listed twice", "remove one of them")
        yield from _check_count(where, self, targets, document)
        yield from check_major(where, self.version, document)
        if not self.folder.startswith("/"):
            yield document.problem(
                (*where, "folder"), f"{self.folder} is not an absolute path", 'such as "/srv/pgdyno"'
            )
        for number, network in enumerate(self.allow):
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                yield document.problem((*where, "allow", number), str(error), 'such as "192.0.2.0/24"')
        yield from check_settings(where, self.parameters, RESERVED, document)


def _check_count(
    where: PlanPath, target: PoolTarget, targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    pools = [each for each in targets.values() if isinstance(each, PoolTarget)]
    hosts = {(each.host, each.port) for pool in pools for each in pool.hosts}
    servers = sum(each.instances for each in pools)
    if servers > len(hosts) and target is pools[-1]:
        what = "targets" if servers == len(pools) else "servers, instances included,"
        message = f"{servers} {what} need as many hosts, but the plan names {len(hosts)}"
        yield document.problem((*where, "hosts"), message, "name more hosts, or run the targets in separate plans")
