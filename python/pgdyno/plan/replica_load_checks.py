"""Checks a load on standbys against the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.replica_load import ReplicaLoad
from pgdyno.plan.targets import OwnTarget, TargetSpec

SECTION = "replica_load"


def check_replica_load(load: ReplicaLoad, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    """Yields problems of `load` at `targets`; its scripts are checked with the workload's."""
    for name, target in targets.items():
        if not isinstance(target, OwnTarget):
            message = f"is not possible at target {name}: pgdyno does not know its standbys"
            yield document.problem((SECTION,), message, "measure its standby with a separate plan")
        elif target.replicas is None:
            message = f"is not possible at target {name}: it has no replica"
            yield document.problem((SECTION,), message, f"give it one: [target.{name}.replicas] with count = 1")
        elif target.replicas.count > load.clients:
            message = f"are fewer than the {target.replicas.count} replicas of target {name}, and each needs one"
            yield document.problem((SECTION, "clients"), message, "use more clients, or fewer replicas")
