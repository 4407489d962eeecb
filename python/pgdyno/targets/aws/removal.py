"""Removes what was made at Amazon, in an order in which that can be done, and waits until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.faults import AwsError, InUseError, NotThereError
from pgdyno.targets.aws.kinds import FREE, Kind, Resource
from pgdyno.targets.aws.patience import Patience

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
