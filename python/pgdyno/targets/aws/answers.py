"""Whether a rented server can be reached from here, and if not, what is in the way."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg

from pgdyno.errors import TargetError
from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.make import Maker
from pgdyno.targets.aws.patience import Patience
from pgdyno.targets.aws.place import Place
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.aws.tags import RUN
from pgdyno.targets.aws.vpc import own_network


class Reachable(Protocol):
    """What the plan says of who may reach it."""

    @property
    def public(self) -> bool: ...
    @property
    def ready_within(self) -> str: ...


WITHIN_S = 180.0
"""A name may take a while to be known, and a new password to be taken."""
CONNECT_S = 10


def wait_until_it_answers(maker: Maker, spec: AwsTarget, place: Place, passwords: Path, root: Path) -> None:
    """Returns when its first user gets in, the server's certificate checked. Raises TargetError with the reason."""
    patience = Patience(WITHIN_S)
    while True:
        maker.stop.check()
        try:
            psycopg.connect(place.dsn(passwords, root), connect_timeout=CONNECT_S).close()
        except psycopg.OperationalError as error:
            said = " ".join(str(error).split())
            if patience.over() or "certificate" in said:
                raise _reason(maker, spec, place, said) from error
            maker.say(f"waiting until {maker.name} answers")
            patience.pause()
        else:
            return


def _reason(maker: Maker, spec: AwsTarget, place: Place, said: str) -> TargetError:
    what = f"the server of target {maker.target} is up at {place.host}, and cannot be reached from here"
    try:
        socket.create_connection((place.host, place.port), CONNECT_S).close()
    except socket.gaierror as error:
        hint = "a server with public = false has a name inside of its network alone"
        return TargetError(f"{what}: its name is not known: {error}", hint=hint)
    except OSError as error:
        why, hint = in_the_way(maker.cloud, maker.journal.run, spec, place.port)
        return TargetError(f"{what}: {why} ({error})", hint=hint)
    return TargetError(f"the server of target {maker.target} answers, and lets nobody in: {said}")


def in_the_way(cloud: Cloud, run: str, spec: Reachable, port: int) -> tuple[str, str]:
    """The security group or the route, and what to do about it. Raises AwsError."""
    allowed = sorted({str(each) for each in _allowed(cloud, run, port)})
    try:
        own = ipaddress.ip_network(own_network())
    except TargetError:
        own = None
    networks = [ipaddress.ip_network(each) for each in allowed]
    inside = own is not None and any(each.version == own.version and own.subnet_of(each) for each in networks)  # type: ignore[arg-type]
    if own is not None and not inside and spec.public:
        why = f"the security group lets in {', '.join(allowed)}, and this machine is {own}"
        return why, f'add it: allow = ["{own}"]'
    if not spec.public:
        return "there is no route: it has no public address", "start pgdyno in its network, or set public = true"
    why = f"the security group lets this machine in ({', '.join(allowed)}), so it is the route"
    return why, "its subnets need a route to an internet gateway, and their network ACL must let the port in"


def _allowed(cloud: Cloud, run: str, port: int) -> Iterator[str]:
    tagged = [{"Name": f"tag:{RUN}", "Values": [run]}]
    for group in cloud.each("ec2", "describe_security_groups", "SecurityGroups", Filters=tagged):
        for rule in group["IpPermissions"]:
            if rule.get("FromPort") == port:
                yield from (each["CidrIp"] for each in rule.get("IpRanges", []))
                yield from (each["CidrIpv6"] for each in rule.get("Ipv6Ranges", []))
