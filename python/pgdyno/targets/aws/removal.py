"""Remove what was made at Amazon, and find what is left (`pgdyno reap`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.aws.api import AwsError, Cloud, InUseError, NotThereError, Patience
from pgdyno.targets.aws.inventory import Search, in_order
from pgdyno.targets.aws.rental_journal import FREE, Journal, Kind, Resource, journals
from pgdyno.targets.provider import Wanted

WITHIN_S = 3600.0
"""How long a removal may take; that of a database server takes some minutes."""
USED_WITHIN_S = 300.0
"""How long what is still used is asked for again beside something that stays: a removed server's network card goes some
minutes after it."""
_GOING = ("deleting", "shutting-down")
_WAVES = (
    {Kind.DB_INSTANCE, Kind.INSTANCE},
    {Kind.DB_CLUSTER},
    {Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT, Kind.SNAPSHOT},
    {Kind.VOLUME},
    {Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP},
)
"""What stands in a later one is used by what stands before it."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that could not be removed."""

    resource: Resource
    why: str

    @property
    def line(self) -> str:
        """What to say of it."""
        paid = "which costs nothing" if self.resource.kind in FREE else "and paid for"
        return f"still there, {paid}: {self.resource.words}: {self.why}"


def remove_all(
    clouds: Mapping[str, Cloud],
    find: Callable[[], Sequence[Resource]],
    say: Callable[[str], None],
    within_s: float = WITHIN_S,
) -> list[Left]:
    """Removes all that `find` finds, until it finds nothing more; what is left, with the reasons.

    `clouds` are by region. Doing it twice, or two at once, does no harm. Raises AwsError when nothing can be looked at.
    """
    patience = Patience(within_s)
    beside: Patience | None = None
    asked: set[tuple[Kind, str]] = set()
    refused: dict[tuple[Kind, str], str] = {}
    while True:
        found = [each for each in find() if each.kind is not Kind.INSTANCE or each.state != "terminated"]
        open_ = [each for each in found if (each.kind, each.id) not in refused]
        beside = (beside or Patience(USED_WITHIN_S)) if _stands_behind(open_, [key[0] for key in refused]) else None
        if not open_ or patience.over() or (beside is not None and beside.over()):
            why = "it is still being removed" if beside is None else "it may be used by what stays"
            return [Left(each, refused.get((each.kind, each.id), why)) for each in found]
        for each in _first_wave(open_):
            try:
                if _ask(clouds[each.region], each) and (each.kind, each.id) not in asked:
                    asked.add((each.kind, each.id))
                    say(f"removing {each.words}")
            except AwsError as error:
                refused[each.kind, each.id] = error.message
        patience.pause()


def _stands_behind(open_: Sequence[Resource], refused: Sequence[Kind]) -> bool:
    """Whether all that is `open_` may wait for something `refused`, and nothing of it goes."""
    first = min((_wave(kind) for kind in refused), default=len(_WAVES))
    return all(_wave(each.kind) > first and each.state not in _GOING for each in open_)


def _wave(kind: Kind) -> int:
    return next(at for at, wave in enumerate(_WAVES) if kind in wave)


def _first_wave(found: Sequence[Resource]) -> list[Resource]:
    first = min((_wave(each.kind) for each in found), default=0)
    return [each for each in found if _wave(each.kind) == first]


def _ask(cloud: Cloud, resource: Resource) -> bool:
    """Asks for the removal; False when that cannot be asked now."""
    if resource.state in _GOING:
        return False
    try:
        _remove(cloud, resource)
    except (InUseError, NotThereError):
        # it changes just now, or is used by what goes; or it is gone
        return False
    return True


_HOW = {
    # the one place where data is thrown away: it was made for the run, and its plan makes it anew
    Kind.DB_INSTANCE: ("rds", "delete_db_instance", "DBInstanceIdentifier"),
    Kind.DB_CLUSTER: ("rds", "delete_db_cluster", "DBClusterIdentifier"),
    Kind.DB_SNAPSHOT: ("rds", "delete_db_snapshot", "DBSnapshotIdentifier"),
    Kind.CLUSTER_SNAPSHOT: ("rds", "delete_db_cluster_snapshot", "DBClusterSnapshotIdentifier"),
    Kind.DB_PARAMETERS: ("rds", "delete_db_parameter_group", "DBParameterGroupName"),
    Kind.CLUSTER_PARAMETERS: ("rds", "delete_db_cluster_parameter_group", "DBClusterParameterGroupName"),
    Kind.SNAPSHOT: ("ec2", "delete_snapshot", "SnapshotId"),
    Kind.VOLUME: ("ec2", "delete_volume", "VolumeId"),
    Kind.SECURITY_GROUP: ("ec2", "delete_security_group", "GroupId"),
}


