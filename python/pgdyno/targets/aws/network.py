"""Security groups of rented servers, and whether this machine reaches the servers."""

import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import (
    AwsError,
    Cloud,
    NotThereError,
    Patience,
    ThereAlreadyError,
    retry_until_settled,
)
from pgdyno.targets.aws.inventory import RUN, Kind
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.schema import AwsMachine, AwsTarget
from pgdyno.targets.connection import USE_FILE
from pgdyno.targets.direct_session import open_session
from pgdyno.targets.http_requests import Patience as WebPatience
from pgdyno.targets.http_requests import fetch_text
from pgdyno.targets.rented.rental_journal import Place

ADDRESS_VARIABLE = "PGDYNO_ADDRESS"
"""This machine's public address, for machines that cannot ask Amazon for it."""
CHECK_IP = "https://checkip.amazonaws.com"


def security_group(maker: Maker, vpc: str, allowed: Sequence[str], ports: Sequence[int]) -> str:
    """Create a security group that lets `allowed` (CIDR) in at `ports`, and its own members everywhere; return its
    id.

    If the run has a generator, members of its group are let in at `ports`, too. Raises AwsError.
    """
    cloud = maker.cloud
    maker.note(Kind.SECURITY_GROUP)
    try:
        group = cloud.call(
            "ec2",
            "create_security_group",
            GroupName=maker.name,
            Description="pgdyno: open to the generator alone",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": maker.tags}],
        )["GroupId"]
    except ThereAlreadyError:
        # Names are random: an existing group comes from our own first attempt, whose response was lost.
        group = retry_until_settled(maker.stop.check, lambda: group_named(cloud, maker.name))
    rules = [_rule(port, network) for port in ports for network in allowed]
    if maker.generator_group is not None:
        pair = [{"GroupId": maker.generator_group}]
        rules += [{"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "UserIdGroupPairs": pair} for port in ports]
    rules.append({"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]})

    def open_it() -> None:
        with suppress(ThereAlreadyError):
            cloud.call("ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=rules)

    retry_until_settled(maker.stop.check, open_it)
    return str(group)


def placement_group(maker: Maker) -> str:
    """Create a placement group whose hosts are close together, and return its name. Raises AwsError."""
    maker.note(Kind.PLACEMENT_GROUP)
    with suppress(ThereAlreadyError):
        maker.cloud.call(
            "ec2",
            "create_placement_group",
            GroupName=maker.name,
            Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": maker.tags}],
        )
    return maker.name


def group_named(cloud: Cloud, name: str) -> str:
    """Return the id of the security group `name`. Raises NotThereError, AwsError."""
    filters = [{"Name": "group-name", "Values": [name]}]
    for each in cloud.list_elements("ec2", "describe_security_groups", "SecurityGroups", Filters=filters):
        return str(each["GroupId"])
    raise NotThereError(f"there is no security group {name}")


def _rule(port: int, network: str) -> dict[str, object]:
    key, name = ("Ipv6Ranges", "CidrIpv6") if ":" in network else ("IpRanges", "CidrIp")
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, key: [{name: network}]}


def vpc_of(cloud: Cloud, subnet_group: str | None) -> str:
    """Return the VPC of a new database server: that of its subnet group, or the default VPC. Raises AwsError."""
    if subnet_group is not None:
        asked = {"DBSubnetGroupName": subnet_group}
        for each in cloud.list_elements("rds", "describe_db_subnet_groups", "DBSubnetGroups", **asked):
            return str(each["VpcId"])
    filters = [{"Name": "is-default", "Values": ["true"]}]
    for each in cloud.list_elements("ec2", "describe_vpcs", "Vpcs", Filters=filters):
        return str(each["VpcId"])
    message = f"the account has no default network (VPC) in {cloud.region}"
    raise AwsError(message, hint="name a subnet group: subnet_group = …, or make one: aws ec2 create-default-vpc")


def allowed_networks(given: Sequence[str]) -> list[str]:
    """Return the plan's networks, or only this machine's address if the plan names none. Raises TargetError."""
    return list(given) or [own_network()]


def own_network() -> str:
    """Return this machine's address as Amazon sees it, as a network of one address. Raises TargetError."""
    said = os.environ.get(ADDRESS_VARIABLE)
    if said is None:
        try:
            said = fetch_text(CHECK_IP, WebPatience(timeout_s=10, attempts=3))
        except TargetError as error:
            hint = f'name the networks that may reach the server: allow = ["203.0.113.7/32"], or set {ADDRESS_VARIABLE}'
            raise TargetError(f"cannot determine this machine's address: {error.message}", hint=hint) from error
    try:
        address = ipaddress.ip_address(said.strip())
    except ValueError as error:
        raise TargetError(
            f"cannot determine this machine's address: {said.strip()[:60]!r} is not an address"
        ) from error
    return str(ipaddress.ip_network(address))


WITHIN_S = 180.0
"""Seconds that a DNS name may need to resolve, or a new password to take effect."""
CONNECT_S = 10


def wait_until_it_answers(maker: Maker, spec: AwsTarget, place: Place, passwords: Path, root: Path) -> None:
    """Return once the server's first user can connect with a verified certificate. Raises TargetError."""
    patience = Patience(WITHIN_S)
    while True:
        maker.stop.check()
        try:
            parameters = conninfo_to_dict(place.dsn(passwords, root), connect_timeout=CONNECT_S, password=USE_FILE)
            open_session(parameters, None).close()
        except psycopg.OperationalError as error:
            said = " ".join(str(error).split())
            if patience.is_over() or "certificate" in said:
                raise _reason(maker, spec, place, said) from error
            maker.say(f"waiting until {maker.name} answers")
            patience.pause()
        else:
            return


def _reason(maker: Maker, spec: AwsTarget, place: Place, said: str) -> TargetError:
    what = f"the server of target {maker.target} is up at {place.host}, but cannot be reached from here"
    try:
        socket.create_connection((place.host, place.port), CONNECT_S).close()
    except socket.gaierror as error:
        hint = "the name of a server with public = false can be resolved only inside its network"
        return TargetError(f"{what}: its name cannot be resolved: {error}", hint=hint)
    except OSError as error:
        why, hint = what_blocks(maker.cloud, maker.journal.run, spec, place.port)
        return TargetError(f"{what}: {why} ({error})", hint=hint)
    return TargetError(f"the server of target {maker.target} answers, but rejects connections: {said}")


def what_blocks(cloud: Cloud, run: str, spec: AwsMachine, port: int) -> tuple[str, str]:
    """Return what blocks the connection, the security group or the route, and a hint. Raises AwsError."""
    allowed = sorted({str(each) for each in _list_allowed(cloud, run, port)})
    try:
        own = ipaddress.ip_network(own_network())
    except TargetError:
        own = None
    networks = [ipaddress.ip_network(each) for each in allowed]
    inside = own is not None and any(each.version == own.version and own.subnet_of(each) for each in networks)  # type: ignore[arg-type]
    if own is not None and not inside and spec.public:
        why = f"the security group allows {', '.join(allowed)}, and this machine is {own}"
        return why, f'add it: allow = ["{own}"]'
    if not spec.public:
        return "there is no route: it has no public address", "start pgdyno in its network, or set public = true"
    why = f"the security group allows this machine ({', '.join(allowed)}), so the route is missing"
    return why, "its subnets need a route to an internet gateway, and their network ACL must let the port in"


def _list_allowed(cloud: Cloud, run: str, port: int) -> Iterator[str]:
    tagged = [{"Name": f"tag:{RUN}", "Values": [run]}]
    for group in cloud.list_elements("ec2", "describe_security_groups", "SecurityGroups", Filters=tagged):
        for rule in group["IpPermissions"]:
            if rule.get("FromPort") == port:
                yield from (each["CidrIp"] for each in rule.get("IpRanges", []))
                yield from (each["CidrIpv6"] for each in rule.get("Ipv6Ranges", []))
