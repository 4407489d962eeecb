"""The plan's schema of an embedded target."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pgdyno.plan.targets import OwnTarget, Version


class EmbeddedTarget(OwnTarget):
    """A PostgreSQL that pgdyno downloads."""

    kind: Literal["embedded"]
    version: Version

    summary: ClassVar[str] = "fetched by pgdyno"

    @property
    def major(self) -> int:
        """Returns PostgreSQL's major version."""
        return int(self.version.partition(".")[0])

    def programs(self) -> str:
        """Describes the origin of its programs."""
        return f"PostgreSQL {self.version}, embedded"

    def pinned(self, version: str) -> Self:
        """Returns the target with an exact version, because "18" may mean a later release tomorrow."""
        return self.model_copy(update={"version": version})
