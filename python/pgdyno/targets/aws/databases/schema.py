"""The keys of a plan for databases at RDS and Aurora, and the limits of both that are known without a request."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.mounts import expand_home, is_file
from pgdyno.plan.known_settings import SETTING_NAME
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath, TargetSpec
from pgdyno.plan.values import Model, Positive, Setting, Size
from pgdyno.targets.aws.databases.parameter_rules import CLUSTER_LEVEL, in_own_unit, parameter_refusal
from pgdyno.targets.aws.databases.standard_support import STANDARD_UNTIL, extended_year
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.units import parse_bytes

DEAD_MAN_ROLE = "pgdyno-dead-man"
"""The default name of the role with which Amazon's scheduler removes databases."""
RESTORE_S = 3600.0
"""An upper estimate of the seconds that it takes to remove a database and create it again from a snapshot."""
InstanceClass = Annotated[str, Field(pattern=r"^db\.[a-z0-9-]+\.[a-z0-9]+$")]
LEAST_STORAGE = 20 * 1024**3
"""No storage type of RDS for PostgreSQL can be smaller than this."""
STRIPED_FROM = 400 * 1024**3
"""The size from which RDS for PostgreSQL lets a plan choose the IOPS and throughput of gp3."""


class DatabaseTarget(AwsTarget):
    """What RDS and Aurora have in common: nobody can log in to the host."""

    instance: InstanceClass
    """The instance class: `db.r8g.4xlarge`."""
    instead: list[InstanceClass] = []
    """Classes to try, in this order, if Amazon has no capacity for `instance`."""
    insights: bool = True
    """Enable Performance Insights with 7 days of history, which is free."""
    subnet_group: str | None = None
    """An existing subnet group; None: the account's default network."""
    snapshot: Annotated[str, Field(min_length=1)] | None = None
    """An existing snapshot from which the server is restored; None: an empty server."""
    restore: Literal["once", "each-trial"] = "once"
    """When the server is restored: at the start of the run, or before every trial; without `snapshot` and `clone_of`,
    `each-trial` restores a snapshot that pgdyno takes once the data are loaded.
    """
    first_touch: Literal["read", "none"] = "read"
    """What happens before the first trial to the pages of a restored server, which loads a block from remote storage at
    the first access: read all of them, or leave that to the trials.
    """
    extended_support: bool = False
    """Rent a version after its end of standard support; Amazon charges an amount per processor and hour for it."""
    dead_man: Annotated[str, Field(pattern=r"^[\w+=,.@:/-]+$")] = DEAD_MAN_ROLE
    """The role (its name or ARN) with which Amazon removes the server after its expiry, even if pgdyno is gone; `none`
    leaves the server without a dead-man switch.
    """
    tls_root: str | None = None
    """Root certificates for the server; None: Amazon's bundle, which pgdyno downloads."""

    @property
    def origin(self) -> str | None:
        """The snapshot or cluster of which the server is a copy; None for an empty server."""
        return self.snapshot or getattr(self, "clone_of", None)

    @property
    def takes_snapshot(self) -> bool:
        return self.restore == "each-trial" and self.origin is None

    @property
    def restore_s(self) -> float:
        return RESTORE_S if self.restore == "each-trial" else 0.0

    def rented_in_words(self) -> str:
        """Return the same text, with the snapshot or cluster of which the server is a copy."""
        origin = "a snapshot of its own" if self.takes_snapshot else self.origin
        restored = "" if origin is None else f", from {origin}, {self.restore.replace('-', ' ')}"
        return f"{super().rented_in_words()}{restored}"

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Add problems with its version and parameters."""
        yield from super().check(name, targets, document)
        where = ("target", name)
        late = extended_year(self.version, datetime.now(UTC).date()) is not None
        if late and not self.extended_support:
            until = STANDARD_UNTIL[self.version.partition(".")[0]]
            message = f"PostgreSQL {self.version} is past its standard support ({until}); Amazon charges each processor"
            hint = "choose a newer version, or pay for it: extended_support = true"
            yield document.problem((*where, "version"), message, hint)
        yield from self.check_parameters((*where, "parameters"), self.parameters, document)
        yield from self.check_service(where, document)
        if self.tls_root is not None and not is_file(expand_home(self.tls_root)):
            yield document.problem((*where, "tls_root"), f"there is no file {self.tls_root}")

    def check_service(self, where: PlanPath, document: Document) -> Iterator[Problem]:
        """Yield problems with what only its service has."""
        raise NotImplementedError

    def check_parameters(self, where: PlanPath, parameters: Mapping[str, str], document: Document) -> Iterator[Problem]:
        for name, value in parameters.items():
            if SETTING_NAME.fullmatch(name) is None:
                yield document.problem((*where, name), "is not the name of a parameter", "remove it")
                continue
            reason = parameter_refusal(self.kind, name.lower())
            if reason is not None:
                yield document.problem((*where, name), f"cannot be set: {reason}", "remove it")
                continue
            try:
                in_own_unit(name, value)
            except ValueError as error:
                yield document.problem((*where, name), str(error))


class RdsTarget(DatabaseTarget):
    """A single instance of RDS for PostgreSQL."""

    kind: Literal["rds"]
    storage: Size = "20GB"
    storage_type: Literal["gp3", "gp2", "io1", "io2"] = "gp3"
    iops: Positive | None = None
    throughput: Positive | None = None
    """MB/s, of gp3."""
    backup_days: Annotated[int, Field(ge=0, le=35)] = 0
    """How many days automatic backups are kept; 0: no backups."""

    def describe(self) -> str:
        storage = f"{self.storage} of {self.storage_type}"
        return f"RDS for PostgreSQL {self.version}, {self.rented_in_words()}, {storage}"

    def check_service(self, where: PlanPath, document: Document) -> Iterator[Problem]:
        size = parse_bytes(self.storage)
        if size < LEAST_STORAGE:
            yield document.problem((*where, "storage"), f"{self.storage} is too small; the minimum is 20GB")
        provisioned = self.storage_type in ("io1", "io2")
        if provisioned and self.iops is None:
            yield document.problem(
                (*where, "iops"), f"is missing: {self.storage_type} has the IOPS that you choose and pay for"
            )
        if self.throughput is not None and self.storage_type != "gp3":
            yield document.problem((*where, "throughput"), "is valid only with gp3", "remove it")
        small = self.storage_type == "gp3" and size < STRIPED_FROM
        for key in ("iops", "throughput"):
            given = getattr(self, key) is not None
            if given and self.storage_type == "gp2":
                yield document.problem((*where, key), "cannot be set for gp2, whose size determines it", "remove it")
            elif given and small:
                message = "gp3 under 400GB has 3,000 IOPS and 125 MB/s, which cannot be changed"
                yield document.problem((*where, key), message, "remove it, or use more storage")


SERVERLESS = "db.serverless"
"""The class of instances whose capacity Amazon changes with the load (Aurora Serverless v2)."""


class Capacity(Model):
    """The range of a serverless instance in Aurora capacity units (ACU), each with about 2 GiB of memory."""

    min: Annotated[float, Field(ge=0, le=256, multiple_of=0.5, strict=False)]
    max: Annotated[float, Field(ge=1, le=256, multiple_of=0.5, strict=False)]


class AuroraTarget(DatabaseTarget):
    """An Aurora PostgreSQL cluster with one instance, its writer."""

    kind: Literal["aurora"]
    instance: Annotated[str, Field(pattern=r"^db\.([a-z0-9-]+\.[a-z0-9]+|serverless)$")]
    """The instance class: `db.r8g.4xlarge`, or `db.serverless` with `capacity`."""
    capacity: Capacity | None = None
    """The capacity units (ACU) of `db.serverless`: `{ min = 8, max = 64 }`. Equal values keep it from changing."""
    cluster_parameters: dict[str, Setting] = {}
    storage_type: Literal["standard", "io-optimized"] = "standard"
    """"standard" is billed for each I/O; "io-optimized" costs more for instance and storage, and nothing for I/O."""
    clone_of: Annotated[str, Field(min_length=1)] | None = None
    """An existing cluster whose storage the new one shares, copied on write; instead of `snapshot`."""
    backup_days: Annotated[int, Field(ge=1, le=35)] = 1

    def describe(self) -> str:
        units = "" if self.capacity is None else f", {self.capacity.min:g} to {self.capacity.max:g} ACU"
        return f"Aurora PostgreSQL {self.version}, {self.rented_in_words()}{units}, {self.storage_type} storage"

    def check_service(self, where: PlanPath, document: Document) -> Iterator[Problem]:
        for name in self.parameters:
            if name.lower() in CLUSTER_LEVEL:
                message = "belongs to the cluster on Aurora, not to the instance"
                yield document.problem((*where, "parameters", name), message, "put it under cluster_parameters")
        yield from self.check_parameters((*where, "cluster_parameters"), self.cluster_parameters, document)
        serverless, capacity = self.instance == SERVERLESS, self.capacity
        if serverless and capacity is None:
            message = f"is missing: {SERVERLESS} has the capacity that the plan allows"
            yield document.problem((*where, "capacity"), message, "such as capacity = { min = 8, max = 64 }")
        elif capacity is not None and not serverless:
            yield document.problem((*where, "capacity"), f"is valid only with {SERVERLESS}", "remove it")
        if capacity is not None and capacity.min > capacity.max:
            yield document.problem((*where, "capacity"), "its minimum is above its maximum", "swap them")
        if serverless and self.instead:
            yield document.problem(
                (*where, "instead"), f"cannot be combined with {SERVERLESS}: the load would differ", "remove it"
            )
        if serverless and self.extended_support:
            why = "for which Amazon counts capacity units instead of processors"
            message = f"cannot be combined with {SERVERLESS}, {why}"
            yield document.problem((*where, "extended_support"), message, "choose a newer version or another class")
        if self.clone_of is not None and self.snapshot is not None:
            yield document.problem((*where, "clone_of"), "excludes snapshot", "remove one of them")
