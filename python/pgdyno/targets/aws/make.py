"""Makes things at Amazon, each noted in the journal first and tagged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.inventory import PREFIX
from pgdyno.targets.aws.journal import Journal
from pgdyno.targets.aws.kinds import Kind
from pgdyno.targets.aws.side_by_side import Stop
from pgdyno.targets.aws.tags import tags


@dataclass(frozen=True, slots=True)
class Maker:
    """For one target of a run."""

    cloud: Cloud
    journal: Journal
    target: str
    place: int | str
    """Of the target in the plan, from 1: names at Amazon are short, and targets' names may hold what those may not."""
    say: Callable[[str], None]
    stop: Stop = field(default_factory=Stop)
    """Set when what it makes is wanted no more."""
    generator_group: str | None = None
    """The security group of the run's generator, which servers let in; None: there is none."""

    @property
    def name(self) -> str:
        """Of everything that is made for the target."""
        return f"{PREFIX}{self.journal.run}-{self.place}"

    @property
    def tags(self) -> list[dict[str, str]]:
        """Likewise."""
        return tags(self.journal.run, self.journal.expires, self.target, self.name)

    def note(self, kind: Kind, name: str | None = None) -> None:
        """Notes what is asked for next, by `name` where that is another; it is on the disk then.

        Raises TargetError.
        """
        self.stop.check()
        name = name or self.name
        self.journal.making(kind, name, self.cloud.region, self.target)
        self.say(f"making the {kind} {name}")
