"""Checks of a plan against the limits of RDS, Aurora and EC2 that are known without a request to them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

from pgdyno.errors import Problem
from pgdyno.mounts import expanded, is_file
from pgdyno.plan.known_settings import SETTING_NAME
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import TargetSpec
from pgdyno.targets.aws.databases.parameters import CLUSTER_LEVEL, in_own_unit, parameter_refusal
from pgdyno.targets.aws.schema import (
    SERVERLESS,
    AuroraTarget,
    AwsTarget,
    DatabaseTarget,
    Ec2Generator,
    Ec2Target,
    Host,
    RdsTarget,
    Volume,
)
from pgdyno.units import parse_bytes

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
_PLACE = "pgdyno places the cluster"
_REACHED = "pgdyno decides how the server is reached"
RESERVED = {
    "cluster_name": "it marks the servers of pgdyno",
    "config_file": _PLACE,
    "data_directory": _PLACE,
    "external_pid_file": _PLACE,
    "hba_file": _REACHED,
    "huge_pages": "use the target's key huge_pages",
    "ident_file": _REACHED,
    "listen_addresses": _REACHED,
    "port": "use the target's key port",
    "ssl": "use the target's key tls",
    "ssl_cert_file": _REACHED,
    "ssl_key_file": _REACHED,
    "unix_socket_directories": _REACHED,
}
"""Settings that a plan cannot set, with the reason."""

_HostWhere = tuple[str | int, ...]


def check_ec2(where: _HostWhere, target: Ec2Target, document: Document) -> Iterator[Problem]:
    """Yields each problem that would make EC2 refuse `target`, or keep its server from starting."""
    yield from _version(where, target, document)
    yield from _host_parameters((*where, "parameters"), target.parameters, document)
    yield from check_host(where, target, document)
    for key, volume in (("data", target.data), ("wal", target.wal)):
        if volume is not None:
            yield from _volume((*where, key), volume, document)
    if target.huge_pages and target.version.isdigit() and int(target.version) < COUNTS_HUGE_PAGES:
        message = f"PostgreSQL {target.version} does not report how many it needs; {COUNTS_HUGE_PAGES} does"
        yield document.problem((*where, "huge_pages"), message)
    if target.subnet is not None and target.zones:
        yield document.problem((*where, "zones"), "excludes subnet, which is in one zone", "remove one of them")
    if target.port == target.ssh_port:
        yield document.problem((*where, "ssh_port"), "is also the server's port", "choose another")


def _version(where: _HostWhere, target: Ec2Target, document: Document) -> Iterator[Problem]:
    if not target.version.isdigit():
        message = f"{target.version} cannot be chosen: packages come in their newest minor version"
        yield document.problem((*where, "version"), message, f'write version = "{target.version.partition(".")[0]}"')
        return
    theirs = DISTRIBUTED[target.system]
    if target.packages == "pgdg" and target.system == "amazon-linux-2023":
        message = f"the PostgreSQL project has no packages for {target.system}"
        yield document.problem((*where, "packages"), message, 'use packages = "distribution", or another system')
    elif target.packages == "distribution" and target.version not in theirs:
        message = f"{target.system} has packages of PostgreSQL {', '.join(theirs)}, not {target.version}"
        other = "another system" if target.system == "amazon-linux-2023" else 'packages = "pgdg", or another system'
        yield document.problem((*where, "version"), message, f"use {other}")


def _host_parameters(where: _HostWhere, parameters: Mapping[str, str], document: Document) -> Iterator[Problem]:
    for name, value in parameters.items():
        if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
            yield document.problem((*where, name), "is not the name of a setting", "remove it")
        elif (reason := RESERVED.get(name.lower())) is not None:
            yield document.problem((*where, name), f"cannot be set: {reason}", "remove it")
        elif "\n" in value or "\0" in value:
            yield document.problem((*where, name), "must be a single line")


def check_host(where: _HostWhere, host: Host, document: Document) -> Iterator[Problem]:
    """Yields the problems that any host can have: of a server or a generator."""
    yield from _volume((*where, "root"), host.root, document)
    if parse_bytes(host.root.size) < LEAST_ROOT:
        yield document.problem((*where, "root", "size"), f"{host.root.size} is too small; the minimum is 8GB")


def _volume(where: _HostWhere, volume: Volume, document: Document) -> Iterator[Problem]:
    if volume.type in ("io1", "io2") and volume.iops is None:
        yield document.problem((*where, "iops"), f"is missing: {volume.type} has the IOPS that you choose and pay for")
    if volume.throughput is not None and volume.type != "gp3":
        yield document.problem((*where, "throughput"), "is valid only with gp3", "remove it")
    if volume.iops is not None and volume.type == "gp3" and volume.iops < GP3_IOPS:
        yield document.problem((*where, "iops"), f"gp3 has at least {GP3_IOPS:,}", "remove it")
    if volume.throughput is not None and volume.throughput < GP3_MBS:
        yield document.problem((*where, "throughput"), f"gp3 has at least {GP3_MBS} MB/s", "remove it")
    # This import would load boto3's helpers for plans without such volumes.
    from pgdyno.targets.aws.preflight.storage_limits import refused_by_ebs

    for key, message, hint in refused_by_ebs(volume):
        yield document.problem((*where, key), message, hint)


GP3_IOPS, GP3_MBS = 3_000, 125
"""IOPS and MB/s that the price of a gp3 volume includes."""


WIDE = {4: 16, 6: 32}
"""The shortest prefix of a network that a plan may let in, by IP version, unless it says `allow_wide`."""
WIDEST = {4: 8, 6: 20}
"""The shortest prefix of a network that a plan may ever let in."""
LEAST_STORAGE = 20 * 1024**3
"""No storage type of RDS for PostgreSQL can be smaller than this."""
STRIPED_FROM = 400 * 1024**3
"""The size from which RDS for PostgreSQL lets a plan choose the IOPS and throughput of gp3."""

_GENERATOR = "generator"
_Where = tuple[str | int, ...]


def check_aws(where: _Where, target: AwsTarget, document: Document) -> Iterator[Problem]:
    """Yields each problem that would make its service refuse `target`."""
    yield from check_networks(where, target.allow, document, forced=target.allow_wide)
    if target.kms_key is not None and not target.encrypted:
        yield document.problem((*where, "kms_key"), "is valid only with encrypted storage", "remove it")
    yield from _places(where, target, document)
    if isinstance(target, DatabaseTarget):
        yield from _database(where, target, document)
    elif isinstance(target, Ec2Target):
        yield from check_ec2(where, target, document)


STANDARD_UNTIL = {
    "11": date(2024, 2, 29),
    "12": date(2025, 2, 28),
    "13": date(2026, 2, 28),
    "14": date(2027, 2, 28),
    "15": date(2028, 2, 29),
    "16": date(2029, 2, 28),
    "17": date(2030, 2, 28),
}
"""The last day of standard support at RDS and Aurora, by major version, from Amazon's release calendars."""
_FIRST_YEARS_DAYS = 2 * 365


