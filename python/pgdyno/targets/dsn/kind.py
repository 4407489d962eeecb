"""How pgdyno uses servers of kind = "dsn", which already exist."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.reconfigure import database_values, refuse_others_database
from pgdyno.targets.cluster.settings import reset_settings
from pgdyno.targets.dsn.reach import Reached, check_signed, create_signed, load_path, reach
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.home import Home, Progress
from pgdyno.targets.kind import TargetKind, name_target
from pgdyno.targets.lock import Use, server_in_use
from pgdyno.targets.server import Server


@contextmanager
def open_network(spec: DsnTarget, reached: Reached, use: Use, progress: Progress) -> Iterator[Server]:
    """Yield the server of `spec` with its database and settings; restores the settings after the block.

    The database stays with its dataset, because loading it again may take hours. Raises TargetError, psycopg.Error.
    """
    with server_in_use(reached.address, reached.maintenance, use, progress) as note:
        server = Server(
            reached.address,
            [] if note is None else [note],
            machine=None,
            dbname=spec.database,
            maintenance=reached.maintenance,
            settings=spec.settings,
        )
        made = server.owns_database = get_database(server, spec, progress)
        server.path = reached.path or load_path(spec, reached.address)
        if spec.settings:
            refuse_others_database(server)
        try:
            if made:
                with _refusals(f"change settings of the database {spec.database}"):
                    _forget_settings(server)
                    server.database_made()
                    database_values(server, spec.settings, spec.settings)
            yield server
        finally:
            if made and server.settings:
                # the error that ended the block is the one to report; every start sets the settings again
                with suppress(TargetError, psycopg.Error):
                    _forget_settings(server)


def get_database(server: Server, spec: DsnTarget, progress: Progress) -> bool:
    """Create the database unless it exists. Returns whether pgdyno created it, now or earlier.

    Raises TargetError if it is another's and `spec` does not allow its use.
    """
    with server.connect(server.maintenance) as connection, _refusals(f"create the database {spec.database}"):
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [server.dbname]).fetchone()
        if known is None:
            progress.step(f"creating the database {server.dbname}")
            create_signed(connection, server.address, server.dbname)
            return True
    return check_signed(server.address, spec)


def _forget_settings(server: Server) -> None:
    with server.connect(server.maintenance) as connection:
        reset_settings(connection, server.dbname)


@contextmanager
def _refusals(doing: str) -> Iterator[Any]:
    try:
        yield
    except psycopg.Error as error:
        raise TargetError(f"cannot {doing}: {str(error).strip()}") from error


class Dsn:
    """Servers over the network, which outlast the run, as does their database."""

    def fetch(self, spec: DsnTarget, home: Home, progress: Progress, use: Use) -> Reached:
        """Connect to the server of `spec`. Raises TargetError."""
        del home, progress
        return reach(spec, use)

    @contextmanager
    def open(
        self, name: str, spec: DsnTarget, found: Reached, home: Home, progress: Progress, use: Use
    ) -> Iterator[Server]:
        """Open that server with its database and settings. Raises TargetError, psycopg.Error."""
        del home
        with ExitStack() as stack:
            with name_target(name):
                server = stack.enter_context(open_network(spec, found, use, progress))
            yield server


KIND: TargetKind[DsnTarget, Reached] = Dsn()
