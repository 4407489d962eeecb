"""What the sessions of a database wait for, sampled while a capture lasts."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from pgdyno.capture.logs.log_events import OWN_NAMES
from pgdyno.capture.server.server_session import CapturedServer, Connection
from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.records.capture import Wait
from pgdyno.targets.response_limits import limit_answers

# as in pgprobe (crates/probe/src/server/activity.rs): states are read before waits, so that a session that has just
# ended a statement may already wait for its client's next one
_SAMPLE = """
    SELECT /* pgdyno */
           CASE WHEN state NOT IN ('active', 'fastpath function call') THEN NULL
                WHEN wait_event IS NULL OR (wait_event = 'ClientRead' AND (
                    state_change > now() - interval '1 ms'
                    OR (state_change > now() - interval '1 s' AND NOT {copies}))) THEN 'CPU'
                ELSE wait_event_type || ':' || wait_event END,
           count(*), count(*) FILTER (WHERE backend_type = 'client backend')
    FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND coalesce(application_name, '') !~ %s
      AND backend_type IN ('client backend', 'parallel worker')
    GROUP BY 1
"""
_COPIES = "pid IN (SELECT pid FROM pg_catalog.pg_stat_get_progress_info('COPY'))"
_COPIES_UNTIL_13 = r"query ~* '^\s*copy\M'"
_MAY_SEE = "SELECT /* pgdyno */ pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')"
LEAST_SHARE = 0.001
"""Waits of fewer sessions on average are not kept: there may be a hundred kinds."""


class WaitSamples:
    """Samples of pg_stat_activity. A sample that fails is one less."""

    def __init__(self, server: CapturedServer) -> None:
        """Raise TargetError."""
        self.most_sessions = 0
        self.now = ""
        """The last sample, for a line of progress; empty before the first one."""
        self.transactions = 0
        """Those of the samples, which the server counts with those of the applications."""
        self._server = server
        self._connection: Connection | None = server.connect()
        self._count = 0
        self._sessions: Counter[str] = Counter()
        copies = _COPIES if server.major >= 14 else _COPIES_UNTIL_13
        self._query = _SAMPLE.format(copies=copies).replace("%s", "%(name)s").encode()
        self.may_see = bool(self._ask(_MAY_SEE.encode())[0][0])
        """Whether the role may see other roles' sessions; if not, nothing is sampled."""

    def sample(self) -> None:
        """Take a sample, if the server answers. A session of the server that ended is replaced at the next one."""
        self.now = ""
        if not self.may_see:
            return
        try:
            if self._connection is None:
                self._connection = self._server.connect()
            self.transactions += 1
            rows = self._ask(self._query)
        except TargetError:
            self.close()
            return
        self._count += 1
        self._sessions.update({str(wait): int(count) for wait, count, _ in rows if wait is not None})
        sessions = sum(int(clients) for _, _, clients in rows)
        self.most_sessions = max(self.most_sessions, sessions)
        self.now = f"{sessions:,} {'session' if sessions == 1 else 'sessions'}"

    def waits(self) -> list[Wait]:
        """Return the mean numbers of sessions, the largest first."""
        means = {wait: count / self._count for wait, count in self._sessions.most_common()}
        return [Wait(wait=wait, sessions=round(mean, 4)) for wait, mean in means.items() if mean >= LEAST_SHARE]

    def notes(self) -> Iterator[Message]:
        """Yield why there are no waits."""
        if not self.may_see:
            yield Message("capture-without-waits", "the role may not see other sessions' waits: grant it pg_monitor")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, query: bytes) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        try:
            with limit_answers(self._connection):
                return list(self._connection.execute(query, {"name": f"^{OWN_NAMES}"}).fetchall())
        except psycopg.Error as error:
            raise TargetError(f"cannot read the sessions of the server: {str(error).strip()}") from error