def extended_year(version: str, today: date) -> str | None:
    """Returns Amazon's name of the years of Extended Support in which `version` is; None before them."""
    until = STANDARD_UNTIL.get(version.partition(".")[0])
    if until is None or today <= until:
        return None
    return "Yr1-Yr2" if (today - until).days <= _FIRST_YEARS_DAYS else "Yr3"


def _support(where: _Where, target: DatabaseTarget, document: Document) -> Iterator[Problem]:
    if extended_year(target.version, datetime.now(UTC).date()) is None or target.extended_support:
        return
    until = STANDARD_UNTIL[target.version.partition(".")[0]]
    message = f"PostgreSQL {target.version} is past its standard support ({until}); Amazon charges each processor"
    hint = "choose a newer version, or pay for it: extended_support = true"
    yield document.problem((*where, "version"), message, hint)


def _database(where: _Where, target: DatabaseTarget, document: Document) -> Iterator[Problem]:
    yield from _support(where, target, document)
    service = "aurora" if isinstance(target, AuroraTarget) else "rds"
    yield from _parameters((*where, "parameters"), service, target.parameters, document)
    if isinstance(target, AuroraTarget):
        for name in target.parameters:
            if name.lower() in CLUSTER_LEVEL:
                message = "belongs to the cluster on Aurora, not to the instance"
                yield document.problem((*where, "parameters", name), message, "put it under cluster_parameters")
        yield from _parameters((*where, "cluster_parameters"), service, target.cluster_parameters, document)
        yield from _serverless(where, target, document)
        if target.clone_of is not None and target.snapshot is not None:
            yield document.problem((*where, "clone_of"), "excludes snapshot", "remove one of them")
    if isinstance(target, RdsTarget):
        yield from _storage(where, target, document)
    if target.tls_root is not None and not is_file(expanded(target.tls_root)):
        yield document.problem((*where, "tls_root"), f"there is no file {target.tls_root}")


def _serverless(where: _Where, target: AuroraTarget, document: Document) -> Iterator[Problem]:
    serverless, capacity = target.instance == SERVERLESS, target.capacity
    if serverless and capacity is None:
        message = f"is missing: {SERVERLESS} has the capacity that the plan allows"
        yield document.problem((*where, "capacity"), message, "such as capacity = { min = 8, max = 64 }")
    elif capacity is not None and not serverless:
        yield document.problem((*where, "capacity"), f"is valid only with {SERVERLESS}", "remove it")
    if capacity is not None and capacity.min > capacity.max:
        yield document.problem((*where, "capacity"), "its minimum is above its maximum", "swap them")
    if serverless and target.instead:
        yield document.problem(
            (*where, "instead"), f"cannot be combined with {SERVERLESS}: the load would differ", "remove it"
        )
    if serverless and target.extended_support:
        message = f"cannot be combined with {SERVERLESS}, for which Amazon counts capacity units instead of processors"
        yield document.problem((*where, "extended_support"), message, "choose a newer version or another class")


