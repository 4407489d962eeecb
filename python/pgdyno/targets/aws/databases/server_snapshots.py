"""Snapshots that pgdyno takes of a loaded server, from which it restores the server before every trial."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.boto3_clients import ThereAlreadyError
from pgdyno.targets.aws.databases.dead_man import NONE, guard
from pgdyno.targets.aws.databases.service import change, one, wait_for
from pgdyno.targets.aws.inventory import Maker
from pgdyno.targets.aws.rental_journal import Kind
from pgdyno.targets.aws.schema import DatabaseTarget


@dataclass(frozen=True, slots=True)
class _Requests:
    """Amazon's names for the snapshots of one service."""

    create: str
    describe: str
    listed: str
    snapshot: str
    """The key of the snapshot's name."""
    server: str
    """The key of the name of what it is taken of."""


_REQUESTS = {
    Kind.DB_SNAPSHOT: _Requests(
        "create_db_snapshot", "describe_db_snapshots", "DBSnapshots", "DBSnapshotIdentifier", "DBInstanceIdentifier"
    ),
    Kind.CLUSTER_SNAPSHOT: _Requests(
        "create_db_cluster_snapshot",
        "describe_db_cluster_snapshots",
        "DBClusterSnapshots",
        "DBClusterSnapshotIdentifier",
        "DBClusterIdentifier",
    ),
}


def take_snapshot(maker: Maker, spec: DatabaseTarget, kind: Kind, name: str) -> None:
    """Takes a snapshot called `name` of the target's server, and waits until it is available. Raises AwsError."""
    asked = _REQUESTS[kind]
    if spec.dead_man != NONE:
        guard(maker, spec.dead_man, (kind,), name)
    maker.note(kind, name)
    identified = {asked.server: maker.name, asked.snapshot: name}
    # Names are random: an existing snapshot comes from our own first attempt, whose response was lost.
    with suppress(ThereAlreadyError):
        change(maker, spec, asked.create, **identified, Tags=maker.journal.tags(maker.target, name))

    def look() -> tuple[str, dict[str, Any]]:
        listed = maker.cloud.each("rds", asked.describe, asked.listed, **{asked.snapshot: name})
        found = one(listed, f"snapshot {name} in {maker.cloud.region}")
        return found["Status"], found

    wait_for(maker, spec, look, f"the {kind} {name}")
