"""What all servers have in common that are reached over the network."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from pgdyno.plan.base import Setting
from pgdyno.plan.targets import TargetSpec

DATABASE = "pgdyno"
"""Where workloads live unless a plan says otherwise."""
LONGEST_IDENTIFIER = 63
"""Bytes of a name in PostgreSQL, as it is built by default."""


class NetworkTarget(TargetSpec):
    """A server over the network: pgdyno has one database on it, and neither its files nor its process."""

    setting_remedy: ClassVar[str] = "remove it"
    """What to do with a setting that a database cannot have."""

    database: Annotated[str, Field(min_length=1)] = DATABASE
    """Where the workload lives; made if it is not there."""
    allow_existing: bool = False
    """Use `database` also when pgdyno did not make it."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the database (ALTER DATABASE … SET)."""

    @model_validator(mode="after")
    def _named_database(self) -> NetworkTarget:
        if self.allow_existing and "database" not in self.model_fields_set:
            raise ValueError("allow_existing needs the database by name; add database")
        if len(self.database.encode()) > LONGEST_IDENTIFIER - len("_template"):
            raise ValueError(f"the database's name is too long; {LONGEST_IDENTIFIER - len('_template')} bytes at most")
        return self
