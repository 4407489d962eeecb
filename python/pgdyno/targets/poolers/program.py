"""A pooler's program, and how it is configured and started: PgBouncer, or a command of the user's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan.targets import MOST_STATEMENTS, Pooler, find_pgbouncer, pgbouncer_version
from pgdyno.targets.home import write_private
from pgdyno.targets.poolers.load_path import UNKNOWN
from pgdyno.targets.server_user import Account

# connections are logged with every client, and a load with a connection for each transaction makes thousands a second
_DEFAULTS = {"max_client_conn": "10000", "log_connections": "0", "log_disconnections": "0"}
_UNLIMITED = 'ulimit -S -n "$(ulimit -H -n)"; exec "$@"'
"""Each client and each session is a file, of which most systems allow 1,024 unless a program asks for more."""


@dataclass(frozen=True, slots=True)
class Program:
    """A pooler that can be started."""

    path: str
    """A program, or a shell command."""
    name: str
    """With its version, if it is known: `PgBouncer 1.18.0`."""
    may_prepare: bool
    """Whether it keeps the prepared statements of its clients apart."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pooler listens, and where it finds its server."""

    folder: Path
    """Its private folder, which it is started with and which nobody else can read."""
    account: Account
    host: str
    """The folder of its socket, or an address."""
    port: int
    server_host: str
    server_port: int
    user: str
    password: str = field(repr=False)
    dbname: str


def find_program(spec: Pooler) -> Program:
    """Return the pooler of `spec`. Raises TargetError if this machine lacks it."""
    if spec.command is not None:
        # pgdrive finds out whether it keeps prepared statements apart
        return Program(spec.command, UNKNOWN, may_prepare=True)
    path = find_pgbouncer()
    if path is None:
        raise TargetError(
            "there is no program pgbouncer on the PATH", hint="install it: apt-get install pgbouncer, on Debian"
        )
    version = pgbouncer_version(path)
    if version is None:
        raise TargetError(f"{path} --version does not print a version of PgBouncer")
    return Program(path, version, spec.may_prepare(version))


def configure(spec: Pooler, program: Program, place: Place) -> tuple[list[str], Mapping[str, str]]:
    """Write its configuration; return its command line and environment variables. Raises TargetError.

    For a command, libpq's variables say where the server is, others where to listen.
    """
    if spec.command is not None:
        return ["/bin/sh", "-c", program.path], {
            "PGHOST": place.server_host,
            "PGPORT": str(place.server_port),
            "PGUSER": place.user,
            "PGPASSWORD": place.password,
            "PGDATABASE": place.dbname,
            "PGDYNO_POOLER_HOST": place.host,
            "PGDYNO_POOLER_PORT": str(place.port),
            "PGDYNO_POOLER_MODE": spec.mode,
            "PGDYNO_POOLER_POOL": str(spec.pool),
            "PGDYNO_POOLER_FOLDER": str(place.folder),
        }
    users, file = place.folder / "users.txt", place.folder / "pgbouncer.ini"
    write_private(users, f'"{place.user}" "{place.password}"\n', place.account)
    is_socket = place.host.startswith("/")
    own = {
        "listen_addr": "" if is_socket else place.host,
        "listen_port": str(place.port),
        "unix_socket_dir": place.host if is_socket else "",
        "auth_type": "scram-sha-256",
        "auth_file": str(users),
        "stats_users": place.user,
        "pool_mode": spec.mode,
        "default_pool_size": str(spec.pool),
    }
    statements = {MOST_STATEMENTS: "200"} if program.may_prepare else {}
    lines = [f"{name} = {value}" for name, value in {**_DEFAULTS, **statements, **spec.settings, **own}.items()]
    database = f"{place.dbname} = host={place.server_host} port={place.server_port}"
    write_private(file, "\n".join(["[databases]", database, "[pgbouncer]", *lines, ""]), place.account)
    return ["/bin/sh", "-c", _UNLIMITED, "sh", program.path, str(file)], {}
