"""The plan's schema of an embedded target."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from pgdyno.errors import Problem
from pgdyno.plan.known_settings import NEWEST, OLDEST
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import OwnTarget, TargetSpec, Version


class EmbeddedTarget(OwnTarget):
    """A PostgreSQL that pgdyno downloads."""

    kind: Literal["embedded"]
    version: Version

    summary: ClassVar[str] = "fetched by pgdyno"

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check its version, and what is checked for every server that pgdyno starts."""
        yield from super().check(name, targets, document)
        if not OLDEST <= self.major <= NEWEST:
            message = f"there is no PostgreSQL {self.version} to download"
            yield document.problem(("target", name, "version"), message, f"use a version from {OLDEST} to {NEWEST}")

    def programs(self) -> str:
        return f"PostgreSQL {self.version}, embedded"

    def with_version(self, version: str) -> Self:
        return self.model_copy(update={"version": version})
