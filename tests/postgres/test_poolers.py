"""PgBouncer in front of a server: every command but a load refuses it, and none leaves anything in its sessions."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.connection import Address
from pgdyno.targets.direct_session import PoolerError, _refuse_pooler
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.pgbouncer import PgBouncer, pgbouncer
from tests.postgres.relay import Relay
from tests.postgres.replay_sample import Sample, simple
from tests.postgres.runs import engines, environment, pgdyno, running, the_run
from tests.waiting import PATIENCE_S, wait_until

BIN = Path(sys.executable).parent
PGDRIVE, PGPROBE, PGDYNO = BIN / "pgdrive", BIN / "pgprobe", BIN / "pgdyno"
MODES = ("transaction", "session")
PLAN = """\
name = "pooled"
[target.far]
kind = "dsn"
dsn = "{dsn}"
[workload]
scripts = ["tpcb-like"]
scale = 1
[sweep]
clients = [2]
[trial]
duration = "300ms"
warmup = "0s"
"""


@pytest.fixture(scope="module")
def behind(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "") as server:
        subprocess.run(
            [PGDRIVE, "-i", "-q", "-s", "1"], env=server.environment(), check=True, capture_output=True, timeout=300
        )
        yield server


@pytest.fixture(scope="module", params=MODES)
def pooler(request: pytest.FixtureRequest, behind: OwnServer) -> Iterator[PgBouncer]:
    with tempfile.TemporaryDirectory(prefix="pgdyno-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with pgbouncer(behind, request.param, Path(folder) / "pooler") as pooler:
            yield pooler


@pytest.fixture
def untouched(pooler: PgBouncer) -> Iterator[PgBouncer]:
    """The pooler; after the test, its sessions are as they were before."""
    before = pooler.sessions()
    (state,) = {repr(each): each for each in before.values()}.values()
    yield pooler
    after = pooler.sessions()
    for session in after.values():
        assert session == state
    assert pooler.server.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


@pytest.fixture
def kept(untouched: PgBouncer) -> Iterator[PgBouncer]:
    """The pooler; after the test, it has the same sessions, and they are as they were before."""
    before = set(untouched.sessions())
    yield untouched
    assert set(untouched.sessions()) == before


def program(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG") or "PGDYNO" in name}


OBJECTS = "SELECT array[(SELECT count(*) FROM pg_database), (SELECT count(*) FROM pg_class)]"
COMMANDS = {
    "watch": ["watch", "{dsn}", "--once"],
    "run": ["run", "{plan}"],
    "ab": ["ab", "--dsn", "{dsn}", "--set", "work_mem=4MB,64MB", "--script", "{script}", "--no-preflight"],
    "ab of the server and its pooler": [
        *("ab", "--dsn", "{server}", "--dsn", "{dsn}", "--script", "{script}", "--no-preflight")
    ],
    "capture": ["capture", "{dsn}", "--for", "1s", "--into", "{folder}/capture"],
    "capture of statistics": ["capture", "{dsn}", "--statements", "--for", "1s", "--into", "{folder}/capture"],
    "tune": ["tune", "{plan}"],
}
REFUSED = {
    **{name: [str(PGDYNO), *COMMANDS[name]] for name in ("watch", "run", "capture", "ab", "tune")},
    "doctor": [str(PGDYNO), "doctor", "{plan}"],
    "load of the dataset": [str(PGDRIVE), "-i", "{dsn}"],
    "probe": [str(PGPROBE), "--dbname={dsn}", "--no-host"],
    "prepared": [str(PGDRIVE), "-n", "-M", "prepared", "-T", "3600", "{dsn}"],
}
"""Commands that are killed."""


def filled(words: Sequence[str], pooler: PgBouncer, folder: Path) -> list[str]:
    server = pooler.dsn.replace(str(pooler.port), str(pooler.server.port))
    plan, script = folder / "plan.toml", folder / "q.sql"
    plan.write_text(PLAN.format(dsn=pooler.dsn))
    script.write_text("SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n")
    return [word.format(dsn=pooler.dsn, server=server, folder=folder, plan=plan, script=script) for word in words]


# one function opens all sessions (see the last test), so that a few commands stand for all in the other mode
@pytest.mark.long_cases("session-ab", "session-capture", "session-tune")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_pooler(kept: PgBouncer, home: Home, tmp_path: Path, command: str) -> None:
    objects = kept.server.value(OBJECTS)
    done = pgdyno(home, tmp_path, *filled(COMMANDS[command], kept, tmp_path))
    assert done.returncode == ExitCode.TARGET, done.stdout + done.stderr
    assert re.search(f"127.0.0.1, port {kept.port}, is a connection pooler, not a server: ", done.stderr)
    assert f"name the server itself: the pooler reaches it at 127.0.0.1, port {kept.server.port}" in done.stderr
    # nothing was prepared
    assert not (tmp_path / "pgdyno-runs").exists()
    assert not (tmp_path / "capture").exists()
    assert kept.server.value(OBJECTS) == objects


def test_doctor_says_stop(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    done = pgdyno(home, tmp_path, *filled(["doctor", "{plan}"], kept, tmp_path))
    assert done.returncode == ExitCode.PREFLIGHT
    assert re.search(r"stop +network.round-trip", done.stdout)
    assert "is a connection pooler" in " ".join(done.stdout.split())


@pytest.mark.long_cases("session--i")
@pytest.mark.parametrize(
    "command",
    [
        [PGDRIVE, "-i"],
        [PGDRIVE, "-i", "-I", "dtgvp"],
        [PGDRIVE, "-i", "--dataset=sbtest"],
        [PGDRIVE, "-i", "--tpcc-check", "--dataset=tpcc"],
        [PGPROBE, "--no-host"],
    ],
    ids=lambda command: " ".join(map(str, command[1:])),
)
def test_a_load_of_a_dataset_and_the_probe_refuse_a_pooler(kept: PgBouncer, command: list[str | Path]) -> None:
    rows = kept.server.value("SELECT count(*) FROM pgbench_accounts")
    done = program(*command, f"--dbname={kept.dsn}" if command[0] == PGPROBE else kept.dsn)
    assert done.returncode == 1
    assert "it is a connection pooler, not a server" in done.stderr
    if command[0] == PGDRIVE:
        assert f"the pooler reaches it at 127.0.0.1, port {kept.server.port}" in done.stderr
    assert kept.server.value("SELECT count(*) FROM pgbench_accounts") == rows


def test_the_console_is_recognised(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    console = kept.dsn.replace("user=postgres dbname=postgres", "user=admin dbname=pgbouncer")
    done = pgdyno(home, tmp_path, "watch", console, "--once")
    assert done.returncode == ExitCode.TARGET
    assert "is PgBouncer's console, not a server" in done.stderr
    for load in (["-i"], ["-T", "1"], ["-n", "-S", "-T", "1"]):
        tried = program(PGDRIVE, *load, console)
        assert tried.returncode == 1
        assert "it is PgBouncer's console" in tried.stderr
    for unknown in (console.replace("admin", "postgres"), f"{kept.dsn} dbname=unknown"):
        refused = pgdyno(home, tmp_path, "watch", unknown, "--once")
        assert refused.returncode == ExitCode.TARGET
        assert "these are words of a connection pooler: name the server itself" in refused.stderr


def test_options_do_not_reach_a_pooler(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    """PgBouncer refuses them in words that name no remedy."""
    done = pgdyno(home, tmp_path, "watch", f"{kept.dsn} options='-c work_mem=8MB'", "--once")
    assert done.returncode == ExitCode.TARGET
    assert "is a connection pooler, not a server" in done.stderr


@pytest.mark.parametrize(
    "load",
    [
        ["-M", "simple"],
        ["-M", "extended"],
        ["-M", "simple", "--auto-pipeline"],
        ["-C"],
        ["--reconnect"],
        ["--ledger"],
        ["-v"],
    ],
    ids=" ".join,
)
def test_a_load_leaves_nothing(untouched: PgBouncer, load: list[str]) -> None:
    done = program(PGDRIVE, *load, "-c", "8", "-j", "2", "-t", "20", untouched.dsn)
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 160/160" in done.stdout


LUA = """\
function thread_init() drv = sysbench.sql.driver(); con = drv:connect() end
function event() local statement = con:prepare('SELECT 1'); statement:execute() end
"""


def test_a_pooler_of_single_statements_is_refused(behind: OwnServer, home: Home, scratch: Path, tmp_path: Path) -> None:
    objects = behind.value(OBJECTS)
    with pgbouncer(behind, "statement", scratch / "pooler") as pooler:
        for command in ("watch", "run", "capture"):
            done = pgdyno(home, tmp_path, *filled(COMMANDS[command], pooler, tmp_path))
            assert done.returncode == ExitCode.TARGET, done.stdout + done.stderr
            assert "is a connection pooler, not a server: " in done.stderr
        for options in (["-i"], ["-n", "-M", "prepared", "-t", "5"]):
            assert "it is a connection pooler, not a server" in program(PGDRIVE, *options, pooler.dsn).stderr
        assert program(PGDRIVE, "-n", "-S", "-t", "5", pooler.dsn).returncode == 0
    assert behind.value(OBJECTS) == objects


@pytest.mark.parametrize(
    "load",
    [["-M", "prepared"], ["--replay={folder}/load.replay"], ["--lua={folder}/script.lua"], ["--workload=tpcc"]],
    ids=" ".join,
)
def test_a_load_that_would_leave_something_is_refused(kept: PgBouncer, tmp_path: Path, load: list[str]) -> None:
    (tmp_path / "script.lua").write_text(LUA)
    sample = Sample()
    sample.session(0, 1, simple(0, "SET work_mem = '8MB'"))
    sample.write(tmp_path / "load.replay")
    done = program(PGDRIVE, *filled([*load, "{dsn}"], kept, tmp_path))
    assert done.returncode == 1
    assert "in the sessions of a connection pooler, which other clients use, too" in done.stderr
    assert "hint: " in done.stderr
    assert f"name the server itself: the pooler reaches it at 127.0.0.1, port {kept.server.port}" in done.stderr


def test_the_remedy_of_a_script_that_prepares_works(untouched: PgBouncer, tmp_path: Path) -> None:
    (tmp_path / "script.lua").write_text(LUA)
    done = program(PGDRIVE, f"--lua={tmp_path}/script.lua", "--lua-opt=db-ps-mode=disable", "-t", "5", untouched.dsn)
    assert done.returncode == 0, done.stderr


def test_checks_may_go_through_a_pooler(kept: PgBouncer, tmp_path: Path) -> None:
    done = program(PGDRIVE, *filled(["--check", "-f", "{script}", "{dsn}"], kept, tmp_path))
    assert done.returncode == 0, done.stderr
    checked = program(PGDRIVE, "--tpcc-check", "--warehouses=1", kept.dsn)
    assert checked.returncode == 1
    assert 'relation "warehouse" does not exist' in checked.stderr


# the signals end one loop, and the modes differ in what a session keeps
@pytest.mark.long_cases("SIGTERM", "session--M extended", "session---ledger")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
@pytest.mark.parametrize("load", [["-M", "simple"], ["-M", "extended"], ["--ledger"]], ids=" ".join)
def test_a_killed_load_leaves_nothing(untouched: PgBouncer, load: list[str], number: signal.Signals) -> None:
    before = transactions(untouched)
    process = subprocess.Popen(
        [PGDRIVE, *load, "-n", "-c", "8", "-j", "2", "-T", "3600", untouched.dsn],
        env=clean(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: transactions(untouched) > before)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) in (-number, 128 + number)


def transactions(pooler: PgBouncer) -> int:
    count = pooler.server.value("SELECT count(*) FROM pgbench_history")
    assert isinstance(count, int)
    return count


@pytest.mark.long_cases(
    *(f"session-{each}" for each in REFUSED if each != "run"),
    "session-run-SIGINT",
    *(f"{each}-SIGINT" for each in REFUSED if each not in ("run", "probe", "prepared")),
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)
@pytest.mark.parametrize("command", REFUSED)
def test_a_command_that_is_killed_while_it_asks_leaves_nothing(
    untouched: PgBouncer, home: Home, tmp_path: Path, command: str, number: signal.Signals
) -> None:
    with untouched.paused():
        process = subprocess.Popen(
            filled(REFUSED[command], untouched, tmp_path),
            cwd=tmp_path,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: process.poll() is not None or untouched.waiting())
        assert process.poll() is None
        process.send_signal(number)
        process.wait(PATIENCE_S)


def test_a_run_leaves_a_poolers_sessions_alone(behind: OwnServer, home: Home, scratch: Path, tmp_path: Path) -> None:
    """They keep the names that users gave to pgdrive's clients."""
    with pgbouncer(behind, "transaction", scratch / "pooler") as pooler:
        done = program(PGDRIVE, "-n", "-c", "8", "-t", "5", f"{pooler.dsn} application_name='pgdrive 00000000/1'")
        assert done.returncode == 0, done.stderr
        before = pooler.sessions()
        words = ["run", "{plan}", "--set", "target.far.dsn={server}"]
        ran = pgdyno(home, tmp_path, *filled(words, pooler, tmp_path))
        assert ran.returncode == 0, ran.stderr
        assert pooler.sessions() == before


