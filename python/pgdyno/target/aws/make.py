"""Makes things at Amazon, each noted in the journal first and tagged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.target.aws.cloud import Cloud
from pgdyno.target.aws.inventory import PREFIX
from pgdyno.target.aws.journal import Journal
from pgdyno.target.aws.kinds import Kind
from pgdyno.target.aws.tags import tags


@dataclass(frozen=True, slots=True)
class Maker:
    """For one target of a run."""

    cloud: Cloud
    journal: Journal
    target: str
    place: int
    """Of the target in the plan, from 1: names at Amazon are short, and targets' names may hold what those may not."""
    say: Callable[[str], None]

    @property
    def name(self) -> str:
        """Of everything that is made for the target."""
        return f"{PREFIX}{self.journal.run}-{self.place}"

    @property
    def tags(self) -> list[dict[str, str]]:
        """Likewise."""
        return tags(self.journal.run, self.journal.expires, self.target, self.name)

    def note(self, kind: Kind) -> None:
        """Notes what is asked for next; that is on the disk then. Raises TargetError."""
        self.journal.making(kind, self.name, self.cloud.region, self.target)
        self.say(f"making the {kind} {self.name}")
