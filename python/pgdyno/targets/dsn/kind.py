"""How servers of kind = "dsn" are obtained: they are there already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.settings import refuse_others_database, reset_settings
from pgdyno.targets.dsn.reach import Reached, check_signed, reach, sign
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.home import Home, Progress
from pgdyno.targets.kind import TargetKind, named
from pgdyno.targets.lock import Use, server_in_use
from pgdyno.targets.server import Server


@contextmanager
def open_network(spec: DsnTarget, reached: Reached, use: Use, progress: Progress) -> Iterator[Server]:
    """The server of `spec` with its database and settings; behind the block the settings are as before.

    The database stays, with its dataset: loading it again may take hours. Raises TargetError, psycopg.Error.
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
        if spec.settings:
            refuse_others_database(server)
        try:
            if made:
                with _refusals(f"change settings of the database {spec.database}"):
                    _forget_settings(server)
                    server.database_made()
            yield server
        finally:
            if made and server.settings:
                # whatever ended the block, that is what is told of; every start sets them anew
                with suppress(TargetError, psycopg.Error):
                    _forget_settings(server)


def get_database(server: Server, spec: DsnTarget, progress: Progress) -> bool:
    """Makes the database unless it is there. True when pgdyno made it, now or earlier.

    Raises TargetError when another made it and `spec` does not allow it to be used.
    """
    with server.connect(server.maintenance) as connection, _refusals(f"make the database {spec.database}"):
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [server.dbname]).fetchone()
        if known is None:
            progress.step(f"making the database {server.dbname}")
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(server.dbname)))
            sign(server.address, server.dbname)
            return True
    return check_signed(server.address, spec)


def _forget_settings(server: Server) -> None:
    """Also those that a run which was killed has left."""
    with server.connect(server.maintenance) as connection:
        reset_settings(connection, server.dbname)


@contextmanager
def _refusals(doing: str) -> Iterator[Any]:
    """Turns what the server refuses into a TargetError."""
    try:
        yield
    except psycopg.Error as error:
        raise TargetError(f"cannot {doing}: {str(error).strip()}") from error


class Dsn:
    """Servers over the network, which stay with their database."""

    def fetch(self, spec: DsnTarget, home: Home, progress: Progress, use: Use) -> Reached:
        """The server of `spec`, reached. Raises TargetError."""
        del home, progress
        return reach(spec, use)

    @contextmanager
    def open(
        self, name: str, spec: DsnTarget, found: Reached, home: Home, progress: Progress, use: Use
    ) -> Iterator[Server]:
        """That server with its database and settings. Raises TargetError, psycopg.Error."""
        del home
        with ExitStack() as stack:
            with named(name):
                server = stack.enter_context(open_network(spec, found, use, progress))
            yield server


KIND: TargetKind[DsnTarget, Reached] = Dsn()