POOLED = """\
name = "pooled"
[target.far]
kind = "dsn"
dsn = "{server}"
load_dsn = "{dsn}"
{more}
[workload]
scripts = ["select-only"]
scale = 1
[sweep]
clients = [2]
[trial]
duration = "500ms"
warmup = "0s"
"""
ALLOWED = 'database = "postgres"\nallow_existing = true'


def run_pooled(
    home: Home, folder: Path, pooler: PgBouncer, more: str = ALLOWED, *words: str, **changes: str
) -> subprocess.CompletedProcess[str]:
    plan = folder / "pooled.toml"
    server = f"host=127.0.0.1 port={pooler.server.port} user=postgres dbname=postgres"
    plan.write_text(POOLED.format(**{"server": server, "dsn": pooler.dsn, "more": more, **changes}))
    return pgdyno(home, folder, "run", str(plan), *words)


@pytest.mark.long_cases("session-extended")
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_a_load_through_a_pooler_leaves_nothing(kept: PgBouncer, home: Home, tmp_path: Path, protocol: str) -> None:
    named = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgd%'"
    done = run_pooled(home, tmp_path, kept, ALLOWED, "--set", f"sweep.protocol={protocol}")
    assert done.returncode == 0, done.stderr
    (trial,) = the_run(tmp_path).trials()
    assert trial.summary is not None
    stats = {row["database"]: int(row["total_xact_count"]) for row in kept.ask("SHOW STATS")}
    assert stats["postgres"] >= (trial.summary.succeeded or 0)
    # as the server sees them, before another client changes it
    assert kept.server.value(named) == 0
    (target,) = the_run(tmp_path).manifest.targets
    assert target.facts is not None
    assert target.facts.pooler is not None


