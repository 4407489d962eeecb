"""No trial is measured alongside statements of an earlier one."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import LiteralString, cast

import psycopg
import pytest

from pgdyno.errors import TargetError
from pgdyno.experiment import earlier_sessions
from pgdyno.experiment.earlier_sessions import end_leftovers, sessions_name
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import PlannedTrial
from pgdyno.records import Manifest, Outcome
from pgdyno.targets import Home, Server
from pgdyno.targets.connection import Address
from tests.postgres.runs import active_sessions, engines, fast_plan, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

PLAN = fast_plan(
    'scripts = ["sleep.sql"]\ndataset = "none"\nvariables = { nap = 0 }',
    "clients = [2]\nvariables.nap = [1800, 0]",
    'duration = "1s"\norder = "as-listed"\n[probe]\nenabled = false',
)
SCRIPT = """\
\\if :client_id = 0
SELECT pg_sleep(:nap);
\\else
-- being canceled does not end it
DO $$ BEGIN PERFORM pg_sleep(:nap); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(:nap); END $$;
\\endif
"""


@pytest.mark.long
def test_statements_of_a_killed_engine_end_before_the_next_trial(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "sleep.sql").write_text(SCRIPT)
    plan = tmp_path / "leftovers.toml"
    plan.write_text(PLAN)
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: active_sessions(warm_home) == 2)
        for engine in engines(warm_home):
            os.kill(engine, signal.SIGKILL)
        said = process.communicate(timeout=PATIENCE_S)[1]
    folder = the_run(tmp_path)
    first, second = folder.trials()
    assert first.outcome is Outcome.FAILED
    assert first.leftovers is None
    assert second.outcome is Outcome.FINISHED, said
    left = present(second.leftovers)
    assert (left.sessions, left.canceled, left.terminated) == (2, 2, 1)
    # both of them had their time to end by themselves
    assert left.seconds > 2 * earlier_sessions.WAIT_S
    expected = "trial 2: 2 sessions of an earlier trial had not ended; statements canceled: 2, sessions terminated: 1"
    assert expected in folder.manifest.notes
    assert expected in " ".join(said.split())


# ---- one by one ----


def manifest(day: int) -> Manifest:
    begun = datetime(2026, 1, day, tzinfo=UTC)
    return cast("Manifest", SimpleNamespace(run="a run", started_at=begun))


MANIFEST = manifest(1)
PROGRESS = cast("RunProgress", SimpleNamespace(set_up=lambda _text: None, note=lambda _text: None))
FIRST, SECOND = (cast("PlannedTrial", SimpleNamespace(number=number)) for number in (1, 2))
PASSWORD = "secret"
BUSY = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND usename = %s AND state = 'active'"


@contextmanager
def busy(server: Server, name: str, user: str | None = None) -> Iterator[None]:
    """A session of this name whose statement does not end by itself; another user's has `PASSWORD`."""
    parameters = {**server.address.parameters, "application_name": name, "user": user or server.user}
    address = Address(parameters, server.password if user is None else PASSWORD)
    with server.connect() as watching, closing(address.connect(server.dbname)) as session:
        session.pgconn.send_query(b"SELECT pg_sleep(1800)")
        wait_until(lambda: watching.execute(BUSY, [name, address.parameters["user"]]).fetchone() is not None)
        yield
        watching.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_sessions, "WAIT_S", 0.5)


def test_names_tell_run_and_trial() -> None:
    first = sessions_name(MANIFEST, FIRST)
    assert first.startswith("pgdrive ")
    assert first.endswith("/1")
    assert len(first) < 64
    assert sessions_name(MANIFEST, SECOND)[:-1] == first[:-1]
    assert sessions_name(manifest(2), FIRST) != first


@pytest.mark.usefixtures("impatient")
def test_sessions_of_others_are_left_alone(server: Server) -> None:
    ours = sessions_name(MANIFEST, FIRST)
    with server.connect() as admin:
        admin.execute(f"CREATE ROLE somebody_else LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        with busy(server, "pgdrive"), busy(server, "pgdrive 00000000/1"), busy(server, ours, user="somebody_else"):
            assert end_leftovers(MANIFEST, SECOND, server, PROGRESS) is None
            for name, user in (("pgdrive", server.user), ("pgdrive 00000000/1", server.user), (ours, "somebody_else")):
                assert admin.execute(BUSY, [name, user]).fetchone() is not None
        admin.execute("DROP ROLE somebody_else")


@pytest.mark.usefixtures("impatient")
def test_a_role_without_privileges_can_end_its_own(server: Server) -> None:
    with server.connect() as admin:
        admin.execute(f"CREATE ROLE of_little_right LOGIN PASSWORD '{PASSWORD}'")
        address = Address({**server.address.parameters, "user": "of_little_right"}, PASSWORD)
        restricted = Server(address, [], machine=None, dbname=server.dbname)
        with busy(server, sessions_name(MANIFEST, FIRST), user="of_little_right"):
            left = present(end_leftovers(MANIFEST, SECOND, restricted, PROGRESS))
        # once canceled, it is idle in a connection that is still open
        assert (left.sessions, left.canceled, left.terminated) == (1, 1, 1)
        admin.execute("DROP ROLE of_little_right")


@pytest.mark.usefixtures("impatient")
def test_an_idle_session_is_terminated(server: Server) -> None:
    name = sessions_name(MANIFEST, FIRST)
    with closing(server.address.connect(server.dbname, application_name=name)) as idle:
        left = present(end_leftovers(MANIFEST, SECOND, server, PROGRESS))
        assert (left.sessions, left.canceled, left.terminated) == (1, 0, 1)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")


@pytest.mark.usefixtures("impatient")
def test_a_statement_that_cannot_be_ended_fails_the_trial(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: LiteralString = "SELECT count(*) FILTER (WHERE false) FROM pg_stat_activity WHERE application_name LIKE %s"
    monkeypatch.setattr(earlier_sessions, "_CANCEL", nothing)
    monkeypatch.setattr(earlier_sessions, "_TERMINATE", nothing)
    with busy(server, sessions_name(MANIFEST, FIRST)), pytest.raises(TargetError) as raised:
        end_leftovers(MANIFEST, SECOND, server, PROGRESS)
    assert "sessions of earlier trials are still active on the server" in raised.value.message
    assert "of trial 1 (active: SELECT pg_sleep(1800))" in raised.value.message
    assert raised.value.hint is not None
