"""A real PostgreSQL with TLS at the addresses of simulated servers of RDS and Aurora, and real hosts next to it."""

from pathlib import Path

from psycopg import sql

from tests.aws.ec2_hosts import Ec2Hosts
from tests.postgres.tls_server import TlsServer

DATABASES = ("pgdyno", "pgdyno_template")


class PostgresHosts(Ec2Hosts):
    """Runs one real server for one simulated database at a time: a new one is empty or has the data of its snapshot."""

    def __init__(self, server: TlsServer, folder: Path) -> None:
        super().__init__(server.installation, folder)
        self.port = server.port
        self._server = server
        self.origins: list[str | None] = []
        """The snapshot of every server that was created, or None."""
        self.copies: dict[str, tuple[str, str | None]] = {}
        """The database and its comment of each snapshot with data, by the snapshot's name."""
        with server.connect() as connection:
            connection.execute("DROP ROLE IF EXISTS rds_superuser")
            connection.execute("CREATE ROLE rds_superuser")
            # as RDS has it
            connection.execute("ALTER SYSTEM SET log_line_prefix = '%t:%r:%u@%d:[%p]:'")
            connection.execute("ALTER SYSTEM SET log_timezone = 'UTC'")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("GRANT pg_checkpoint, pg_monitor TO rds_superuser")

    def made(self, name: str, user: str, password: str | None, origin: str | None, parameters: dict[str, str]) -> None:
        self.origins.append(origin)
        self.removed(name)
        with self._server.connect() as connection:
            role = sql.Identifier(user)
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [user]).fetchone() is None:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB IN ROLE rds_superuser").format(role))
        if origin in self.copies:
            self._copy(*self.copies[origin], DATABASES[0], user)
        self.configured(name, user, parameters)
        if password is not None:
            self.changed(name, user, password)

    def configured(self, name: str, user: str, parameters: dict[str, str]) -> None:
        del name
        with self._server.connect() as connection:
            for each, value in parameters.items():
                # other servers on this one are not to have them
                statement = sql.SQL("ALTER ROLE {} SET {} = {}")
                connection.execute(statement.format(sql.Identifier(user), sql.Identifier(each), sql.Literal(value)))

    def changed(self, name: str, user: str, password: str) -> None:
        del name
        with self._server.connect() as connection:
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(statement.format(sql.Identifier(user), sql.Literal(password)))

    def log(self) -> str:
        return (self._server.folder / "log").read_text()

    def removed(self, name: str) -> None:
        del name
        with self._server.connect() as connection:
            for each in DATABASES:
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(each)))
            if self.copies:
                # it owns what is in the snapshots
                connection.execute("ALTER ROLE pgdyno RESET ALL")
            else:
                connection.execute("DROP ROLE IF EXISTS pgdyno")

    def copied(self, name: str, snapshot: str) -> None:
        del name
        with self._server.connect() as connection:
            asked = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
            found = connection.execute(asked, [DATABASES[0]]).fetchone()
        if found is not None:
            self._copy(DATABASES[0], found[0], snapshot, "pgdyno")
            self.copies[snapshot] = (snapshot, found[0])

    def copy_removed(self, snapshot: str) -> None:
        if self.copies.pop(snapshot, None) is not None:
            with self._server.connect() as connection:
                connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(snapshot)))

    def _copy(self, source: str, comment: str | None, to: str, owner: str) -> None:
        with self._server.connect() as connection:
            names = [sql.Identifier(each) for each in (to, source, owner)]
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(*names))
            connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(names[0], sql.Literal(comment)))
