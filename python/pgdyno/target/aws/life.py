"""The rented servers of a plan: from nothing to a connection string, and back to nothing whatever happens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan.aws_targets import AuroraTarget, AwsTarget, RdsTarget
from pgdyno.plan.model import Plan
from pgdyno.plan.targets import DsnTarget
from pgdyno.target.aws.answers import wait_until_it_answers
from pgdyno.target.aws.aurora import Aurora
from pgdyno.target.aws.cloud import Cloud
from pgdyno.target.aws.faults import AwsError
from pgdyno.target.aws.inventory import Search, by_name
from pgdyno.target.aws.journal import Journal, journals
from pgdyno.target.aws.kinds import Kind, Resource
from pgdyno.target.aws.make import Maker
from pgdyno.target.aws.place import Place, keep_password
from pgdyno.target.aws.rds import Rds
from pgdyno.target.aws.removal import Left, remove_all
from pgdyno.target.aws.server import new_password
from pgdyno.target.aws.tags import EXPIRES, stamp
from pgdyno.target.aws.trust import tls_root
from pgdyno.units import parse_duration_s

Say = Callable[[str], None]
_DATABASES = (Kind.DB_INSTANCE, Kind.DB_CLUSTER)


def rented_targets(plan: Plan) -> dict[str, AwsTarget]:
    """The plan's targets that are made for it at Amazon, by name."""
    return {name: spec for name, spec in plan.target.items() if isinstance(spec, AwsTarget)}


def is_restored(spec: AwsTarget) -> bool:
    """Whether its data come from elsewhere: from a snapshot, or another's storage."""
    return spec.snapshot is not None or getattr(spec, "clone_of", None) is not None


def digest_of(plan: Plan) -> str:
    """Of what is made for `plan`: equal where the same servers are."""
    asked = {name: spec.model_dump(mode="json") for name, spec in rented_targets(plan).items()}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(slots=True)
class Rental:
    """The rented servers of one plan."""

    plan: Plan
    root: Path
    """pgdyno's home."""
    journal: Journal
    say: Say
    clouds: dict[str, Cloud] = field(default_factory=dict)
    """By region."""
    fresh: set[str] = field(default_factory=set)
    """Targets that nothing was done to since they were made or restored."""
    since: dict[str, datetime] = field(default_factory=dict)
    """When each target's server was asked for; without those that were up before."""
    unread: set[str] = field(default_factory=set)
    """Targets whose pages were not read since they were restored."""

    def __post_init__(self) -> None:
        """What is up already may have been restored just now, too."""
        self.unread |= {name for name, spec in rented_targets(self.plan).items() if is_restored(spec)}

    def up(self) -> None:
        """Makes all of it, one target after the other. Raises TargetError; what was made is then still there."""
        for name in rented_targets(self.plan):
            self.since[name] = datetime.now(UTC)
            try:
                self._ready(name, self._server(name, new_password()))
            except TargetError as error:
                raise type(error)(f"target {name}: {error.message}", hint=error.hint) from error

    def connection(self, name: str) -> DsnTarget:
        """How the server of target `name` is reached. Raises TargetError."""
        spec = rented_targets(self.plan)[name]
        place = Place(**self.journal.ready[name])
        return DsnTarget(
            kind="dsn",
            dsn=place.dsn(self.journal.passwords, tls_root(spec, self.root)),
            **{
                key: getattr(spec, key)
                for key in ("database", "allow_existing", "settings")
                if key in spec.model_fields_set
            },
        )

    def observed(self, name: str) -> tuple[Cloud, str]:
        """Where the database instance of target `name` is, and what it is called there."""
        maker = self._maker(name)
        return maker.cloud, maker.name

    def wants_restore(self, name: str) -> bool:
        """Whether the server of target `name` is to be made anew from its snapshot before the next trial."""
        spec = rented_targets(self.plan).get(name)
        return spec is not None and spec.restore == "each-trial" and name not in self.fresh

    def restore(self, name: str) -> None:
        """Removes the server of target `name` and makes it anew from its snapshot. Raises TargetError."""
        maker, spec = self._maker(name), rented_targets(self.plan)[name]
        noted = [each for each in self.journal.noted if each.target == name and each.kind in _DATABASES]
        within_s = parse_duration_s(spec.ready_within)
        clouds = {maker.cloud.region: maker.cloud}
        left = remove_all(clouds, lambda: by_name(maker.cloud, noted, self.journal.run), self.say, within_s)
        if left:
            raise AwsError(f"cannot restore {name}: {left[0].resource.words} is still there: {left[0].why}")
        self._ready(name, self._server(name, new_password()), restore=True)
        self.unread.add(name)

    def down(self) -> list[Left]:
        """Removes all of it; what could not be removed. Without that, the journal goes, too. Raises TargetError."""
        search = self._search()
        left = remove_all(self.clouds, lambda: self._ours(search), self.say)
        if not left:
            self.journal.close()
        return left

    def there(self) -> list[Resource]:
        """All of it that there is. Raises AwsError."""
        return self._ours(self._search())

    def _search(self) -> Search:
        return Search(self.clouds, [(each, self.journal.run) for each in self.journal.noted])

    def _ours(self, search: Search) -> list[Resource]:
        return [each for each in search.find() if each.run == self.journal.run]

    def prolong(self, expires: datetime) -> None:
        """Gives all of it another expiry. Raises TargetError."""
        self.journal.prolong(expires)
        tag = [{"Key": EXPIRES, "Value": stamp(expires)}]
        for each in self.there():
            _retag(self.clouds[each.region], each, self.journal.account, tag)

    def _ready(self, name: str, server: Rds | Aurora, *, restore: bool = False) -> None:
        place = server.restore() if restore else server.up()
        spec, passwords = rented_targets(self.plan)[name], self.journal.passwords
        keep_password(passwords, place, server.password)
        wait_until_it_answers(server.maker, spec, place, passwords, tls_root(spec, self.root))
        self.journal.is_ready(name, place.as_kept())
        self.fresh.add(name)

    def _server(self, name: str, password: str) -> Rds | Aurora:
        spec, maker = self.plan.target[name], self._maker(name)
        if isinstance(spec, RdsTarget):
            return Rds(maker, spec, password)
        assert isinstance(spec, AuroraTarget)
        return Aurora(maker, spec, password)

    def _maker(self, name: str) -> Maker:
        spec = rented_targets(self.plan)[name]
        cloud = self.clouds[_region(self.clouds, spec)]
        return Maker(cloud, self.journal, name, 1 + list(self.plan.target).index(name), self.say)


