"""What a plan says of an embedded target."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pgdyno.plan.targets import OwnTarget, Version


class EmbeddedTarget(OwnTarget):
    """A PostgreSQL that pgdyno fetches."""

    kind: Literal["embedded"]
    version: Version

    summary: ClassVar[str] = "fetched by pgdyno"

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return int(self.version.partition(".")[0])

    def programs(self) -> str:
        """Where its programs come from, in words."""
        return f"PostgreSQL {self.version}, embedded"

    def pinned(self, version: str) -> Self:
        """The same with an exact version: what "18" means today may be a later one."""
        return self.model_copy(update={"version": version})
