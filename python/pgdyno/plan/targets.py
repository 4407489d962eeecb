"""The common schema of all kinds of targets. Each kind has its own class in its package in `pgdyno.targets`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pgdyno.errors import InvalidValueError, Problem
from pgdyno.mounts import expand_home, is_file, is_folder
from pgdyno.plan.plan_document import Document
from pgdyno.plan.values import Model, Positive, Setting, Size
from pgdyno.programs import ask
from pgdyno.units import format_bytes, parse_bytes, quantity

if TYPE_CHECKING:
    from pgdyno.plan.hosts import SshSpec


PlanPath = tuple[str | int, ...]
"""A path in a plan file."""
MOST_INSTANCES = 100
Instances = Annotated[int, Field(ge=1, le=MOST_INSTANCES)]
_LOADER = re.compile(r"LD_\w+|PATH|BASH_ENV|ENV|GCONV_PATH|OPENSSL_\w+|PERL\w+|PYTHON\w+")
"""Environment variables that choose the code that a program runs."""


class TargetSpec(Model):
    """A target in a plan: the half of a kind that plans know.

    The other half, how pgdyno obtains its servers, is `pgdyno.targets.kind.TargetKind`.
    """

    summary: ClassVar[str] = ""
    """The kind in a few words, for errors that list all kinds: `downloaded by pgdyno`."""

    if TYPE_CHECKING:
        # each kind declares these fields itself, because manifests keep their order
        kind: str
        settings: dict[str, Setting]
        session_settings: dict[str, Setting]

    @property
    def major(self) -> int | None:
        """PostgreSQL's major version; None if only the server knows it."""
        return None

    @property
    def probed_host(self) -> SshSpec | None:
        """The SSH access to the server's host for the probe; None if it is this machine or cannot be reached."""
        return None

    @property
    def restart_command(self) -> str | None:
        """The command that restarts a server that pgdyno did not start, empty if only a reload is possible; None if
        pgdyno leaves the server's configuration alone.
        """
        return None

    @property
    def is_pooled(self) -> bool:
        """Whether the clients of the load go through a connection pooler."""
        return False

    @property
    def instance_count(self) -> int:
        """The number of separate servers that the target consists of."""
        return 1

    def one_instance(self, number: int) -> Self:
        """Return the target with instance `number`, from 1, as its only server."""
        del number
        return self

    def describe(self) -> str:
        """Describe the target: `PostgreSQL 18, embedded, data in tmpfs, 2 replicas`."""
        raise NotImplementedError

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yield problems of this target, called `name` among `targets`, as far as the plan alone shows them.

        Settings are checked for all kinds together.
        """
        raise NotImplementedError

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Return the code that it runs on this machine: the key and a description."""
        yield from ()

    def with_version(self, version: str) -> Self:
        """Return the target with the exact version that it had, for a resumed run."""
        del version
        return self


class SeveralInstances(TargetSpec):
    """A target with the key `instances`: its servers differ in nothing but their number."""

    if TYPE_CHECKING:
        # declared by each kind itself, see TargetSpec
        instances: int

    @property
    def instance_count(self) -> int:
        return self.instances

    def one_instance(self, number: int) -> Self:
        del number
        return self.model_copy(update={"instances": 1})


class Environment(Model):
    """Location of a server's files, and its environment."""

    data: str | None = None
    """Parent folder of the cluster, or "tmpfs"; None: pgdyno's home."""
    tmpfs_size: Size | None = None
    """Memory for a cluster in tmpfs."""
    wal: str | None = None
    """Parent folder of the WAL; None: with the cluster."""
    variables: dict[str, Setting] = {}
    """Environment variables of the server."""


class Replicas(Model):
    """Streaming standbys of a server."""

    count: Positive
    synchronous: Literal["off", "remote_write", "on", "remote_apply"] = "off"
    """How long a commit waits for all of them: synchronous_commit; `off`: not at all."""


class SubscriberSpec(Model):
    """A server that subscribes to all tables of another one."""

    settings: dict[str, Setting] = {}
    """Lines of its postgresql.conf in addition to those of the target."""
    options: dict[Literal["binary", "streaming", "synchronous_commit", "two_phase"], Setting] = {}
    """Parameters of the subscription."""


DISCARD = {"archive_mode": "on", "archive_command": "true"}
"""Settings of a server with an archive between its trials."""


