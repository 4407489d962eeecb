"""A search that changes the configuration of a server that pgdyno did not start, and restores it after any end."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, StopRunError, TargetError
from pgdyno.experiment.search.settings.attached_server import AttachedServer, check_rights, in_file
from pgdyno.experiment.search.settings.settings_journal import COPY, Journal, journals
from pgdyno.host import describe_host
from pgdyno.plan.hosts import SshSpec
from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.connection import Address
from pgdyno.targets.dsn.schema import DsnTarget
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.runs import fast_plan, pgdyno, pgdyno_process, the_run
from tests.present import present
from tests.ssh.sshd import running_sshd
from tests.waiting import wait_until

# with any other value a transaction takes a fifth of the time, whatever the machine does meanwhile
SLEEPS = "SELECT pg_sleep(CASE WHEN current_setting('{name}') = '{slow}' THEN 0.02 ELSE 0.004 END);\n"
TRIAL = """\
duration = "400ms"
repeats = 6
seed = 7
[reset]
checkpoint = false
[search]
find = "settings"
trials = 2
"""
STATE = """
    SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'
    UNION ALL SELECT name, setting || pending_restart FROM pg_settings
    WHERE name IN ('shared_buffers', 'checkpoint_timeout', 'bgwriter_delay', 'wal_level')
    ORDER BY 1, 2
"""
"""Everything that a search changes: the file, and what is in force."""
DELAY = 'over.bgwriter_delay = ["210ms", "220ms"]'


@pytest.fixture(scope="module")
def theirs(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "") as server:
        server.execute("ALTER SYSTEM SET shared_buffers = '20MB'", "ALTER SYSTEM SET work_mem = '5MB'")
        server.restart("fast")
        yield server


@pytest.fixture(autouse=True)
def before(theirs: OwnServer) -> Iterator[list[tuple[str, str]]]:
    found = state(theirs)
    yield found
    assert state(theirs) == found


def restart_command(server: OwnServer) -> str:
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    variables = [f"{name}={value}" for name, value in server.installation.environment().items() if "LIBRARY" in name]
    control = [server.installation.program("pg_ctl"), "-D", server.data, "-l", server.folder / "log", "-w"]
    return shlex.join(["env", "-C", "/", *variables, *as_nobody, *map(str, control), "-m", "fast", "restart"])


def write(
    folder: Path,
    server: OwnServer,
    space: str = DELAY,
    slow: tuple[str, str] = ("bgwriter_delay", "200ms"),
    *,
    restarts: bool = False,
) -> Path:
    restart = f"'''{restart_command(server)}'''" if restarts else '""'
    (folder / "sleeps.sql").write_text(SLEEPS.format(name=slow[0], slow=slow[1]))
    target = f'kind = "dsn"\ndsn = "{server.dsn()}"\nrestart = {restart}'
    path = folder / "staging.toml"
    workload = 'scripts = ["sleeps.sql"]\ndataset = "none"'
    path.write_text(fast_plan(workload, "clients = 2", TRIAL + space, ["staging"], target))
    return path


def state(server: OwnServer) -> list[tuple[str, str]]:
    return server.rows(STATE)


@contextmanager
def searching(home: Home, folder: Path, plan: Path, server: OwnServer) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a search, and yields once it has changed the server."""
    before = state(server)
    with pgdyno_process(home, folder, "run", str(plan), "--allow-restart", "--no-preflight") as process:

        def has_changed() -> bool:
            assert process.poll() is None, (folder / "said").read_text()
            return state(server) != before

        wait_until(has_changed)
        yield process


