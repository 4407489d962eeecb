"""Compares a plan's needs with what pgdyno's role may do on a server over the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server reports when pgdyno connects."""

    connections: int
    """The number of sessions that the role may open."""
    may_checkpoint: bool
    may_reset_statistics: bool
    may_make_databases: bool


def check_abilities(plan: Plan, abilities: Mapping[str, Abilities], document: Document) -> Iterator[Problem]:
    """Returns each need of `plan` that its targets, by name, do not meet."""
    reset = plan.reset
    for name, able in abilities.items():
        clients = max(point.clients for point in plan.points())
        if clients > able.connections:
            message = f"{clients} clients are too many for target {name}, which allows {able.connections} connections"
            yield document.problem(("sweep", "clients"), message, "use fewer, or raise its max_connections")
        if reset.checkpoint and not able.may_checkpoint:
            message = f"the role at target {name} may not run CHECKPOINT"
            hint = "grant it pg_checkpoint (PostgreSQL 15 or later), or set checkpoint = false"
            yield document.problem(("reset", "checkpoint"), message, hint)
        if reset.statistics and not able.may_reset_statistics:
            message = f"the role at target {name} may not reset statistics"
            yield document.problem(("reset", "statistics"), message, "grant it EXECUTE on pg_stat_reset, or remove it")
        if reset.method == "template" and not able.may_make_databases:
            message = f"the role at target {name} may not create databases"
            yield document.problem(("reset", "method"), message, 'grant it CREATEDB, or set method = "reload"')