class Archive(Model):
    """Where finished WAL files go during a trial."""

    command: str | None = None
    """The server's archive_command."""
    folder: str | None = None
    """A folder on this host, in which they are removed after the trial; None: they are read only."""
    rate: Size | None = None
    """How much it takes per second: "5MB"."""

    @model_validator(mode="after")
    def _has_one_place(self) -> Archive:
        if (self.command is None) == (self.folder is None and self.rate is None):
            raise InvalidValueError("needs a command, or a folder or rate", 'such as archive = { rate = "5MB" }')
        return self


PGBOUNCER = "pgbouncer"
MOST_STATEMENTS = "max_prepared_statements"
_VERSION = re.compile(r"PgBouncer \d+\.\d+(\.\d+)?")
_KEEPS_STATEMENTS = (1, 21)
"""The first version that gives prepared statements names of its own."""
_PLACES_OF_PROGRAMS = ("/usr/sbin", "/usr/local/sbin")
_OF_PGDYNO = re.compile(
    r"listen_\w+|unix_socket_\w+|auth_\w+|admin_users|stats_users|logfile|pidfile|user|syslog\w*|pool_mode"
    r"|default_pool_size|conffile|job_name|service_name"
)


class Pooler(Model):
    """A connection pooler that pgdyno starts beside the server; only clients of the load go through it."""

    kind: Literal["pgbouncer", "command"]
    mode: Literal["session", "transaction", "statement"] = "transaction"
    """What a client keeps a session of the server for."""
    pool: Positive = 20
    """Sessions at the server."""
    settings: dict[str, Setting] = {}
    """Lines of pgbouncer.ini."""
    command: str | None = None
    """The shell command that starts any other pooler; environment variables tell it where."""

    @model_validator(mode="after")
    def _complete(self) -> Pooler:
        if (self.kind == "command") != (self.command is not None):
            remedy = 'such as { kind = "command", command = "odyssey odyssey.conf" }'
            raise InvalidValueError('command belongs to kind = "command", which needs it', remedy)
        if self.kind == "command" and self.settings:
            raise InvalidValueError("settings are those of PgBouncer", "write them into the pooler's own file")
        return self

    def describe(self) -> str:
        name = "PgBouncer" if self.kind == PGBOUNCER else f"a pooler ({self.command})"
        return f"through {name}, {self.mode} pooling, pool of {self.pool}"

    def may_prepare(self, version: str) -> bool:
        """Return whether PgBouncer `version` keeps the prepared statements of its clients apart."""
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        return numbers >= _KEEPS_STATEMENTS and self.settings.get(MOST_STATEMENTS) != "0"

    def check(self, path: PlanPath, document: Document) -> Iterator[Problem]:
        """Yield settings that pgdyno chooses itself, and a PgBouncer that this machine lacks."""
        for name, value in self.settings.items():
            if _OF_PGDYNO.fullmatch(name) or not re.fullmatch(r"[a-z_]+", name) or "\n" in value:
                message = "cannot be set: pgdyno chooses it, or it is not a setting of PgBouncer"
                yield document.problem((*path, "settings", name), message, "remove it; mode and pool are keys")
        if self.kind == PGBOUNCER and find_pgbouncer() is None:
            message = "there is no program pgbouncer on the PATH"
            yield document.problem((*path, "kind"), message, "install it: apt-get install pgbouncer, on Debian")


def find_pgbouncer() -> str | None:
    """Return the path of PgBouncer, which distributions install for administrators; None without it."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES_OF_PROGRAMS])
    return shutil.which(PGBOUNCER, path=path)


def pgbouncer_version(path: str) -> str | None:
    """Return what the program prints of its version, `PgBouncer 1.18.0`; None if it is not PgBouncer."""
    try:
        found = _VERSION.match(ask([path, "--version"], check=False).stdout)
    except (OSError, subprocess.SubprocessError):
        return None
    return found[0] if found is not None else None


class Extension(Model):
    """An extension that pgdyno builds for a target's server, with its Makefile of PGXS."""

    source: str
    """Its source folder."""
    commit: str | None = None
    """A commit, branch or tag to build; None: the files that are there."""
    patches: list[str] = []
    """Patches to apply first, in this order."""
    make: list[str] = []
    """Further arguments of make."""
    create: bool = True
    """Whether every database gets it (CREATE EXTENSION), unless it is only a library."""

    def describe(self) -> str:
        return ", ".join([f"with {self.source}", *described_state(self.commit, self.patches)])