@pytest.mark.long
def test_a_search_restores_the_servers_settings(warm_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    space = 'over.shared_buffers = ["16MB", "24MB"]'
    plan = write(tmp_path, theirs, space, ("shared_buffers", "20MB"), restarts=True)
    started = theirs.value("SELECT pg_postmaster_start_time()")
    pgdyno(warm_home, tmp_path, "tune", str(plan), "--allow-restart", "--no-preflight", code=ExitCode.OK)
    assert journals(warm_home) == []
    assert theirs.value("SELECT pg_postmaster_start_time()") != started
    folder = the_run(tmp_path)
    (found,) = folder.manifest.search
    assert found.settings.keys() == {"shared_buffers"}
    assert found.words.endswith("the pairs ran on the server that was searched, after a restart")
    assert {trial.outcome for trial in folder.trials()} == {Outcome.FINISHED}
    assert not (folder.path / COPY).exists()


@pytest.mark.long
def test_ctrl_c_and_resume_restore_settings(
    warm_home: Home, tmp_path: Path, theirs: OwnServer, before: list[tuple[str, str]]
) -> None:
    plan = write(tmp_path, theirs)
    with searching(warm_home, tmp_path, plan, theirs) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
    assert journals(warm_home) == []
    assert state(theirs) == before
    with searching(warm_home, tmp_path, plan, theirs) as process:
        process.kill()
        process.wait()
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--allow-restart", code=ExitCode.OK)
    assert journals(warm_home) == []


@pytest.mark.long
def test_a_killed_search_is_restored(
    warm_home: Home, tmp_path: Path, theirs: OwnServer, before: list[tuple[str, str]]
) -> None:
    plan = write(tmp_path, theirs)
    with searching(warm_home, tmp_path, plan, theirs) as process:
        process.kill()
        process.wait()
    assert state(theirs) != before
    folder = the_run(tmp_path)
    # another run would measure the changed server, or take its settings for the original ones
    other = plan.with_name("other.toml")
    other.write_text(plan.read_text().partition("[search]")[0])
    refused = pgdyno(warm_home, tmp_path, "run", str(other), "--runs", str(tmp_path / "others"), code=ExitCode.TARGET)
    assert "pgdyno target restore" in refused.stderr
    assert state(theirs) != before
    refused = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), code=ExitCode.USAGE)
    assert "pgdyno target restore" in refused.stderr

    restored = pgdyno(warm_home, tmp_path, "target", "restore", code=ExitCode.OK)
    assert "bgwriter_delay restored" in restored.stdout
    assert state(theirs) == before
    assert journals(warm_home) == []
    assert "no search has left" in pgdyno(warm_home, tmp_path, "target", "restore").stdout

    pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), "--allow-restart", code=ExitCode.OK)
    assert the_run(tmp_path).manifest.search[0].settings.keys() == {"bgwriter_delay"}


