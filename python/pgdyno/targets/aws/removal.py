"""Removes resources at Amazon, and finds those that runs left there (`pgdyno reap`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, CredentialsError, InUseError, NotThereError, Patience
from pgdyno.targets.aws.inventory import Search, in_order
from pgdyno.targets.aws.rental_journal import FREE, Journal, Kind, Resource, journals
from pgdyno.targets.provider import Reaped, Wanted
from pgdyno.units import duration_words

WITHIN_S = 3600.0
"""Time limit of a removal in seconds; that of a database server takes several minutes."""
USED_WITHIN_S = 300.0
"""How long, in seconds, pgdyno keeps trying to remove a resource that is in use when others cannot be removed.

The network interface of a removed server exists for some minutes longer than the server.
"""
TRIES = 4
"""Requests for one removal, or for the list of all, that may fail before pgdyno gives up."""
FRESH_WITHIN_S = 3600.0
"""How long, in seconds, a removal waits for fresh credentials."""
FIXED_WITHIN_S = 60.0
"""Likewise for credentials in environment variables, which only this process can change."""
GOING = ("deleting", "shutting-down")
"""States of a resource that is being removed."""
_WAVES = (
    {Kind.DB_INSTANCE, Kind.INSTANCE},
    {Kind.DB_CLUSTER},
    {Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT, Kind.SNAPSHOT},
    {Kind.VOLUME},
    {Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS, Kind.SECURITY_GROUP, Kind.PLACEMENT_GROUP, Kind.SCHEDULE},
)
"""The order of removal: resources of a wave may be used by those of earlier waves."""


_Key = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Left:
    """A resource that could not be removed."""

    resource: Resource
    why: Message | str
    """An error of Amazon's is a sentence."""

    @property
    def message(self) -> Message:
        """That it is still there, and why."""
        return Message(
            "resource-left",
            "still there, at no cost: {resource}: {why}"
            if self.resource.kind in FREE
            else "still there, and billed: {resource}: {why}",
            resource=self.resource.words,
            why=self.why,
        )


class _Fresh:
    """The wait for fresh credentials, after Amazon has stopped accepting those that pgdyno has."""

    def __init__(self, clouds: Mapping[str, Cloud], say: Callable[[str], None]) -> None:
        self._clouds, self._say = clouds, say
        self._patience: Patience | None = None

    def come(self, error: CredentialsError) -> bool:
        if self._patience is None:
            fixed = any(each.has_fixed_credentials for each in self._clouds.values())
            within_s = FIXED_WITHIN_S if fixed else FRESH_WITHIN_S
            self._patience = Patience(within_s)
            self._say(f"{error.message}; waiting up to {duration_words(within_s)} for others: {error.hint}")
        if self._patience.over():
            return False
        self._patience.pause()
        for each in self._clouds.values():
            # An error here is that of the next request.
            with suppress(AwsError):
                each.renew()
        return True

    def came(self) -> bool:
        waited, self._patience = self._patience is not None, None
        return waited


def remove_all(
    clouds: Mapping[str, Cloud],
    find: Callable[[], Sequence[Resource]],
    say: Callable[[str], None],
    within_s: float = WITHIN_S,
    known: Sequence[Resource] = (),
) -> list[Left]:
    """Remove what `find` returns until it returns nothing more; return what is left, with the reasons.

    A refusal of one resource does not stop the removal of the others, and is tried again. If the credentials are no
    longer valid, it waits for fresh ones. `clouds` are by region; `known` is what may exist if nobody can look.
    Repeated and concurrent calls do no harm. Raises AwsError if `find` does, and nothing is known.
    """
    work, fresh, failed = _Removal(clouds, find, say, known), _Fresh(clouds, say), 0
    work.patience = Patience(within_s)
    while True:
        try:
            left = work.turn()
            if fresh.came():
                say("the credentials are valid again")
                work.patience = Patience(within_s)
            if left is not None:
                return left
            failed = 0
        except CredentialsError as error:
            if not fresh.come(error):
                return work.unseen(error)
            continue
        except AwsError as error:
            failed += 1
            if error.is_denied or failed >= TRIES or work.patience.over():
                return work.unseen(error)
        work.patience.pause()


