"""A plan's target in words."""

from __future__ import annotations

from pgdyno.plan.aws_targets import AuroraTarget, AwsTarget, DatabaseTarget, RdsTarget
from pgdyno.plan.ec2_target import Ec2Target
from pgdyno.plan.targets import BuildTarget, DsnTarget, EmbeddedTarget, LocalTarget, OwnTarget, TargetSpec


def describe_target(target: TargetSpec) -> str:
    """`PostgreSQL 18, embedded, data in tmpfs, 2 replicas`."""
    match target:
        case DsnTarget():
            over_ssh = "" if target.ssh is None else f", its host {target.ssh.host} over SSH"
            return f"over the network, {target.dsn}, database {target.database}{over_ssh}"
        case RdsTarget():
            return ", ".join(
                [f"RDS for PostgreSQL {target.version}", _rented(target), f"{target.storage} of {target.storage_type}"]
            )
        case Ec2Target():
            return ", ".join([f"PostgreSQL {target.version} on {target.system}", _rented(target), *_volumes(target)])
        case AuroraTarget():
            return ", ".join([f"Aurora PostgreSQL {target.version}", _rented(target), f"{target.storage_type} storage"])
        case EmbeddedTarget():
            what = f"PostgreSQL {target.version}, embedded"
        case LocalTarget():
            what = f"local, {target.bin or 'what pg_config says'}"
        case BuildTarget():
            what = ", ".join([f"built from {target.source}", *target.configure])
    return ", ".join([what, *_places(target), *_replicas(target)])


def _rented(target: AwsTarget) -> str:
    restored = ""
    if isinstance(target, DatabaseTarget):
        origin = target.snapshot or getattr(target, "clone_of", None)
        restored = "" if origin is None else f", from {origin}, {target.restore.replace('-', ' ')}"
    return f"{target.instance} in {', '.join(target.zones) or target.region or 'the configured region'}{restored}"


def _volumes(target: Ec2Target) -> list[str]:
    named = (("data", target.data), ("WAL", target.wal))
    return [f"{name} on {each.size} of {each.type}" for name, each in named if each is not None]


def _places(target: OwnTarget) -> list[str]:
    where = target.environment
    return [f"{key} in {place}" for key, place in (("data", where.data), ("WAL", where.wal)) if place is not None]


def _replicas(target: OwnTarget) -> list[str]:
    if target.replicas is None:
        return []
    count, synchronous = target.replicas.count, target.replicas.synchronous
    waits = "" if synchronous == "off" else f", commits wait for {synchronous}"
    return [f"{count} replica{'s' if count > 1 else ''}{waits}"]
