"""The common schema of servers that are reached over the network."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from pgdyno.plan.base import Setting
from pgdyno.plan.targets import TargetSpec

DATABASE = "pgdyno"
"""The default database of workloads."""
LONGEST_IDENTIFIER = 63
"""Bytes of an identifier in a default build of PostgreSQL."""


class NetworkTarget(TargetSpec):
    """A server over the network: pgdyno uses one database on it, but has no access to its files and process."""

    setting_remedy: ClassVar[str] = "remove it"
    """The remedy for a setting that a database cannot have."""

    database: Annotated[str, Field(min_length=1)] = DATABASE
    """Database of the workload; created if it does not exist."""
    allow_existing: bool = False
    """Use an existing `database` that pgdyno did not create."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the database (ALTER DATABASE … SET)."""

    @model_validator(mode="after")
    def _named_database(self) -> NetworkTarget:
        if self.allow_existing and "database" not in self.model_fields_set:
            raise ValueError("allow_existing needs the name of the database; add database")
        if len(self.database.encode()) > LONGEST_IDENTIFIER - len("_template"):
            raise ValueError(f"the database's name is too long; {LONGEST_IDENTIFIER - len('_template')} bytes at most")
        return self
