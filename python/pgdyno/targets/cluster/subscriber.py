"""A logical subscriber of a server that pgdyno starts: a standby that was promoted and then subscribed.

Its schema and rows come with the copy of the cluster, as by pg_createsubscriber, because published builds lack pg_dump.
What replaces tables, such as a template or a reload, ends it, and the next trial gets a new one.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.plan.targets import DATABASE, Replicas, SubscriberSpec
from pgdyno.targets.cluster.initdb import PASSWORD_FILE, USER
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.instance_record import Claim
from pgdyno.targets.cluster.standbys import PREFIX, PROMOTION_S, ReplicaSet, Standby
from pgdyno.targets.connection import MAINTENANCE, Address
from pgdyno.targets.home import Home, Progress

NAME = f"{PREFIX}subscriber"
"""The name of the publication, the subscription, and its slot."""
_BEHIND: LiteralString = """
    SELECT pg_wal_lsn_diff(%s, greatest(confirmed_flush_lsn, replay_lsn))::bigint
    FROM pg_replication_slots LEFT JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = %s
"""
_FREED_S, _POLL_S = 60.0, 0.05


class Subscriber(ReplicaSet):
    """The logical subscriber of one server, to all tables of the workload's database."""

    is_logical: ClassVar[bool] = True

    def __init__(
        self,
        spec: SubscriberSpec,
        installation: Installation,
        home: Home,
        claim: Claim,
        folder: Path,
        progress: Progress,
    ) -> None:
        super().__init__(Replicas(count=1), installation, home, claim, folder, progress)
        self._wanted = spec
        self._publisher: Address | None = None

    def before_settings(self, settings: Mapping[str, str]) -> None:
        """Discards the subscriber if its own settings would change. Raises TargetError."""
        if dict(settings) != self._settings:
            self.discard()

    def follow(self, primary_port: int, settings: Mapping[str, str]) -> None:
        """Make the subscription follow the publisher to another port. Raises TargetError."""
        del settings
        if not self._standbys or primary_port == self._primary_port:
            return
        self._primary_port = primary_port
        with self._standbys[0].address.connect(DATABASE) as connection:
            statement = sql.SQL("ALTER SUBSCRIPTION {} CONNECTION {}")
            connection.execute(statement.format(sql.Identifier(NAME), sql.Literal(self._conninfo())))

    def discard(self) -> None:
        """Stop and remove the subscriber, its publication and its slot. Raises TargetError."""
        super().discard()
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            # a publisher that is down is about to be removed
            with suppress(TargetError, psycopg.Error):
                _drop_slot(publisher)
                with publisher.connect(DATABASE) as connection:
                    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(NAME)))

    def _create_all(self, primary: Address) -> str:
        self._publisher = primary
        made = super()._create_all(primary)
        super().wait(primary)
        (standby,) = self._standbys
        process = standby.postmaster.identity
        assert process is not None
        self._end_recovery(standby, process, PROMOTION_S)
        _drop_slot(primary)
        # nothing writes to the tables between the copy and the new slot
        with primary.connect(DATABASE) as connection:
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(sql.Identifier(NAME)))
        options = [("copy_data", "false"), *self._wanted.options.items()]
        statement = sql.SQL("CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {} WITH ({})").format(
            sql.Identifier(NAME),
            sql.Literal(self._conninfo()),
            sql.Identifier(NAME),
            sql.SQL(", ").join(
                sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in options
            ),
        )
        with standby.address.connect(DATABASE) as connection:
            connection.execute(statement)
        return made

    def _wait_one(self, standby: Standby, lsn: str) -> int:
        assert self._publisher is not None
        with self._publisher.connect(MAINTENANCE) as connection:
            return self._wait_for_shown(standby, connection, _BEHIND, [lsn, NAME])

    def _name(self, number: int) -> str:
        del number
        return NAME

    def _asked(self) -> Mapping[str, str]:
        return {**self._settings, **self._wanted.settings}

    def _conninfo(self) -> str:
        passfile = self._standbys[0].postmaster.data_directory.with_name(PASSWORD_FILE)
        host = self._claim.record.socket_directory
        return make_conninfo(host=host, port=self._primary_port, user=USER, passfile=str(passfile), dbname=DATABASE)


def _drop_slot(publisher: Address) -> None:
    """Drop the slot once its walsender has ended. Raises TargetError, psycopg.Error."""
    end = time.monotonic() + _FREED_S
    with publisher.connect(MAINTENANCE) as connection:
        while True:
            rows = connection.execute(
                "SELECT CASE WHEN active_pid IS NULL THEN pg_drop_replication_slot(slot_name)::text END, active_pid"
                " FROM pg_replication_slots WHERE slot_name = %s",
                [NAME],
            ).fetchall()
            if all(pid is None for _, pid in rows):
                return
            if time.monotonic() > end:
                raise TargetError(f"the slot {NAME} is still in use after {_FREED_S:.0f} s")
            time.sleep(_POLL_S)
