"""The plan's schema of a server over the network."""

import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from pgdyno.errors import Problem
from pgdyno.plan.hosts import SshSpec, check_ssh
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import MOST_INSTANCES, NetworkTarget, PlanPath, TargetSpec
from pgdyno.records.secret_values import masked_dsn

_SECRET = b"*"
"""libpq's marker for parameters that must not be displayed."""


class DsnTarget(NetworkTarget):
    """An existing server, reached over the network."""

    kind: Literal["dsn"]
    dsn: str
    """A libpq connection string or URI, without a password."""
    other_dsns: Annotated[list[str], Field(max_length=MOST_INSTANCES - 1)] = []
    """Further servers like it; each is an instance of the target, and repeats take turns at them."""
    load_dsn: str | None = None
    """The address of a connection pooler before the server, to which only the clients of the load connect."""
    password_env: Annotated[str, Field(min_length=1)] | None = None
    """The environment variable with the password; if not set, PGPASSWORD, the password file or the service file."""
    ssh: SshSpec | None = None
    """The SSH address of its host for the probe; if not set, sampling uses SQL only."""
    restart: str | None = None
    """The shell command that restarts it, on the host of `ssh` or else here, for a search with --allow-restart.

    Empty: a search may change only settings that need a reload.
    """

    summary: ClassVar[str] = "reached over the network"

    _has_password_file: bool = PrivateAttr(default=False)

    @classmethod
    def with_password_file(cls, dsn: str, **more: object) -> Self:
        """Return a server whose password is in the file that `dsn` names, whatever PGPASSWORD says: pgdyno made it."""
        found = cls.model_validate({"kind": "dsn", "dsn": dsn, **more})
        found._has_password_file = True
        return found

    @property
    def ignores_pgpassword(self) -> bool:
        """Whether its password is only in the file that its connection string names."""
        return self._has_password_file

    @property
    def restart_command(self) -> str | None:
        return self.restart

    @property
    def instance_count(self) -> int:
        return 1 + len(self.other_dsns)

    @property
    def is_pooled(self) -> bool:
        return self.load_dsn is not None

    def one_instance(self, number: int) -> Self:
        """Return the target with one of its servers; the probe's host is that of the first."""
        update = {"dsn": [self.dsn, *self.other_dsns][number - 1], "other_dsns": []}
        return self.model_copy(update=update if number == 1 else update | {"ssh": None})

    @property
    def probed_host(self) -> SshSpec | None:
        """Return how the probe reaches the server's host."""
        return self.ssh

    def describe(self) -> str:
        over_ssh = "" if self.ssh is None else f", its host {self.ssh.host} over SSH"
        count = self.instance_count
        instances = "" if count == 1 else f", {count} instances"
        pooled = "" if self.load_dsn is None else f", its clients through {masked_dsn(self.load_dsn)}"
        return f"over the network, {masked_dsn(self.dsn)}, database {self.database}{over_ssh}{instances}{pooled}"

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Yield the commands that the plan makes pgdyno execute: those in an SSH config file."""
        if self.ssh is not None and self.ssh.config is not None:
            yield ("ssh", "config"), f"commands that {self.ssh.config} names (ProxyCommand, Match exec)"
        if self.restart:
            where = "" if self.ssh is None else f"on {self.ssh.host}, over SSH: "
            yield ("restart",), f"{where}/bin/sh -c {shlex.quote(self.restart)}"

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check its address, and that no other target uses the same database."""
        yield from _address(("target", name), self, document)
        for number in range(2, self.instance_count + 1):
            key = "other_dsns"
            yield from _address(("target", name), self.one_instance(number), document, (key, number - 2))
        if self.load_dsn is not None:
            pooled = self.model_copy(update={"dsn": self.load_dsn, "password_env": None})
            yield from _address(("target", name), pooled, document, ("load_dsn",))
            if self.other_dsns:
                message = "cannot be combined with other_dsns: it leads to one server"
                yield document.problem(("target", name, "load_dsn"), message, "remove one of them")
        if self.restart is not None and self.other_dsns:
            message = "cannot be combined with other_dsns: the command restarts one server"
            yield document.problem(("target", name, "restart"), message, "remove one of them")
        if self.ssh is not None:
            yield from check_ssh(("target", name, "ssh"), self.ssh, document)
        own = _places(self)
        # an existing database stays as it is: the two are one server, compared with itself
        earlier = takewhile(lambda other: other != name, targets)
        same = next((other for other in earlier if set(_places(targets[other])) & set(own)), None)
        if same is not None and not (self.allow_existing and getattr(targets[same], "allow_existing", False)):
            message = f"target {same} has the same database on the same server"
            yield document.problem(("target", name), message, "give each a database of its own")
        if len(set(own)) < len(own):
            message = "name the same server twice"
            yield document.problem(("target", name, "other_dsns"), message, "an instance is a server of its own")


def _places(spec: TargetSpec) -> list[tuple[str, str]]:
    return [(each, spec.database) for each in (spec.dsn, *spec.other_dsns)] if isinstance(spec, DsnTarget) else []


def _address(path: PlanPath, target: DsnTarget, document: Document, key: PlanPath = ("dsn",)) -> Iterator[Problem]:
    # loading libpq takes time, and most plans name no server over the network
    import psycopg
    from psycopg import pq
    from psycopg.conninfo import conninfo_to_dict

    variable = target.password_env
    if variable is not None and variable not in os.environ:
        message = f"the environment has no variable {variable}"
        yield document.problem((*path, "password_env"), message, "set it before you start pgdyno")
    try:
        parameters = conninfo_to_dict(target.dsn)
    except psycopg.ProgrammingError as error:
        # libpq quotes what it could not parse, which may be part of a password or of options
        hidden = any(each in target.dsn.lower() for each in ("password", "@", "options"))
        said = "" if hidden else f": {str(error).strip()}"
        hint = 'such as "host=db.example.net user=bench" or "postgresql://bench@db.example.net"'
        yield document.problem((*path, *key), f"is not a connection string{said}", hint)
        return
    known = {option.keyword.decode(): option for option in pq.Conninfo.get_defaults()}
    for name in parameters:
        option = known[name]
        if option.dispchar == _SECRET:
            message = f"{name} is not allowed here: the results would contain it"
            hint = "leave it to PGPASSWORD, the password file or the service file, or name a variable with password_env"
            yield document.problem((*path, *key), message, hint if name == "password" else "remove it")
        elif option.envvar is None:
            message = f"{name} cannot be passed to the engine: libpq has no environment variable for it"
            yield document.problem((*path, *key), message, f"remove {name}")