def _remove(cloud: Cloud, resource: Resource) -> None:
    if resource.kind is Kind.INSTANCE:
        cloud.call("ec2", "terminate_instances", InstanceIds=[resource.id])
        return
    service, operation, key = _HOW[resource.kind]
    more = {"SkipFinalSnapshot": True} if resource.kind in (Kind.DB_INSTANCE, Kind.DB_CLUSTER) else {}
    cloud.call(service, operation, **{key: resource.id}, **more)


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a reaping came to."""

    found: list[Resource]
    left: list[Left]


class Reaper:
    """Looks and removes in all regions that journals name, those that are asked for, and the configured one."""

    def __init__(self, root: Path, regions: Iterable[str] = ()) -> None:
        """With journals of the home `root`. Raises TargetError without credentials."""
        self._journals = list(journals(root))
        named = [*regions, *(each.region for journal in self._journals for each in journal.noted)]
        first = _first(named)
        self._account = first.account()
        self.clouds = {region: first.in_region(region) for region in dict.fromkeys([first.region, *named])}

    @property
    def places(self) -> list[str]:
        """Regions in which it looks."""
        return list(self.clouds)

    def find(self, wanted: Wanted) -> list[Resource]:
        """All that is there of what is `wanted`, in the order of removal. Raises AwsError."""
        return self._meant(self._search(wanted), wanted)

    def reap(self, wanted: Wanted, say: Callable[[str], None], within_s: float = WITHIN_S) -> Reaped:
        """Removes what is `wanted`, and the journals of those of which nothing is left. Raises TargetError."""
        found: dict[tuple[Kind, str], Resource] = {}
        search = self._search(wanted)

        def find() -> Sequence[Resource]:
            now = self._meant(search, wanted)
            found.update({(each.kind, each.id): each for each in now})
            return now

        left = remove_all(self.clouds, find, say, within_s)
        self._close(wanted, {each.resource.run for each in left})
        return Reaped(in_order(found.values()), left)

    def _search(self, wanted: Wanted) -> Search:
        meant = [each for each in self._of_account() if wanted.run in (None, each.run)]
        return Search(self.clouds, [(each, journal.run) for journal in meant for each in journal.noted])

    def _meant(self, search: Search, wanted: Wanted) -> list[Resource]:
        now = datetime.now(UTC)
        until = {journal.run: journal.expires for journal in self._journals}
        found = [replace(each, expires=each.expires or until.get(each.run)) for each in search.find()]
        return [each for each in found if wanted.means(each, now)]

    def strangers(self) -> list[Journal]:
        """Journals of other accounts, of which nothing can be seen with these credentials."""
        return [each for each in self._journals if each.account != self._account]

    def _of_account(self) -> list[Journal]:
        return [each for each in self._journals if each.account == self._account]

    def _close(self, wanted: Wanted, runs_left: set[str]) -> None:
        now = datetime.now(UTC)
        for journal in self._of_account():
            asked = wanted.run in (None, journal.run) and (not wanted.expired or journal.expires <= now)
            if asked and journal.run not in runs_left and journal.hold():
                journal.close()


def _first(named: Sequence[str]) -> Cloud:
    """Of the configured region, which is looked at in any case; where there is none, of the first of `named`."""
    try:
        return Cloud()
    except AwsError as error:
        if error.code != "NoRegion" or not named:
            raise
    return Cloud(named[0])


def run_named(root: Path, text: str) -> str:
    """The run whose name is `text`, or begins with it, where a journal has it. Raises TargetError for several."""
    found = [each.run for each in journals(root) if each.run.startswith(text)]
    if len(found) > 1 and text not in found:
        raise TargetError(f"{len(found)} runs at Amazon begin with {text}", hint=f"name one: {', '.join(found)}")
    # another machine's journal is not here; its tags are
    return text if len(found) != 1 else found[0]
