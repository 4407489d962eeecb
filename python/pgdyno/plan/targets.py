"""The plan's targets: servers that pgdyno makes itself, and those that are reached over the network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from pgdyno.plan.aws_targets import AuroraTarget, RdsTarget
from pgdyno.plan.base import Model, Positive, Setting, Size
from pgdyno.plan.ec2_target import Ec2Generator, Ec2Target
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.ssh_words import SshSpec
from pgdyno.plan.version_words import Version


class Environment(Model):
    """Where a server's files are, and what it sees of the system."""

    data: str | None = None
    """Folder in which a folder for the cluster is made, or "tmpfs"; None: pgdyno's home."""
    tmpfs_size: Size | None = None
    """Memory that a cluster in tmpfs may take."""
    wal: str | None = None
    """Folder in which a folder for the WAL is made; None: with the cluster."""
    variables: dict[str, Setting] = Field(default_factory=dict)
    """Environment variables of the server."""


class Replicas(Model):
    """Streaming standbys of a server."""

    count: Positive
    synchronous: Literal["off", "remote_write", "on", "remote_apply"] = "off"
    """How far a commit waits for all of them: synchronous_commit; `off`: not at all."""


class ServerSpec(Model):
    """What every server that pgdyno starts itself has."""

    settings: dict[str, Setting] = Field(default_factory=dict)
    """Lines of postgresql.conf."""
    initdb: list[str] = Field(default_factory=list)
    """Further arguments of initdb."""
    keep_data: bool = False
    """Keep the cluster with its loaded data in the cache for the next run."""
    connect: Literal["unix", "tcp"] = "unix"
    environment: Environment = Field(default_factory=Environment)
    replicas: Replicas | None = None


class EmbeddedTarget(ServerSpec):
    """A PostgreSQL that pgdyno fetches."""

    kind: Literal["embedded"]
    version: Version


class LocalTarget(ServerSpec):
    """An installation on this machine; pgdyno makes a cluster of its own with it."""

    kind: Literal["local"]
    bin: str | None = None
    """Folder with `initdb` and `postgres`; None asks pg_config on the PATH."""


class BuildTarget(ServerSpec):
    """A source tree that pgdyno builds; it makes a cluster of its own with that."""

    kind: Literal["build"]
    source: str
    """A git checkout or an unpacked archive of PostgreSQL's source."""
    configure: list[str] = Field(default_factory=list)
    """Arguments of configure, or of meson setup."""
    build_system: Literal["configure", "meson"] | None = None
    """What builds it; None: configure where there is one, else meson."""
    cflags: str | None = None
    """CFLAGS; None leaves them to configure."""
    build_variables: dict[str, Setting] = Field(default_factory=dict)
    """Further environment variables of the build."""


class DsnTarget(NetworkTarget):
    """A server that is there already and is reached over the network."""

    kind: Literal["dsn"]
    dsn: str
    """libpq connection string or URI, without a password."""
    password_env: Annotated[str, Field(min_length=1)] | None = None
    """Environment variable with the password; None: PGPASSWORD, the password file or the service file."""
    ssh: SshSpec | None = None
    """How to get to its host, for the probe; None: it is sampled over SQL alone."""


def _generator(value: object) -> object:
    if value is None or value == "here":
        return None
    if isinstance(value, (dict, Ec2Generator)):
        return value
    raise ValueError('write "here", or a table with kind = "ec2" and an instance')


OwnTarget = EmbeddedTarget | LocalTarget | BuildTarget
"""Targets whose servers pgdyno makes, starts and stops itself."""
TargetSpec = Annotated[OwnTarget | DsnTarget | Ec2Target | RdsTarget | AuroraTarget, Field(discriminator="kind")]
GeneratorSpec = Annotated[
    Ec2Generator | None, BeforeValidator(_generator, json_schema_input_type=Literal["here"] | Ec2Generator)
]