def begin_removal(cloud: Cloud, found: Sequence[Resource], say: Callable[[str], None]) -> None:
    """Request the removal of the first among `found`, in the order of removal; do not wait. Raises AwsError."""
    for each in _first_wave(found):
        if _ask(cloud, each):
            say(f"removing {each.words}")


@dataclass(slots=True)
class _Removal:
    """What is known of a removal, turn by turn."""

    clouds: Mapping[str, Cloud]
    find: Callable[[], Sequence[Resource]]
    say: Callable[[str], None]
    known: Sequence[Resource]
    """What existed when it was last seen."""
    patience: Patience = field(default_factory=lambda: Patience(WITHIN_S))
    _use_by_others: Patience | None = None
    _asked: set[_Key] = field(default_factory=set)
    _tries: Counter[_Key] = field(default_factory=Counter)
    _refused: dict[_Key, Message | str] = field(default_factory=dict)

    def turn(self) -> list[Left] | None:
        """Look, and request the removals that are next; return what is left once nothing more can be done.

        Raises AwsError if it cannot look, and CredentialsError.
        """
        found = [each for each in self.find() if each.kind is not Kind.INSTANCE or each.state != "terminated"]
        self.known = found
        open_ = [each for each in found if (each.kind, each.id) not in self._refused]
        stands = _may_be_in_use(open_, [key[0] for key in self._refused])
        self._use_by_others = (self._use_by_others or Patience(USED_WITHIN_S)) if stands else None
        if not open_ or self.patience.over() or (self._use_by_others is not None and self._use_by_others.over()):
            if self._use_by_others is None:
                why = Message("still-being-removed", "it is still being removed")
            else:
                why = Message("used-by-others", "resources that remain may use it")
            return [Left(each, self._refused.get((each.kind, each.id), why)) for each in found]
        for each in _first_wave(open_):
            self._request(each)
        return None

    def _request(self, each: Resource) -> None:
        key = (each.kind, each.id)
        try:
            if _ask(self.clouds[each.region], each) and key not in self._asked:
                self._asked.add(key)
                self.say(f"removing {each.words}")
        except CredentialsError:
            raise
        except AwsError as error:
            self._tries[key] += 1
            if error.is_denied or self._tries[key] >= TRIES:
                self._refused[key] = error.message

    def unseen(self, error: AwsError) -> list[Left]:
        """Return what existed when it was last seen. Raises `error` if nothing did."""
        if not self.known:
            raise error
        why = Message("not-removed", "it was not removed: {error}", error=error.message)
        return [Left(each, why) for each in self.known]


def _may_be_in_use(open_: Sequence[Resource], refused: Sequence[Kind]) -> bool:
    """Return whether something in `refused` may use all of `open_`, of which nothing is being removed."""
    first = min((_wave(kind) for kind in refused), default=len(_WAVES))
    return all(_wave(each.kind) > first and each.state not in GOING for each in open_)


def _wave(kind: Kind) -> int:
    return next(at for at, wave in enumerate(_WAVES) if kind in wave)


def _first_wave(found: Sequence[Resource]) -> list[Resource]:
    first = min((_wave(each.kind) for each in found), default=0)
    return [each for each in found if _wave(each.kind) == first]


def _ask(cloud: Cloud, resource: Resource) -> bool:
    if resource.state in GOING:
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
    Kind.PLACEMENT_GROUP: ("ec2", "delete_placement_group", "GroupName"),
    Kind.SCHEDULE: ("scheduler", "delete_schedule", "Name"),
}