def test_a_database_of_pgdynos_own_is_measured_through_a_pooler(
    behind: OwnServer, home: Home, scratch: Path, tmp_path: Path
) -> None:
    with pgbouncer(behind, "transaction", scratch / "pooler", "pgdyno") as pooler:
        done = run_pooled(home, tmp_path, pooler, "", "--set", "reset.method=template", "--set", "trial.repeats=2",
                          dsn=pooler.dsn.replace("dbname=postgres", "dbname=pgdyno"))  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(the_run(tmp_path).trials()) == 2
    with behind.connect() as connection:
        connection.execute("DROP DATABASE pgdyno")
        connection.execute("DROP DATABASE pgdyno_template")


@pytest.mark.long_cases("session-")
@pytest.mark.parametrize(
    ("more", "words", "changes", "problem", "hint"),
    [
        (ALLOWED, ["--set", "sweep.protocol=prepared"], {},
         "prepared statements are not possible through the pooler of target far",
         'set protocol = "extended" or "simple"'),
        (ALLOWED, ["--set", "target.far.session_settings.work_mem=8MB"], {},
         "session_settings: are not possible through the pooler", "set them for the role or the database"),
        (ALLOWED, [], {"dsn": "host=127.0.0.1 port=1 user=postgres"},
         "cannot connect through the pooler at 127.0.0.1, port 1, to its database postgres", "check host and port"),
        (ALLOWED, [], {"dsn": "host=127.0.0.1 password=x"}, "load_dsn: password is not allowed here", "PGPASSWORD"),
        (ALLOWED, [], {"dsn": "host=127.0.0.1 port={port} dbname=template1 user=postgres"},
         "the pooler leads to another server or database", "let load_dsn and dsn lead to the same database"),
    ],
    ids=["prepared", "session settings", "unreachable", "password", "elsewhere"],
)  # fmt: skip
def test_a_pooler_that_cannot_be_measured_is_refused_before_the_first_trial(
    kept: PgBouncer,
    home: Home,
    tmp_path: Path,
    more: str,
    words: list[str],
    changes: dict[str, str],
    problem: str,
    hint: str,
) -> None:
    given = {name: value.format(port=kept.server.port) for name, value in changes.items()}
    done = run_pooled(home, tmp_path, kept, more, *words, **given)
    assert done.returncode in (ExitCode.PLAN, ExitCode.TARGET), done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert problem in said
    assert hint in said
    assert not (tmp_path / "pgdyno-runs").exists()


