"""Creates resources at Amazon in parallel, each with a journal entry and tags."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.inventory import PREFIX, Kind, tags_of
from pgdyno.targets.rented.rental import Note
from pgdyno.targets.rented.rental_journal import Journal


class GivenUpError(TargetError):
    """The work was stopped because other work failed or the run was interrupted."""


class Stop(threading.Event):
    """Tells parallel workers to stop."""

    def check(self) -> None:
        """Raise GivenUpError if the signal is set."""
        if self.is_set():
            raise GivenUpError("given up")


def side_by_side(work: Mapping[str, Callable[[], None]], stop: Stop) -> None:
    """Run all of `work` in parallel, and return once all has ended. Raises the first failure.

    If one function fails, or an interrupt arrives, `stop` tells the others.
    """
    if len(work) == 1:
        # A single function needs no thread, and in the main thread an interrupt reaches it everywhere.
        next(iter(work.values()))()
        return
    with ThreadPoolExecutor(max_workers=max(1, len(work)), thread_name_prefix="aws") as pool:
        futures = [pool.submit(each) for each in work.values()]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(each.done() and each.exception() is None for each in futures):
                stop.set()
    raised = [error for each in futures if (error := each.exception()) is not None]
    if raised:
        # GivenUpError is the consequence of another failure, which is the one to report.
        raise next((each for each in raised if not isinstance(each, GivenUpError)), raised[0])


@dataclass(frozen=True, slots=True)
class Maker:
    """Creates the resources of one target of a run."""

    cloud: Cloud
    journal: Journal
    target: str
    place: int | str
    """The target's position in the plan, from 1, or a generator's number: Amazon limits names."""
    say: Callable[[str], None]
    warn: Note
    """Receives what does not prevent the rental, and must be known."""
    stop: Stop = field(default_factory=Stop)
    """Set when the resources are no longer needed."""
    generator_group: str | None = None
    """The security group of the run's generators, which servers let in; None without rented generators."""
    placement_group: str | None = None
    """The placement group of the run's hosts; None without one."""

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.journal.run}-{self.place}"

    @property
    def tags(self) -> list[dict[str, str]]:
        return tags_of(self.journal, self.target, self.name)

    def note(self, kind: Kind, name: str | None = None) -> None:
        """Note the resource that the next request creates, by `name` or by the target's. Raises TargetError."""
        self.stop.check()
        name = name or self.name
        self.journal.note_intent(kind, name, self.cloud.region, self.target)
        self.say(f"making the {kind} {name}")