def _retag(cloud: Cloud, each: Resource, account: str, tag: list[dict[str, str]]) -> None:
    names = {
        Kind.DB_INSTANCE: "db",
        Kind.DB_CLUSTER: "cluster",
        Kind.DB_PARAMETERS: "pg",
        Kind.CLUSTER_PARAMETERS: "cluster-pg",
    }
    if each.kind in names:
        arn = f"arn:{cloud.partition}:rds:{cloud.region}:{account}:{names[each.kind]}:{each.id}"
        cloud.call("rds", "add_tags_to_resource", ResourceName=arn, Tags=tag)
    elif each.kind is Kind.SECURITY_GROUP:
        cloud.call("ec2", "create_tags", Resources=[each.id], Tags=tag)


def _region(clouds: Mapping[str, Cloud], spec: AwsTarget) -> str:
    # without a region it is the configured one, which stands first
    return spec.region or next(iter(clouds))


def _clouds(plan: Plan) -> dict[str, Cloud]:
    specs = rented_targets(plan).values()
    configured = [Cloud()] if any(spec.region is None for spec in specs) else []
    named = [Cloud(spec.region) for spec in specs if spec.region is not None]
    return {cloud.region: cloud for cloud in [*configured, *named]}


def begin(plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
    """A new rental, of which nothing is made yet; it expires in `lasts_s`. Raises TargetError without credentials."""
    clouds = _clouds(plan)
    account = next(iter(clouds.values())).account()
    expires = datetime.now(UTC) + timedelta(seconds=lasts_s)
    journal = Journal.begin(root, plan.name, digest_of(plan), account, expires)
    return Rental(plan, root, journal, say, clouds)


def standing(plan: Plan, root: Path, say: Say) -> Rental | None:
    """What `pgdyno target up` left up for this very plan; None when there is nothing. Raises TargetError.

    Raises AwsError when it is up for another plan of that name: it would be paid for twice.
    """
    for journal in journals(root):
        if journal.plan != plan.name or not journal.ready:
            continue
        if journal.digest != digest_of(plan):
            message = f"servers of a plan {plan.name} are up (run {journal.run}), and its targets were others then"
            raise AwsError(message, hint=f"remove them: pgdyno reap --run {journal.run}")
        if journal.ready.keys() != rented_targets(plan).keys():
            continue
        rental = _own(Rental(plan, root, journal, say, _clouds(plan)))
        if not journal.hold():
            raise AwsError(f"another pgdyno uses the servers of the plan {plan.name} (run {journal.run})")
        if rental.there():
            return rental
        # another machine has reaped them
        journal.close()
    return None


def _own(rental: Rental) -> Rental:
    """`rental`, if these credentials are of the account that it is in. Raises AwsError."""
    account = next(iter(rental.clouds.values())).account()
    if account != rental.journal.account:
        message = f"run {rental.journal.run} is of account {rental.journal.account}, and these credentials of {account}"
        raise AwsError(message, hint="use those of the other account")
    return rental


def is_standing(plan: Plan, root: Path) -> bool:
    """Whether `standing` would give the servers of `plan`, or say why not."""
    names = rented_targets(plan).keys()
    ready = [each for each in journals(root) if each.plan == plan.name and each.ready]
    return any(each.digest != digest_of(plan) or each.ready.keys() == names for each in ready)


def left_of(plan: Plan, root: Path, say: Say) -> list[Rental]:
    """All that journals know of plans of that name, whole or not, also of other targets. Raises TargetError."""
    found = []
    for journal in journals(root):
        if journal.plan == plan.name:
            clouds = _clouds(plan) | {each.region: Cloud(each.region) for each in journal.noted}
            found.append(_own(Rental(plan, root, journal, say, clouds)))
    return found