def described_state(commit: str | None, patches: Sequence[str]) -> list[str]:
    """Return words for what a source tree is changed to."""
    return [*([f"commit {commit}"] if commit else []), *(Path(each).name for each in patches)]


def check_sources(
    path: PlanPath, source: str, commit: str | None, patches: Sequence[str], files: Sequence[str], document: Document
) -> Iterator[Problem]:
    """Yield a source folder without any of `files`, and patches that do not exist."""
    folder = expand_home(source)
    if not is_folder(folder):
        yield document.problem((*path, "source"), f"there is no folder {folder}")
    elif commit is None and not any(is_file(folder / name) for name in files):
        message = (
            f"there is neither {' nor '.join(files)} in {folder}"
            if len(files) > 1
            else f"there is no {files[0]} in {folder}"
        )
        yield document.problem((*path, "source"), message, "name the top folder of the source")
    for place, patch in enumerate(patches):
        if not is_file(expand_home(patch)):
            yield document.problem((*path, "patches", place), f"there is no file {expand_home(patch)}")


NO_CHECKSUMS = "--no-data-checksums"
"""An option of initdb, for a default that pgdyno changes; before 18, pgdyno carries it out itself."""


class OwnTarget(SeveralInstances):
    """The common schema of servers that pgdyno starts."""

    settings: dict[str, Setting] = {}
    """Lines of postgresql.conf."""
    session_settings: dict[str, Setting] = {}
    """Settings of each connection of the load."""
    initdb: list[str] = []
    """Additional arguments of initdb."""
    keep_data: bool = False
    """Keep the cluster and its data in the cache for the next run."""
    connect: Literal["unix", "tcp"] = "unix"
    environment: Environment = Field(default_factory=Environment)
    replicas: Replicas | None = None
    archive: Archive | None = None
    subscriber: SubscriberSpec | None = None
    instances: Instances = 1
    """Number of separate clusters; repeats take turns at them."""
    pooler: Pooler | None = None
    extensions: list[Extension] = []
    """Extensions that pgdyno builds for the server."""

    @property
    def is_pooled(self) -> bool:
        return self.pooler is not None

    @model_validator(mode="after")
    def _archives(self) -> OwnTarget:
        if self.archive is not None:
            for name, value in DISCARD.items():
                if self.settings.get(name, value) != value:
                    raise InvalidValueError(f"settings.{name} cannot be set beside archive", "remove it")
            self.settings.update(DISCARD)
        if self.subscriber is not None:
            if self.replicas is not None or self.keep_data:
                key = "keep_data" if self.replicas is None else "replicas"
                raise InvalidValueError(f"subscriber cannot be combined with {key}", "remove one of them")
            if self.settings.setdefault("wal_level", "logical") != "logical":
                raise InvalidValueError("a subscriber needs wal_level = logical", "remove settings.wal_level")
        return self

    @property
    def follower_count(self) -> int:
        """The number of further servers with a copy of the data."""
        return self.replicas.count if self.replicas is not None else int(self.subscriber is not None)

    def programs(self) -> str:
        """The source of its programs, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        where, parts = self.environment, [self.programs()]
        parts += [f"{key} in {place}" for key, place in (("data", where.data), ("WAL", where.wal)) if place is not None]
        if self.replicas is not None:
            count, synchronous = self.replicas.count, self.replicas.synchronous
            waits = "" if synchronous == "off" else f", commits wait for {synchronous}"
            parts.append(f"{quantity(count, 'replica')}{waits}")
        if self.archive is not None:
            parts.append(f"an archive of {self.archive.rate} per second" if self.archive.rate else "an archive")
        if self.subscriber is not None:
            parts.append("a logical subscriber")
        if self.instances > 1:
            parts.append(f"{self.instances} instances")
        parts += [each.describe() for each in self.extensions]
        if self.pooler is not None:
            parts.append(self.pooler.describe())
        return ", ".join(parts)

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check folders, variables and replicas."""
        del targets
        # imported here because it imports this module

        yield from check_own(("target", name), self, document)

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Return arguments of initdb and variables that choose the code to run."""
        if self.initdb:
            yield ("initdb",), shlex.join(["initdb", *self.initdb])
        for place, each in enumerate(self.extensions):
            words = shlex.join(["make", *each.make])
            yield (
                ("extensions", place),
                f"builds the extension {each.describe()[5:]} with {words}, for the server to load",
            )
        if self.archive is not None and self.archive.command is not None:
            yield ("archive", "command"), self.archive.command
        if self.pooler is not None and self.pooler.command is not None:
            yield ("pooler", "command"), f"/bin/sh -c {shlex.quote(self.pooler.command)}"
        for name, value in self.environment.variables.items():
            if _LOADER.fullmatch(name):
                yield ("environment", "variables", name), f"the server starts with {name}={value}"


DATABASE = "pgdyno"
"""The default database of workloads."""
LONGEST_IDENTIFIER = 63
"""Bytes of an identifier in a default build of PostgreSQL."""


class NetworkTarget(TargetSpec):
    """A server over the network: pgdyno uses one database on it, but has no access to its files and process."""

    setting_remedy: ClassVar[str] = "remove it"
    """The remedy for a setting that a database cannot have."""

    database: Annotated[str, Field(min_length=1)] = DATABASE
    """Database of the workload; created if it does not exist."""
    allow_existing: bool = False
    """Use an existing `database` that pgdyno did not create."""
    settings: dict[str, Setting] = {}
    """Settings of the database (ALTER DATABASE … SET)."""
    session_settings: dict[str, Setting] = {}
    """Settings of each connection of the load; nothing on the server changes."""

    @model_validator(mode="after")
    def _named_database(self) -> NetworkTarget:
        if self.allow_existing and "database" not in self.model_fields_set:
            raise InvalidValueError("allow_existing needs the name of the database", "add database")
        if len(self.database.encode()) > LONGEST_IDENTIFIER - len("_template"):
            raise InvalidValueError(
                "the database's name is too long", f"{LONGEST_IDENTIFIER - len('_template')} bytes at most"
            )
        return self


_TAG = re.compile(r"[\w .:/=+@-]+")
_TAG_KEYS, _TAG_VALUES = 128, 256
"""The longest key and value of a tag at Amazon; other providers take as much."""
_MOST_TAGS = 45
"""Amazon's 50 for a resource, without pgdyno's own."""


def _tags(found: dict[str, str]) -> dict[str, str]:
    if len(found) > _MOST_TAGS:
        raise InvalidValueError(f"has {len(found)} tags", f"remove some: {_MOST_TAGS} at most")
    for key, value in found.items():
        if key.lower().startswith(("aws:", "pgdyno:")) or key == "Name":
            raise InvalidValueError(f"the tag {key} is reserved", "choose another key")
        if _TAG.fullmatch(key) is None or len(key) > _TAG_KEYS or len(value) > _TAG_VALUES:
            raise InvalidValueError(
                f"the tag {key!r} is not valid",
                f"use letters, digits, spaces and _.:/=+-@, at most {_TAG_KEYS} in a key and {_TAG_VALUES} in a value",
            )
        if value and _TAG.fullmatch(value) is None:
            raise InvalidValueError(
                f"the value of the tag {key} is not valid", "use letters, digits, spaces and _.:/=+-@"
            )
    return found


class CloudSpec(Model):
    """What all rented resources of a plan have in common."""

    tags: Annotated[dict[str, str], AfterValidator(_tags)] = {}
    """Tags of every resource in addition to pgdyno's own: `{ team = "storage", "cost-centre" = "4711" }`."""
    placement: Literal["cluster"] | None = None
    """`cluster`: put all hosts close together in one zone; None: Amazon chooses."""