def test_the_remedy_of_a_dsn_that_is_a_pooler_names_load_dsn(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    done = run_pooled(home, tmp_path, kept, server=kept.dsn)
    assert done.returncode == ExitCode.TARGET
    assert "load_dsn (ab: --load-dsn) is for the pooler" in " ".join(done.stderr.split())


@pytest.mark.long_cases("session-")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)
def test_a_killed_run_through_a_pooler_leaves_nothing(
    untouched: PgBouncer, home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    plan = tmp_path / "pooled.toml"
    server = f"host=127.0.0.1 port={untouched.server.port} user=postgres dbname=postgres"
    text = POOLED.format(server=server, dsn=untouched.dsn, more=ALLOWED).replace("500ms", "1h")
    (tmp_path / "slow.sql").write_text("SELECT pg_sleep(3600);\n")
    plan.write_text(text.replace("select-only", "slow.sql"))
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    with running(home, tmp_path, plan) as process:
        wait_until(lambda: untouched.server.value(asleep) == 2)
        process.send_signal(number)
        process.wait(PATIENCE_S)
    wait_until(lambda: not engines(home))
    # the requests to cancel them went through the pooler
    wait_until(lambda: untouched.server.value(asleep) == 0)


def test_a_load_whose_parent_ended_cancels_its_statements_at_a_signal(kept: PgBouncer, tmp_path: Path) -> None:
    (tmp_path / "slow.sql").write_text("SELECT pg_sleep(3600);\n")
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    words = [str(PGDRIVE), "-n", "-f", str(tmp_path / "slow.sql"), "-c", "2", "-T", "3600", "--parent-lease", kept.dsn]
    with subprocess.Popen(words, env=clean(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as load:
        wait_until(lambda: kept.server.value(asleep) == 2)
        assert load.stdin is not None
        load.stdin.close()
        load.send_signal(signal.SIGINT)
        assert load.wait(PATIENCE_S) == 128 + signal.SIGINT
    assert kept.server.value(asleep) == 0


def test_a_failed_run_through_a_pooler_leaves_nothing(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    (tmp_path / "wrong.sql").write_text("SELECT pg_advisory_xact_lock(1); SELECT 1/0;\n")
    done = run_pooled(home, tmp_path, kept, ALLOWED, "--set", "workload.scripts=['wrong.sql']")
    assert done.returncode == ExitCode.TRIALS_FAILED, done.stdout + done.stderr


def test_a_relay_is_no_pooler(behind: OwnServer, home: Home, tmp_path: Path) -> None:
    relay = Relay(behind.port)
    try:
        dsn = f"host=127.0.0.1 port={relay.port} user=postgres dbname=postgres"
        assert pgdyno(home, tmp_path, "watch", dsn, "--once").returncode == 0
        for command in (["-i", "-q", "-s", "1"], ["-M", "prepared", "-t", "5"]):
            done = program(PGDRIVE, *command, dsn)
            assert done.returncode == 0, done.stderr
    finally:
        relay.close()


def test_a_timeout_of_the_role_makes_no_pooler(behind: OwnServer) -> None:
    with behind.connect() as connection:
        connection.execute("CREATE ROLE hasty LOGIN; ALTER ROLE hasty SET statement_timeout = '1ms'")
        try:
            Address({"host": "127.0.0.1", "port": str(behind.port), "user": "hasty"}).connect("postgres").close()
        finally:
            connection.execute("DROP ROLE hasty")


def test_a_session_that_is_older_than_its_connection_is_a_poolers(behind: OwnServer) -> None:
    """As pgpool-II gives them, which passes on the numbers of their processes."""
    began = time.monotonic()
    with behind.connect() as connection:
        _refuse_pooler(connection, began)
        with pytest.raises(PoolerError, match=r"the server's session began \d+ s before the connection"):
            _refuse_pooler(connection, time.monotonic() + 11)


def test_only_one_function_opens_sessions() -> None:
    """Each of them has to look for a pooler."""
    package = Path(sys.modules["pgdyno"].__path__[0])
    opens = re.compile(r"(psycopg|Connection)\.connect\(")
    found = [file.name for file in package.rglob("*.py") if opens.search(file.read_text())]
    assert found == ["direct_session.py"]
