"""The hosts that generate a run's load: EC2 instances of their own, in the zone of the servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.programs import ENGINES, for_machine
from pgdyno.remote.connect import ask
from pgdyno.remote.remote_host import CommandError, RemoteError, RemoteHost
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.hosts.ec2 import NewHost
from pgdyno.targets.aws.hosts.instances import KeyRing, architecture_of, network_of
from pgdyno.targets.aws.hosts.schema import Architecture, Ec2Generator
from pgdyno.targets.aws.hosts.user_data import generator
from pgdyno.targets.aws.inventory import RUN
from pgdyno.targets.aws.maker import Maker, Stop
from pgdyno.targets.aws.network import allowed_networks, security_group
from pgdyno.targets.rented.rental import Note, generator_names, is_generator
from pgdyno.targets.rented.rental_journal import Journal, Place

Say = Callable[[str], None]
REACH_S = 10
PROGRAMS = ("pgdrive", "pgprobe")


def generators_of(
    spec: Ec2Generator, cloud: Cloud, journal: Journal, say: Say, warn: Note, stop: Stop, placement: str | None
) -> list[RentedGenerator]:
    """Return the generators that `spec` declares, to be in the group `placement`; none of them is created yet."""
    makers = [
        Maker(cloud, journal, name, f"0-{number}" if number > 1 else 0, say, warn, stop, placement_group=placement)
        for number, name in enumerate(generator_names(spec.count), start=1)
    ]
    return [RentedGenerator(maker, spec) for maker in makers]


@dataclass(frozen=True, slots=True)
class RentedGenerator:
    maker: Maker
    spec: Ec2Generator

    def group(self) -> str:
        """Create the generators' security group, which servers let in, before any other resource. Raises AwsError."""
        maker, spec = self.maker, self.spec
        _check_programs(architecture_of(maker.cloud, spec, [spec.instance, *spec.instead]), spec.instance)
        network = network_of(maker.cloud, spec.subnet, [])
        return security_group(maker, network.vpc, allowed_networks(spec.allow), [spec.ssh_port])

    def up(self, group: str, zone: str) -> Place:
        """Create the host in `zone`, and wait until it is ready. Raises TargetError."""
        maker, spec = self.maker, self.spec
        network = network_of(maker.cloud, spec.subnet, [zone])
        if zone not in network.subnets:
            message = f"the subnet {spec.subnet} is in {next(iter(network.subnets))}, and the servers are in {zone}"
            raise TargetError(
                message, hint="the generator would also measure the network path: name a subnet of that zone"
            )
        return NewHost.prepare(maker, spec, generator()).up(network, group, {}, spot=spec.spot)


def _check_programs(architecture: Architecture, instance: str) -> None:
    """Raise TargetError if this machine has no programs for such a host, before anything costs money."""
    machine = "aarch64" if architecture == "arm64" else architecture
    if machine == os.uname().machine:
        return
    for program in PROGRAMS:
        if for_machine(program, machine) is None:
            message = f"the generator {instance} is {machine}, but this pgdyno has no {program} for it"
            hint = (
                f"build it with make engines, and name its folder in {ENGINES}; or choose an instance that is "
                f"{os.uname().machine}"
            )
            raise TargetError(message, hint=hint)


def generator_hosts(journal: Journal) -> list[RemoteHost]:
    """Return how to reach the generators of the journal's run, and the addresses by which they reach the servers."""
    found = []
    for name in generator_names(len(journal.ready)):
        if name in journal.ready:
            place = Place(**journal.ready[name])
            ssh = KeyRing(journal).ssh(place)
            assert ssh is not None
            found.append(RemoteHost(ssh, _inner(journal.ready), place.zone, place.instance))
    return found


def _inner(ready: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    places = [Place(**each) for name, each in ready.items() if not is_generator(name)]
    return {each.host: each.inner for each in places if each.inner and each.inner != each.host}


def check_reach(cloud: Cloud, journal: Journal) -> None:
    """Raise TargetError if a generator does not reach a server; it says whether security group or route block it."""
    for far in generator_hosts(journal):
        _check_reach(far, cloud, journal)


def _check_reach(far: RemoteHost, cloud: Cloud, journal: Journal) -> None:
    for name, kept in journal.ready.items():
        if is_generator(name):
            continue
        place = Place(**kept)
        address = far.hosts.get(place.host, place.host)
        try:
            knock = f"exec 3<>/dev/tcp/{address}/{place.port}"
            ask(far.ssh, f"LC_ALL=C timeout {REACH_S} bash -c {shlex.quote(knock)}")
        except RemoteError as error:
            message = f"the generator {far.ssh.host} does not reach the server of target {name} at {address}"
            why, hint = _not_reached(error, cloud, journal.run, place.port)
            raise TargetError(f"{message}, port {place.port}: {why}", hint=hint) from error


_NO_ROUTE = ("Network is unreachable", "No route to host")
_TIMED_OUT = 124
"""The exit code of timeout(1) when the time is over."""


def _not_reached(error: RemoteError, cloud: Cloud, run: str, port: int) -> tuple[str, str]:
    """Return the reason and a hint.

    Security groups and network ACLs drop packets silently, so that a refused connection or a missing route has another
    cause.
    """
    # what bash on the host says
    said = error.why if isinstance(error, CommandError) else ""
    if "Connection refused" in said:
        why = "the port is reachable, but nothing listens there"
        return why, "the server has ended or listens on another port: see its log"
    if any(each in said for each in _NO_ROUTE):
        return f"it has no route there ({error.message})", "check the route tables of both subnets"
    why, hint = _what_blocks(cloud, run, port)
    timed_out = isinstance(error, CommandError) and error.status == _TIMED_OUT
    return f"{f'no answer within {REACH_S} s' if timed_out else error.message}; {why}", hint


def _what_blocks(cloud: Cloud, run: str, port: int) -> tuple[str, str]:
    filters = [{"Name": f"tag:{RUN}", "Values": [run]}]
    groups = list(cloud.list_elements("ec2", "describe_security_groups", "SecurityGroups", Filters=filters))
    own = {each["GroupId"] for each in groups}
    let_in = {
        pair["GroupId"]
        for each in groups
        for rule in each["IpPermissions"]
        if rule.get("FromPort") == port
        for pair in rule.get("UserIdGroupPairs", [])
    }
    if not own & let_in:
        why = "the server's security group does not allow it"
        return why, "somebody changed the group: run pgdyno target down, then pgdyno target up"
    networks = {each["VpcId"] for each in groups}
    if len(networks) > 1:
        listed = ", ".join(sorted(networks))
        why = f"the security group allows it, so the route is missing: they are in different networks ({listed})"
        return why, "name a subnet of the same network for both"
    return "the security group allows it, so the route is missing", "check the network ACLs and the route tables"
