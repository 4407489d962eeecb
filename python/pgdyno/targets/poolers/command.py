"""Any other pooler, which a command of the user's starts."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.plan.targets import Pooler
from pgdyno.targets.poolers.kind import Place, Program
from pgdyno.targets.poolers.load_path import UNKNOWN


class Command:
    """Poolers with `kind = "command"`."""

    def find(self, spec: Pooler) -> Program:
        """Return the command; pgdrive finds out whether the pooler keeps prepared statements apart."""
        return Program(spec.command or "", UNKNOWN, may_prepare=True)

    def command(self, spec: Pooler, program: Program, place: Place) -> tuple[list[str], Mapping[str, str]]:
        """Return how to start it; libpq's variables say where the server is, others where to listen."""
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
