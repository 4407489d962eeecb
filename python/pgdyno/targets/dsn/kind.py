"""How servers of kind = "dsn" are obtained: they are there already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.home import Home
from pgdyno.targets.kind import TargetKind, named
from pgdyno.targets.lock import Use
from pgdyno.targets.network import open_network
from pgdyno.targets.progress import Progress
from pgdyno.targets.reach import Reached, reach
from pgdyno.targets.server import Server


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