def _remove(cloud: Cloud, resource: Resource) -> None:
    if resource.kind is Kind.INSTANCE:
        cloud.call("ec2", "terminate_instances", InstanceIds=[resource.id])
        return
    service, operation, key = _HOW[resource.kind]
    more = {"SkipFinalSnapshot": True} if resource.kind in (Kind.DB_INSTANCE, Kind.DB_CLUSTER) else {}
    named = resource.name if resource.kind is Kind.PLACEMENT_GROUP else resource.id
    cloud.call(service, operation, **{key: named}, **more)


class Reaper:
    """Finds and removes resources in the regions of journals, in those requested, and in the configured one."""

    def __init__(self, root: Path, regions: Iterable[str] = (), *, all_regions: bool = False) -> None:
        """Read the journals of the home `root`. Raises TargetError without credentials.

        With `all_regions`, it also searches every region that is enabled for the account.
        """
        self._journals = list(journals(root))
        named = [*regions, *(each.region for journal in self._journals for each in journal.noted)]
        first = _first_cloud(named)
        who = first.identity()
        self._account, self._owner = who.account, who.owner
        if all_regions:
            named += [each["RegionName"] for each in first.call("ec2", "describe_regions")["Regions"]]
        self.clouds = {region: first.in_region(region) for region in dict.fromkeys([first.region, *named])}

    @property
    def places(self) -> list[str]:
        return list(self.clouds)

    def find(self, wanted: Wanted) -> list[Resource]:
        """Return the existing resources that `wanted` selects, in the order of removal. Raises AwsError."""
        return self._find_wanted(self._search(wanted), wanted)

    def reap(self, wanted: Wanted, say: Callable[[str], None], within_s: float = WITHIN_S) -> Reaped:
        """Remove what `wanted` selects, and the journals of runs that have nothing left. Raises TargetError."""
        found: dict[tuple[Kind, str], Resource] = {}
        search = self._search(wanted)

        def find() -> Sequence[Resource]:
            now = self._find_wanted(search, wanted)
            found.update({(each.kind, each.id): each for each in now})
            return now

        left = remove_all(self.clouds, find, say, within_s)
        self._close(wanted, {each.resource.run for each in left})
        return Reaped(in_order(found.values()), left)

    def _search(self, wanted: Wanted) -> Search:
        meant = [each for each in self._of_account() if wanted.run in (None, each.run)]
        return Search(self.clouds, [(each, journal.run) for journal in meant for each in journal.noted])

    def _find_wanted(self, search: Search, wanted: Wanted) -> list[Resource]:
        now = datetime.now(UTC)
        until = {journal.run: journal.expires for journal in self._journals}
        found = [replace(each, expires=each.expires or until.get(each.run)) for each in search.find()]
        return [each for each in found if wanted.means(each, now)]

    def of_others(self, found: Iterable[Resource]) -> list[Resource]:
        """Return those of `found` that another identity created, and this machine's journals do not name."""
        ours = {journal.run for journal in self._journals}
        return [each for each in found if each.owner not in ("", self._owner) and each.run not in ours]

    def strangers(self) -> list[Journal]:
        """Return journals of other accounts, whose resources these credentials cannot see."""
        return [each for each in self._journals if each.account != self._account]

    def _of_account(self) -> list[Journal]:
        return [each for each in self._journals if each.account == self._account]

    def _close(self, wanted: Wanted, runs_left: set[str]) -> None:
        now = datetime.now(UTC)
        for journal in self._of_account():
            asked = wanted.run in (None, journal.run) and (not wanted.expired or journal.expires <= now)
            if asked and journal.run not in runs_left and journal.hold():
                journal.close()


def _first_cloud(named: Sequence[str]) -> Cloud:
    """Return the configured region, which is always searched, or the first of `named` if none is configured."""
    try:
        return Cloud()
    except AwsError as error:
        if error.code != "NoRegion" or not named:
            raise
    return Cloud(named[0])
