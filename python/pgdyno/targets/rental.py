"""What a cloud provider has rented for one plan: its servers and generators, what they report, and their removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.records import CloudSource
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.estimate import Estimate

if TYPE_CHECKING:
    from pgdyno.remote.remote_host import There


SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One sample; it is about the span before its time."""

    t_us: int
    """Its end, since 1970, by the service's clock."""
    span_us: int
    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time: microseconds since 1970."""

    from_us: int
    to_us: int

    def widened(self, period_s: int) -> Span:
        """To whole periods, as the services count them."""
        period_us = period_s * SECOND_US
        return Span(self.from_us // period_us * period_us, -(-self.to_us // period_us) * period_us)


@dataclass(slots=True)
class Observed:
    """What one source told of one stretch."""

    period_s: int
    figures: list[Figure] = field(default_factory=list)
    gaps: list[Span] = field(default_factory=list)
    complete: bool = False
    """Whether its end has come: what is late is no gap yet."""


def missing(span: Span, period_s: int, ends_us: Iterable[int]) -> list[Span]:
    """Stretches of `span`, which is whole periods, in which no sample ends on its period's grid; neighbours as one."""
    there = set(ends_us)
    period_us = period_s * SECOND_US
    found: list[Span] = []
    for end in range(span.from_us + period_us, span.to_us + 1, period_us):
        if end in there:
            continue
        if found and found[-1].to_us == end - period_us:
            found[-1] = Span(found[-1].from_us, end)
        else:
            found.append(Span(end - period_us, end))
    return found


def is_complete(span: Span, gaps: Sequence[Span]) -> bool:
    """Whether the last period of `span` is there: samples come in their order."""
    return not gaps or gaps[-1].to_us < span.to_us


Say = Callable[[str], None]
GENERATOR = "@generator"
"""In the place of a target's name, of which it can be none: of the run's generator, the first of several."""


def generator_names(count: int) -> list[str]:
    """In the place of targets' names, of so many generators."""
    return [GENERATOR, *(f"{GENERATOR}-{number}" for number in range(2, count + 1))]


def is_generator(name: str) -> bool:
    """Whether it stands in the place of a target's name."""
    return name.startswith(GENERATOR)


def stamp(moment: datetime) -> str:
    """`2026-11-21T20:00:00Z`, which tags at providers take, too."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Resource(Protocol):
    """Something at a provider that bears our tags, or that a journal names and that is there."""

    @property
    def id(self) -> str:
        """What it is removed by."""

    @property
    def run(self) -> str:
        """Who made it."""

    @property
    def expires(self) -> datetime | None:
        """None: not known."""

    @property
    def words(self) -> str:
        """What it is, how it is called and where."""


class Left(Protocol):
    """Something that could not be removed."""

    @property
    def resource(self) -> Resource:
        """What it is."""

    @property
    def line(self) -> str:
        """What to say of it, and whether it costs anything."""


class Journal(Protocol):
    """What was made for one run, as this machine has written it down before it was made."""

    @property
    def run(self) -> str:
        """Its name at the provider."""

    @property
    def account(self) -> str:
        """Whose it is."""

    @property
    def begun(self) -> datetime:
        """When the first thing was made."""

    @property
    def expires(self) -> datetime:
        """After that `pgdyno reap --expired` removes it."""

    @property
    def ready(self) -> Mapping[str, dict[str, Any]]:
        """Where each server and generator is, by target: instance, zone, version, host, login, ssh_port."""

    @property
    def keys(self) -> Path:
        """The folder with the keys of its hosts."""

    def hold(self) -> bool:
        """Keeps other processes from using or removing it; False when another holds it."""

    def release(self) -> None:
        """Lets others use it."""


@dataclass(slots=True)
class Told:
    """What one source of a provider tells of a server alongside a trial."""

    source: CloudSource
    name: str
    """The source in words: `CloudWatch's figures`."""
    message: str | None = None
    """Why it told nothing, or not all."""
    observed: Observed | None = None
    notes: list[str] = field(default_factory=list)
    """What whoever reads the trial should know."""
    log: Sequence[str] | None = None
    """Lines of the server's log; None: this is no log."""
    checkpoints: Sequence[tuple[int, dict[str, Any]]] = ()
    """Of the log: microseconds since 1970, and fields of the probe's `checkpoint`."""


class Rental(Protocol):
    """The rented servers and generators of one plan. Methods raise TargetError."""

    @property
    def journal(self) -> Journal:
        """What was made."""

    @property
    def since(self) -> Mapping[str, datetime]:
        """When each server was asked for; without those that were up before."""

    @property
    def fresh(self) -> set[str]:
        """Targets that nothing was done to since they were made or restored."""

    @property
    def unread(self) -> set[str]:
        """Targets whose pages were not read since they were restored."""

    def up(self) -> None:
        """Makes all of it; what was made before an error is then still there."""

    def connection(self, name: str) -> DsnTarget:
        """How the server of target `name` is opened: a target that is reached over the network."""

    def server_id(self, name: str) -> str:
        """What the server of target `name` is called at the provider."""

    def is_restored_often(self, name: str) -> bool:
        """Whether the server of target `name` is another one before every trial."""

    def wants_restore(self, name: str) -> bool:
        """Whether it is to be made anew before the next trial."""

    def restore(self, name: str) -> None:
        """Makes it anew."""

    def reads_first(self, name: str) -> bool:
        """Whether each of its pages is to be read before its first trial, once it was restored."""

    def limits(self, name: str) -> list[str]:
        """What the storage of target `name` gives, in words."""

    def observe(self, name: str, span: Span, late_s: float, say: Say) -> Iterator[Told]:
        """What the provider's services tell of the server of target `name` in `span`.

        Waits up to `late_s` for what is late, and says so. What a service refuses is a message of its `Told`.
        """

    def generator_cost(self, name: str) -> Estimate:
        """What the generator `name` costs."""

    def generator_ssh(self) -> SshSpec | None:
        """How to log in to the first generator; None where the load comes from here."""

    def through(self) -> tuple[str, ...]:
        """Words before a program that is to run on the first generator; none: here."""

    def load_hosts(self) -> list[There]:
        """The generators, where there are several; none otherwise."""

    def there(self) -> Sequence[Resource]:
        """All of it that there is."""

    def prolong(self, expires: datetime) -> None:
        """Gives all of it another expiry."""

    def down(self) -> Sequence[Left]:
        """Removes all of it; what could not be removed."""


def take_down(rental: Rental, say: Say) -> int | None:
    """Removes all that `rental` made; how much is left, None where nobody could look.

    An error of the provider's is said and not raised: it must not stand before the one that this is done for.
    """
    run = rental.journal.run
    try:
        return removed(rental, say)
    except BaseException as error:
        why = error.message if isinstance(error, TargetError) else "their removal was interrupted"
        say(f"servers of run {run} may still be there: {why}; remove them: pgdyno reap --run {run}")
        if isinstance(error, TargetError):
            return None
        raise


def removed(rental: Rental, say: Say) -> int:
    """Removes all that `rental` made, and says what is left; how much that is. Raises TargetError."""
    left = rental.down()
    for each in left:
        say(each.line)
    if left:
        say(f"try again: pgdyno reap --run {rental.journal.run}")
    return len(left)