class RentedTarget(NetworkTarget, SeveralInstances):
    """A server that a provider creates for the run and removes after it."""

    provider: ClassVar[str]
    """The provider's name in `pgdyno.registry.PROVIDERS`."""

    instances: Instances = 1
    """Number of separate servers; repeats take turns at them."""

    @property
    def takes_snapshot(self) -> bool:
        """Whether pgdyno takes a snapshot of the loaded server, and restores the server from it before every trial."""
        return False

    @property
    def restore_s(self) -> float:
        """An upper estimate of the seconds for which a restore delays each trial; 0 without restores."""
        return 0.0

    def family_and_size(self) -> tuple[str, float] | None:
        """Return the family of its type and the rank of its size there; None if the size is not known by its name."""
        return None

    def times(self) -> str:
        """Return `, 3 instances` for a description, empty for one."""
        return f", {self.instances} instances" if self.instances > 1 else ""


class RentedHosts(Model):
    """Hosts of a provider that generate the load: the table `generator`."""

    provider: ClassVar[str]

    if TYPE_CHECKING:
        kind: str
        count: int
        instance: str

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yield conflicts with `targets` and settings that the provider would refuse."""
        raise NotImplementedError


PROGRAMS = ("initdb", "postgres")
TMPFS = "tmpfs"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Where = tuple[str | int, ...]


def check_own(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    """Yield everything of `target` that this machine cannot provide."""
    yield from _environment((*path, "environment"), target, document)
    yield from _replicas(path, target, document)
    folder = target.archive.folder if target.archive is not None else None
    if folder is not None and not is_folder(expand_home(folder)):
        yield document.problem((*path, "archive", "folder"), f"folder {folder} does not exist", "create it")
    if target.pooler is not None:
        yield from target.pooler.check((*path, "pooler"), document)
    if target.extensions and target.kind == "embedded":
        message = "cannot be built: downloaded servers have no headers"
        remedy = 'use kind = "local" with installed headers, or kind = "build"'
        yield document.problem((*path, "extensions"), message, remedy)
    for place, each in enumerate(target.extensions):
        at = (*path, "extensions", place)
        yield from check_sources(at, each.source, each.commit, each.patches, ["Makefile"], document)
    if target.instances > 1 and target.keep_data:
        message = "cannot be combined with keep_data: instances must be new clusters"
        yield document.problem((*path, "instances"), message, "remove one of them")


def check_variables(path: _Where, variables: Mapping[str, str], document: Document) -> Iterator[Problem]:
    """Yield invalid names of environment variables."""
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None or "\0" in value:
            yield document.problem(
                (*path, name), "is not a valid name of an environment variable", "use letters, digits and _"
            )


def _environment(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    for key, folder in (("data", wanted.data), ("wal", wanted.wal)):
        if folder is None or (key == "data" and folder == TMPFS):
            continue
        if target.keep_data:
            message = "cannot be combined with keep_data: pgdyno removes the folder after the run"
            yield document.problem((*path, key), message, "remove one of them")
        if not expand_home(folder).is_absolute():
            yield document.problem((*path, key), f"{folder} is not an absolute path", 'such as "/mnt/nvme"')
        elif not is_folder(expand_home(folder)):
            yield document.problem(
                (*path, key), f"folder {folder} does not exist", "create it, or mount its file system"
            )
    yield from _tmpfs(path, target, document)
    yield from check_variables((*path, "variables"), wanted.variables, document)
    for name in wanted.variables:
        if name.startswith("PG"):
            message = "cannot be given: the server would parse it as an option of its own"
            yield document.problem((*path, "variables", name), message, "use the target's settings")


def _tmpfs(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    wanted = target.environment
    if wanted.data != TMPFS:
        if wanted.tmpfs_size is not None:
            yield document.problem((*path, "tmpfs_size"), 'is valid only with data = "tmpfs"', "remove it")
        return
    if target.keep_data:
        yield document.problem(
            (*path, "data"), "cannot be combined with keep_data: memory is not persistent", "remove one of them"
        )
    if wanted.tmpfs_size is not None:
        asked, memory = parse_bytes(wanted.tmpfs_size), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if asked > memory:
            message = f"{wanted.tmpfs_size} exceed this machine's memory, {format_bytes(memory)}"
            yield document.problem((*path, "tmpfs_size"), message)


def _replicas(path: _Where, target: OwnTarget, document: Document) -> Iterator[Problem]:
    if target.replicas is None:
        return
    settings = {name.lower(): value for name, value in target.settings.items()}
    for name in ("synchronous_standby_names", "primary_conninfo", "primary_slot_name"):
        if name in settings:
            yield document.problem(
                (*path, "settings", name), "cannot be set: pgdyno sets it for the replicas", "remove it"
            )
    if settings.get("wal_level", "replica").lower() not in ("replica", "logical"):
        yield document.problem((*path, "settings", "wal_level"), "replicas need replica or logical", "remove it")


VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,2}", re.ASCII)


def _version(value: object) -> object:
    # `version = 18` and `version = 18.6` are common; 18.10 would lose its zero
    if isinstance(value, float):
        raise ValueError(f'write the version as text: version = "{value}" (as a number, 18.10 would become 18.1)')
    return str(value) if isinstance(value, int) else value


def _version_form(text: str) -> str:
    if VERSION.fullmatch(text) is None:
        raise InvalidValueError(
            f"{text!r} is not a PostgreSQL version", 'write a major ("18") or an exact one ("18.6")'
        )
    return text


Version = Annotated[str, BeforeValidator(_version, json_schema_input_type=str | int), AfterValidator(_version_form)]