def _parameters(where: _Where, service: str, parameters: Mapping[str, str], document: Document) -> Iterator[Problem]:
    for name, value in parameters.items():
        if SETTING_NAME.fullmatch(name) is None:
            yield document.problem((*where, name), "is not the name of a parameter", "remove it")
            continue
        reason = parameter_refusal(service, name.lower())
        if reason is not None:
            yield document.problem((*where, name), f"cannot be set: {reason}", "remove it")
            continue
        try:
            in_own_unit(name, value)
        except ValueError as error:
            yield document.problem((*where, name), str(error))


def _storage(where: _Where, target: RdsTarget, document: Document) -> Iterator[Problem]:
    size = parse_bytes(target.storage)
    if size < LEAST_STORAGE:
        yield document.problem((*where, "storage"), f"{target.storage} is too small; the minimum is 20GB")
    provisioned = target.storage_type in ("io1", "io2")
    if provisioned and target.iops is None:
        yield document.problem(
            (*where, "iops"), f"is missing: {target.storage_type} has the IOPS that you choose and pay for"
        )
    if target.throughput is not None and target.storage_type != "gp3":
        yield document.problem((*where, "throughput"), "is valid only with gp3", "remove it")
    small = target.storage_type == "gp3" and size < STRIPED_FROM
    for key in ("iops", "throughput"):
        given = getattr(target, key) is not None
        if given and target.storage_type == "gp2":
            yield document.problem((*where, key), "cannot be set for gp2, whose size determines it", "remove it")
        elif given and small:
            message = "gp3 under 400GB has 3,000 IOPS and 125 MB/s, which cannot be changed"
            yield document.problem((*where, key), message, "remove it, or use more storage")


def check_networks(where: _Where, allow: Sequence[str], document: Document, *, forced: bool) -> Iterator[Problem]:
    """Yields the networks of `allow` that are invalid, or too wide to open a server to."""
    for place, text in enumerate(allow):
        path = (*where, "allow", place)
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield document.problem(path, f"is not a network: {error}", 'such as "203.0.113.7/32"')
            continue
        if network.prefixlen < WIDEST[network.version]:
            message = f"{text} would open the server to the internet, which pgdyno never does"
            yield document.problem(path, message, "name the generator's address alone, or leave it out")
        elif network.prefixlen < WIDE[network.version] and not forced:
            message = f"{text} lets in {network.num_addresses:,} addresses"
            hint = f"name a network of /{WIDE[network.version]} or smaller, or accept this one: allow_wide = true"
            yield document.problem(path, message, hint)


_ON_HOSTS = re.compile(r"[A-Za-z0-9+=.,_:@-]+")
_NOT_ON_HOSTS = (".", "..", "_index")


def check_host_tags(document: Document) -> Iterator[Problem]:
    """Yields the plan's tags that EC2 refuses for hosts, which read their expiry from the metadata of their tags.

    Their keys are parts of paths there: "View tags for your EC2 instances using instance metadata" in EC2's user guide.
    """
    tags = document.at(("cloud", "tags"))
    for key in tags if isinstance(tags, dict) else ():
        if _ON_HOSTS.fullmatch(key) is None or key in _NOT_ON_HOSTS:
            message = f"the key {key!r} is not possible for hosts at EC2"
            yield document.problem(("cloud", "tags", key), message, "use the letters A to Z, digits and +-=.,_:@ in it")


def _places(where: _Where, target: AwsTarget, document: Document) -> Iterator[Problem]:
    for place, zone in enumerate(target.zones):
        if target.region is not None and not zone.startswith(target.region):
            yield document.problem((*where, "zones", place), f"{zone} is not in {target.region}")


def check_generator(
    generator: Ec2Generator, targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    """Yields what in `generator` conflicts with the rest of the plan, or would be refused."""
    yield from check_host((_GENERATOR,), generator, document)
    if not any(isinstance(each, Ec2Target) for each in targets.values()):
        yield from check_host_tags(document)
    yield from check_networks((_GENERATOR,), generator.allow, document, forced=generator.allow_wide)
    regions = set()
    for name, target in targets.items():
        if isinstance(target, AwsTarget):
            regions.add(target.region)
            continue
        message = f"target {name} is not rented, and a rented generator can reach only servers that are"
        yield document.problem((_GENERATOR,), message, 'use generator = "here", or a target of kind ec2, rds or aurora')
    if len(regions) > 1:
        yield document.problem(
            (_GENERATOR,), "the servers are in several regions, but the generator can be in only one"
        )
