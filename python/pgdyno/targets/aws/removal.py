"""Removes resources at Amazon, and finds those that runs left there (`pgdyno reap`)."""

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
"""Time limit of a removal in seconds; that of a database server takes several minutes."""
USED_WITHIN_S = 300.0
"""How long, in seconds, pgdyno keeps trying to remove a resource that is in use when others cannot be removed.

The network interface of a removed server exists for some minutes longer than the server.
"""
_GOING = ("deleting", "shutting-down")
_WAVES = (
    {Kind.DB_INSTANCE, Kind.INSTANCE},
    {Kind.DB_CLUSTER},
    {Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT, Kind.SNAPSHOT},
    {Kind.VOLUME},
    {Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP},
)
"""The order of removal: resources of a wave may be used by those of earlier waves."""


@dataclass(frozen=True, slots=True)
class Left:
    """A resource that could not be removed."""

    resource: Resource
    why: str

    @property
    def line(self) -> str:
        """The line of the report on this resource."""
        paid = "which costs nothing" if self.resource.kind in FREE else "and paid for"
        return f"still there, {paid}: {self.resource.words}: {self.why}"


def remove_all(
    clouds: Mapping[str, Cloud],
    find: Callable[[], Sequence[Resource]],
    say: Callable[[str], None],
    within_s: float = WITHIN_S,
) -> list[Left]:
    """Removes what `find` returns until it returns nothing more; returns what is left, with the reasons.

    `clouds` are by region. Repeated and concurrent calls do no harm. Raises AwsError if `find` does.
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
    """Returns whether everything in `open_` may be in use by something in `refused`, and nothing in it is being
    removed.
    """
    first = min((_wave(kind) for kind in refused), default=len(_WAVES))
    return all(_wave(each.kind) > first and each.state not in _GOING for each in open_)


def _wave(kind: Kind) -> int:
    return next(at for at, wave in enumerate(_WAVES) if kind in wave)


def _first_wave(found: Sequence[Resource]) -> list[Resource]:
    first = min((_wave(each.kind) for each in found), default=0)
    return [each for each in found if _wave(each.kind) == first]


def _ask(cloud: Cloud, resource: Resource) -> bool:
    """Requests the removal; returns False if the resource cannot be removed now, or no longer exists."""
    if resource.state in _GOING:
        return False
    try:
        _remove(cloud, resource)
    except (InUseError, NotThereError):
        # The resource is changing, or is used by one that is being removed, or is gone.
        return False
    return True


_HOW = {
    # Only here does pgdyno discard data without a final snapshot: it created the database for the run, and the plan can
    # load it again.
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
    """The result of a removal."""

    found: list[Resource]
    left: list[Left]


class Reaper:
    """Finds and removes resources in the regions of journals, in those requested, and in the configured one."""

    def __init__(self, root: Path, regions: Iterable[str] = ()) -> None:
        """Reads the journals of the home `root`. Raises TargetError without credentials."""
        self._journals = list(journals(root))
        named = [*regions, *(each.region for journal in self._journals for each in journal.noted)]
        first = _first(named)
        self._account = first.account()
        self.clouds = {region: first.in_region(region) for region in dict.fromkeys([first.region, *named])}

    @property
    def places(self) -> list[str]:
        """The regions in which it searches."""
        return list(self.clouds)

    def find(self, wanted: Wanted) -> list[Resource]:
        """Returns the existing resources that `wanted` selects, in the order of removal. Raises AwsError."""
        return self._meant(self._search(wanted), wanted)

    def reap(self, wanted: Wanted, say: Callable[[str], None], within_s: float = WITHIN_S) -> Reaped:
        """Removes what `wanted` selects, and the journals of runs that have nothing left. Raises TargetError."""
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
        """Returns journals of other accounts, whose resources these credentials cannot see."""
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
    """Returns the configured region, which is always searched, or the first of `named` if none is configured."""
    try:
        return Cloud()
    except AwsError as error:
        if error.code != "NoRegion" or not named:
            raise
    return Cloud(named[0])


def run_named(root: Path, text: str) -> str:
    """Returns the one run in the journals whose name begins with `text`, or `text`.

    Raises TargetError if several do.
    """
    found = [each.run for each in journals(root) if each.run.startswith(text)]
    if len(found) > 1 and text not in found:
        raise TargetError(f"{len(found)} runs at Amazon begin with {text}", hint=f"name one: {', '.join(found)}")
    # A run of another machine has no journal here, but its resources have tags with its full name.
    return text if len(found) != 1 else found[0]
