"""What pgdyno makes at Amazon, and in which order it is removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """In the order of removal: what stands first uses what stands behind it."""

    DB_INSTANCE = "database instance"
    DB_CLUSTER = "database cluster"
    INSTANCE = "instance"
    DB_SNAPSHOT = "database snapshot"
    CLUSTER_SNAPSHOT = "cluster snapshot"
    SNAPSHOT = "snapshot"
    VOLUME = "volume"
    DB_PARAMETERS = "parameter group"
    CLUSTER_PARAMETERS = "cluster parameter group"
    SECURITY_GROUP = "security group"


ORDER = tuple(Kind)
FREE = frozenset({Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP})
"""What costs nothing while it is there."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something at Amazon that bears our tags, or stands in a journal and is there."""

    kind: Kind
    id: str
    """What it is removed by."""
    name: str
    """As the journal has it."""
    region: str
    run: str
    expires: datetime | None
    """None: its tag cannot be read."""
    state: str = ""
    detail: str = ""
    """What it is paid by: an instance class, a size."""

    @property
    def words(self) -> str:
        """`database instance pgdyno-… (db.r8g.large, creating), eu-central-1`."""
        more = ", ".join(each for each in (self.detail, self.state) if each)
        name = self.name if self.id == self.name else f"{self.name} {self.id}"
        return f"{self.kind} {name}{f' ({more})' if more else ''}, {self.region}"
