"""What cannot be had of a host of EC2, as far as that is known without asking Amazon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.reserved import SETTING_NAME
from pgdyno.targets.aws.schema import Ec2Target, Host, Volume
from pgdyno.units import parse_bytes

DISTRIBUTED = {"debian-12": "15", "debian-13": "17", "ubuntu-24.04": "16"}
"""The PostgreSQL that each system brings itself."""
LEAST_ROOT = 8 * 1024**3
"""Images are that large."""
COUNTS_HUGE_PAGES = 15
"""From this version on a server says how many it needs (shared_memory_size_in_huge_pages)."""
_PLACE = "pgdyno places the cluster"
_REACHED = "pgdyno decides how the server is reached"
RESERVED = {
    "cluster_name": "it marks the servers of pgdyno",
    "config_file": _PLACE,
    "data_directory": _PLACE,
    "external_pid_file": _PLACE,
    "hba_file": _REACHED,
    "huge_pages": "the target's key huge_pages says it",
    "ident_file": _REACHED,
    "listen_addresses": _REACHED,
    "port": "the target's key port says it",
    "ssl": "the target's key tls says it",
    "ssl_cert_file": _REACHED,
    "ssl_key_file": _REACHED,
    "unix_socket_directories": _REACHED,
}
"""Settings that are not the plan's, with the reason."""

_Where = tuple[str | int, ...]


def check_ec2(where: _Where, target: Ec2Target, document: Document) -> Iterator[Problem]:
    """Everything of `target` that would be refused, or would not come up."""
    yield from _version(where, target, document)
    yield from _parameters((*where, "parameters"), target.parameters, document)
    yield from check_host(where, target, document)
    for key, volume in (("data", target.data), ("wal", target.wal)):
        if volume is not None:
            yield from _volume((*where, key), volume, document)
    if target.huge_pages and target.version.isdigit() and int(target.version) < COUNTS_HUGE_PAGES:
        message = f"PostgreSQL {target.version} does not say how many it needs; {COUNTS_HUGE_PAGES} does"
        yield document.problem((*where, "huge_pages"), message)
    if target.subnet is not None and target.zones:
        yield document.problem((*where, "zones"), "excludes subnet, which is in one zone", "remove one of them")
    if target.port == target.ssh_port:
        yield document.problem((*where, "ssh_port"), "is the server's port, too", "choose another")


def _version(where: _Where, target: Ec2Target, document: Document) -> Iterator[Problem]:
    if not target.version.isdigit():
        message = f"{target.version} cannot be chosen: packages come in their newest minor version"
        yield document.problem((*where, "version"), message, f'write version = "{target.version.partition(".")[0]}"')
        return
    theirs = DISTRIBUTED[target.system]
    if target.packages == "distribution" and target.version != theirs:
        message = f"{target.system} brings PostgreSQL {theirs}, not {target.version}"
        yield document.problem((*where, "version"), message, 'use packages = "pgdg", or another system')


def _parameters(where: _Where, parameters: Mapping[str, str], document: Document) -> Iterator[Problem]:
    for name, value in parameters.items():
        if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
            yield document.problem((*where, name), "is not the name of a setting", "remove it")
        elif (reason := RESERVED.get(name.lower())) is not None:
            yield document.problem((*where, name), f"cannot be set: {reason}", "remove it")
        elif "\n" in value or "\0" in value:
            yield document.problem((*where, name), "is more than one line")


def check_host(where: _Where, host: Host, document: Document) -> Iterator[Problem]:
    """What any host cannot be."""
    yield from _volume((*where, "root"), host.root, document)
    if parse_bytes(host.root.size) < LEAST_ROOT:
        yield document.problem((*where, "root", "size"), f"{host.root.size} are too little; 8GB are the least")


def _volume(where: _Where, volume: Volume, document: Document) -> Iterator[Problem]:
    """Figures that do not go together."""
    if volume.type in ("io1", "io2") and volume.iops is None:
        yield document.problem((*where, "iops"), f"is missing: {volume.type} has as many as are paid for")
    if volume.throughput is not None and volume.type != "gp3":
        yield document.problem((*where, "throughput"), "goes only with gp3", "remove it")
    if volume.iops is not None and volume.type == "gp3" and volume.iops < GP3_IOPS:
        yield document.problem((*where, "iops"), f"gp3 has at least {GP3_IOPS:,}", "remove it")
    if volume.throughput is not None and volume.throughput < GP3_MBS:
        yield document.problem((*where, "throughput"), f"gp3 has at least {GP3_MBS} MB/s", "remove it")


GP3_IOPS, GP3_MBS = 3_000, 125
"""What a volume of gp3 has in its price."""
