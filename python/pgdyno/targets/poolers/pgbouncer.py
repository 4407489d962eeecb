"""PgBouncer, as this machine has it."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import TargetError
from pgdyno.plan.targets import MOST_STATEMENTS, Pooler, find_pgbouncer, pgbouncer_version
from pgdyno.targets.home import write_private
from pgdyno.targets.poolers.kind import Place, Program

# connections are logged with every client, and a load with a connection for each transaction makes thousands a second
_DEFAULTS = {"max_client_conn": "10000", "log_connections": "0", "log_disconnections": "0"}
_UNLIMITED = 'ulimit -S -n "$(ulimit -H -n)"; exec "$@"'
"""Each client and each session is a file, of which most systems allow 1,024 unless a program asks for more."""


class PgBouncer:
    """Poolers with `kind = "pgbouncer"`."""

    def find(self, spec: Pooler) -> Program:
        """Return the machine's PgBouncer. Raises TargetError."""
        path = find_pgbouncer()
        if path is None:
            raise TargetError(
                "there is no program pgbouncer on the PATH", hint="install it: apt-get install pgbouncer, on Debian"
            )
        version = pgbouncer_version(path)
        if version is None:
            raise TargetError(f"{path} --version does not print a version of PgBouncer")
        return Program(path, version, spec.may_prepare(version))

    def command(self, spec: Pooler, program: Program, place: Place) -> tuple[list[str], Mapping[str, str]]:
        """Write the configuration into the folder of `place`; return how to start it. Raises TargetError."""
        users = place.folder / "users.txt"
        write_private(users, f'"{place.user}" "{place.password}"\n', place.account)
        file = place.folder / "pgbouncer.ini"
        write_private(file, self._configuration(spec, program, place, str(users)), place.account)
        return ["/bin/sh", "-c", _UNLIMITED, "sh", program.path, str(file)], {}

    def _configuration(self, spec: Pooler, program: Program, place: Place, users: str) -> str:
        is_socket = place.host.startswith("/")
        own = {
            "listen_addr": "" if is_socket else place.host,
            "listen_port": str(place.port),
            "unix_socket_dir": place.host if is_socket else "",
            "auth_type": "scram-sha-256",
            "auth_file": users,
            "stats_users": place.user,
            "pool_mode": spec.mode,
            "default_pool_size": str(spec.pool),
        }
        statements = {MOST_STATEMENTS: "200"} if program.may_prepare else {}
        settings = {**_DEFAULTS, **statements, **spec.settings, **own}
        lines = [f"{name} = {value}" for name, value in settings.items()]
        database = f"{place.dbname} = host={place.server_host} port={place.server_port}"
        return "\n".join(["[databases]", database, "[pgbouncer]", *lines, ""])