def test_without_consent_nothing_is_changed(warm_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    plan = write(tmp_path, theirs)
    for command in ("run", "tune"):
        done = pgdyno(warm_home, tmp_path, command, str(plan), code=ExitCode.USAGE)
        assert "bgwriter_delay" in done.stderr
        assert "--allow-restart" in done.stderr
    assert not (tmp_path / "pgdyno-runs").exists()


@pytest.mark.long
def test_settings_of_sessions_need_no_consent(warm_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    plan = write(tmp_path, theirs, 'over.random_page_cost = ["1.1", "3"]', ("random_page_cost", "4"), restarts=True)
    started = theirs.value("SELECT pg_postmaster_start_time()")
    pgdyno(warm_home, tmp_path, "tune", str(plan), "--no-preflight", code=ExitCode.OK)
    assert theirs.value("SELECT pg_postmaster_start_time()") == started
    pgdyno(warm_home, tmp_path, "tune", str(plan), "--allow-restart", code=ExitCode.USAGE)


@contextmanager
def attached(
    server: OwnServer, home: Home, folder: Path, *names: str, ssh: SshSpec | None = None
) -> Iterator[AttachedServer]:
    """Yields the server with a journal for the settings `names`, which is restored at the end."""
    spec = DsnTarget(kind="dsn", dsn=server.dsn(), restart=restart_command(server), ssh=ssh)
    address = Address({"host": str(server.folder), "port": str(server.port), "user": "postgres"})
    there = Server(address, [], machine=None, dbname="postgres")
    with server.connect() as connection:
        originals = in_file(connection, names)
    journal = Journal(
        identifier=str(server.value("SELECT system_identifier::text FROM pg_control_system()")), run=str(folder),
        name="staging", target=spec.model_dump(mode="json"), plan_folder=str(folder),
        file=str(server.data / "postgresql.auto.conf"), originals=originals, current=originals,
    )  # fmt: skip
    journal.write(home)
    found = AttachedServer(there, spec, journal, home, lambda: None)
    yield found
    found.restore()
    assert journals(home) == []


@pytest.mark.parametrize("over_ssh", [False, True])
def test_a_server_that_fails_gets_settings_back(
    fresh_home: Home, tmp_path: Path, theirs: OwnServer, before: list[tuple[str, str]], over_ssh: bool
) -> None:
    with running_sshd(tmp_path / "sshd") if over_ssh else nullcontext() as sshd:
        ssh = sshd.spec() if sshd is not None else None
        with attached(theirs, fresh_home, tmp_path, "wal_level", "shared_buffers", ssh=ssh) as found:
            assert found.memory_bytes() == describe_host().memory_bytes
            # ALTER SYSTEM accepts it; the server does not start with it, as max_wal_senders is above 0
            with pytest.raises(TargetError, match="it has its original ones again"):
                found.configure({"wal_level": "minimal", "shared_buffers": "24MB"})
            assert state(theirs) == before
            done = present(found.configure({"shared_buffers": "24MB"}))
            assert (done.restarted, done.values) == (True, {"shared_buffers": "24MB"})
            assert found.configure({"shared_buffers": "24MB"}) is None


def test_what_pgdyno_cannot_put_back_it_says(fresh_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    with attached(theirs, fresh_home, tmp_path, "wal_level", "shared_buffers") as found:
        # as for a host that pgdyno cannot reach
        real, found.journal.file = found.journal.file, str(tmp_path / "missing")
        with pytest.raises(StopRunError, match="target staging is down") as stopped:
            found.configure({"wal_level": "minimal", "shared_buffers": "24MB"})
        assert not theirs.is_running()
        hint = stopped.value.hint or ""
        removed = "remove shared_buffers = '24MB', wal_level = 'minimal' and add shared_buffers = '20MB'"
        assert removed in hint
        assert "then: pgdyno target restore" in hint
        text = Path(real).read_text().replace("wal_level = 'minimal'\n", "").replace("'24MB'", "'20MB'")
        Path(real).write_text(text)
        theirs.start()


def test_a_restart_command_that_fails_stops_the_search(fresh_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    with attached(theirs, fresh_home, tmp_path, "shared_buffers") as found:
        spec = found.spec
        found.spec = spec.model_copy(update={"restart": "echo no such unit >&2; exit 5"})
        with pytest.raises(StopRunError, match="exit code 5: no such unit"):
            found.configure({"shared_buffers": "24MB"})
        found.spec = spec


def test_missing_rights_are_named_as_statements(fresh_home: Home, tmp_path: Path, theirs: OwnServer) -> None:
    with theirs.connect() as superuser:
        superuser.execute("CREATE ROLE bench LOGIN")
        with attached(theirs, fresh_home, tmp_path, "bgwriter_delay") as found:
            found.server.address.parameters["user"] = "bench"
            with found.server.connect("postgres") as connection:
                with pytest.raises(TargetError, match="bench may not change") as refused:
                    check_rights(connection, ["bgwriter_delay"])
                assert "GRANT ALTER SYSTEM ON PARAMETER bgwriter_delay TO bench" in (refused.value.hint or "")
                for statement in (refused.value.hint or "").split("; "):
                    superuser.execute(statement.encode())
                check_rights(connection, ["bgwriter_delay"])
            done = present(found.configure({"bgwriter_delay": "210ms"}))
            assert (done.restarted, done.values) == (False, {"bgwriter_delay": "210ms"})
