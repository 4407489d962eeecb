"""PgBouncer in front of a server: every command but a load refuses it, and none leaves anything in its sessions."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.direct_session import PoolerError, _refuse_pooler
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.pgbouncer import PgBouncer, pgbouncer
from tests.postgres.relay import Relay
from tests.postgres.replay_sample import Sample, simple
from tests.postgres.runs import engines, environment, fast_plan, pgdyno, running, the_run
from tests.present import present
from tests.run_program import BIN, PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

LUA = """\
function thread_init() drv = sysbench.sql.driver(); con = drv:connect() end
function event() local statement = con:prepare('SELECT 1'); statement:execute() end
"""
SLOW = "SELECT pg_sleep(3600);\n"
OBJECTS = "SELECT array[(SELECT count(*) FROM pg_database), (SELECT count(*) FROM pg_class)]"
ALLOWED = 'database = "postgres"\nallow_existing = true'
SIGNALS = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)


@pytest.fixture(scope="module")
def behind(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "") as server:
        run_program([PGDRIVE, "-i", "-q", "-s", "1"], env=server.environment(), check=True)
        yield server


@pytest.fixture(scope="module", params=["transaction", "session"])
def pooler(request: pytest.FixtureRequest, behind: OwnServer) -> Iterator[PgBouncer]:
    with tempfile.TemporaryDirectory(prefix="pgdyno-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with pgbouncer(behind, request.param, Path(folder) / "pooler") as pooler:
            yield pooler


@pytest.fixture
def untouched(pooler: PgBouncer) -> Iterator[PgBouncer]:
    """The pooler; after the test, its sessions are as they were before."""
    (state,) = {repr(each): each for each in pooler.sessions().values()}.values()
    yield pooler
    for session in pooler.sessions().values():
        assert session == state
    assert pooler.server.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


@pytest.fixture
def kept(untouched: PgBouncer) -> Iterator[PgBouncer]:
    """The pooler; after the test, it has the same sessions, and they are as they were before."""
    before = set(untouched.sessions())
    yield untouched
    assert set(untouched.sessions()) == before


def program(*command: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    return run_program(command, code=code)


def dsn_of_server(pooler: PgBouncer) -> str:
    return pooler.dsn.replace(str(pooler.port), str(pooler.server.port))


def plan_on(dsn: str, more: str = "", script: str = "tpcb-like", duration: str = "300ms") -> str:
    trial = f'duration = "{duration}"\nwarmup = "0s"'
    server = f'kind = "dsn"\ndsn = "{dsn}"\n{more}'
    return fast_plan(f'scripts = ["{script}"]\nscale = 1', "clients = [2]", trial, ["far"], server)


def fill_command(words: str, pooler: PgBouncer, folder: Path) -> list[str]:
    plan, script = folder / "plan.toml", folder / "q.sql"
    plan.write_text(plan_on(pooler.dsn))
    script.write_text("SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n")
    names = {"dsn": pooler.dsn, "server": dsn_of_server(pooler), "folder": folder, "plan": plan, "script": script}
    return [word.format(**names) for word in words.split()]


def rejection(home: Home, folder: Path, *words: str, code: ExitCode = ExitCode.TARGET) -> str:
    done = pgdyno(home, folder, *words, code=code)
    # nothing was prepared
    assert not (folder / "pgdyno-runs").exists()
    assert not (folder / "capture").exists()
    return " ".join((done.stderr or done.stdout).split())


COMMANDS = {
    "watch": "watch {dsn} --once",
    "run": "run {plan}",
    "ab": "ab --dsn {dsn} --set work_mem=4MB,64MB --script {script} --no-preflight",
    "ab of the server and its pooler": "ab --dsn {server} --dsn {dsn} --script {script} --no-preflight",
    "capture": "capture {dsn} --for 1s --into {folder}/capture",
    "capture of statistics": "capture {dsn} --statements --for 1s --into {folder}/capture",
    "tune": "tune {plan}",
}


def test_a_command_refuses_a_pooler(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    objects = kept.server.value(OBJECTS)
    # one function opens all sessions (see the last test), so that a few commands stand for all in the other mode
    for name in COMMANDS if kept.mode == "transaction" else ("watch", "run"):
        said = rejection(home, tmp_path, *fill_command(COMMANDS[name], kept, tmp_path))
        assert f"127.0.0.1, port {kept.port}, is a connection pooler, not a server: " in said, name
        assert f"name the server itself: the pooler reaches it at 127.0.0.1, port {kept.server.port}" in said, name
    said = rejection(home, tmp_path, *fill_command("doctor {plan}", kept, tmp_path), code=ExitCode.PREFLIGHT)
    assert re.search("stop network.round-trip .*is a connection pooler", said)
    assert kept.server.value(OBJECTS) == objects


@pytest.mark.long_cases("session")
def test_options_and_the_console_of_a_pooler_are_recognised(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    # PgBouncer refuses options in words that name no remedy: they do not reach it
    said = rejection(home, tmp_path, "watch", f"{kept.dsn} options='-c work_mem=8MB'", "--once")
    assert "is a connection pooler, not a server" in said
    console = kept.dsn.replace("user=postgres dbname=postgres", "user=admin dbname=pgbouncer")
    assert "is PgBouncer's console, not a server" in rejection(home, tmp_path, "watch", console, "--once")
    for unknown in (console.replace("admin", "postgres"), f"{kept.dsn} dbname=unknown"):
        said = rejection(home, tmp_path, "watch", unknown, "--once")
        assert "these are words of a connection pooler: name the server itself" in said
    for load in ("-i", "-T 1", "-n -S -T 1"):
        tried = program(PGDRIVE, *load.split(), console, code=1)
        assert "it is PgBouncer's console" in tried.stderr


def test_a_load_of_a_dataset_and_the_probe_refuse_a_pooler(kept: PgBouncer) -> None:
    rows = kept.server.value("SELECT count(*) FROM pgbench_accounts")
    for words in ("-i", "-i -I dtgvp", "-i --dataset=sbtest", "-i --tpcc-check --dataset=tpcc"):
        done = program(PGDRIVE, *words.split(), kept.dsn, code=1)
        assert "it is a connection pooler, not a server" in done.stderr
        assert f"the pooler reaches it at 127.0.0.1, port {kept.server.port}" in done.stderr
    done = program(BIN / "pgprobe", "--no-host", f"--dbname={kept.dsn}", code=1)
    assert "it is a connection pooler, not a server" in done.stderr
    assert kept.server.value("SELECT count(*) FROM pgbench_accounts") == rows


def test_a_load_leaves_nothing(untouched: PgBouncer, tmp_path: Path) -> None:
    for load in ("-M simple", "-M extended", "-M simple --auto-pipeline", "-C", "--reconnect", "--ledger", "-v"):
        done = program(PGDRIVE, *load.split(), "-c", "8", "-j", "2", "-t", "20", untouched.dsn)
        assert "number of transactions actually processed: 160/160" in done.stdout
    # the remedy of a script that prepares
    (tmp_path / "script.lua").write_text(LUA)
    program(PGDRIVE, f"--lua={tmp_path}/script.lua", "--lua-opt=db-ps-mode=disable", "-t", "5", untouched.dsn)


def test_a_pooler_of_single_statements_is_refused(behind: OwnServer, home: Home, scratch: Path, tmp_path: Path) -> None:
    objects = behind.value(OBJECTS)
    with pgbouncer(behind, "statement", scratch / "pooler") as pooler:
        for command in ("watch", "run", "capture"):
            said = rejection(home, tmp_path, *fill_command(COMMANDS[command], pooler, tmp_path))
            assert "is a connection pooler, not a server: " in said
        for options in ("-i", "-n -M prepared -t 5"):
            done = program(PGDRIVE, *options.split(), pooler.dsn, code=1)
            assert "it is a connection pooler, not a server" in done.stderr
        program(PGDRIVE, "-n", "-S", "-t", "5", pooler.dsn)
    assert behind.value(OBJECTS) == objects


def test_a_load_that_would_leave_something_is_refused_and_a_check_is_not(kept: PgBouncer, tmp_path: Path) -> None:
    (tmp_path / "script.lua").write_text(LUA)
    sample = Sample()
    sample.session(0, 1, simple(0, "SET work_mem = '8MB'"))
    sample.write(tmp_path / "load.replay")
    for load in ("-M prepared", "--replay={folder}/load.replay", "--lua={folder}/script.lua", "--workload=tpcc"):
        done = program(PGDRIVE, *fill_command(load, kept, tmp_path), kept.dsn, code=1)
        assert "in the sessions of a connection pooler, which other clients use, too" in done.stderr
        remedy = f"name the server itself: the pooler reaches it at 127.0.0.1, port {kept.server.port}"
        assert re.search(f"hint: .*{remedy}", done.stderr), done.stderr
    program(PGDRIVE, *fill_command("--check -f {script}", kept, tmp_path), kept.dsn)
    checked = program(PGDRIVE, "--tpcc-check", "--warehouses=1", kept.dsn, code=1)
    assert 'relation "warehouse" does not exist' in checked.stderr


# the signals end one loop, and the modes differ in what a session keeps
@pytest.mark.long_cases("SIGTERM", "session-SIGINT")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_killed_load_leaves_nothing(untouched: PgBouncer, number: signal.Signals) -> None:
    for load in ("-M simple", "-M extended", "--ledger"):
        words = [str(PGDRIVE), *load.split(), "-n", "-c", "8", "-j", "2", "-T", "3600", untouched.dsn]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_load(untouched)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) in (-number, 128 + number)


def wait_for_load(pooler: PgBouncer) -> None:
    query = "SELECT count(*) FROM pgbench_history"
    before = pooler.server.value(query)
    wait_until(lambda: pooler.server.value(query) > before)


KILLED = {
    **{name: f"{BIN / 'pgdyno'} {COMMANDS[name]}" for name in ("watch", "run", "capture", "ab", "tune")},
    "doctor": f"{BIN / 'pgdyno'} doctor {{plan}}",
    "load of the dataset": f"{PGDRIVE} -i",
    "probe": f"{BIN / 'pgprobe'} --no-host",
    "prepared": f"{PGDRIVE} -n -M prepared -T 3600",
}


@pytest.mark.long_cases(
    *(f"session-{each}" for each in KILLED if each != "run"),
    "session-run-SIGINT",
    *(f"-{each}-" for each in KILLED if each not in ("run", "probe", "prepared")),
)
@SIGNALS
@pytest.mark.parametrize("command", KILLED)
def test_a_command_that_is_killed_while_it_asks_leaves_nothing(
    untouched: PgBouncer, home: Home, tmp_path: Path, command: str, number: signal.Signals
) -> None:
    words = fill_command(KILLED[command], untouched, tmp_path)
    if not words[0].endswith("pgdyno"):
        words.append(f"--dbname={untouched.dsn}" if command == "probe" else untouched.dsn)
    with untouched.paused():
        process = subprocess.Popen(
            words, cwd=tmp_path, env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(lambda: process.poll() is not None or untouched.waiting())
        assert process.poll() is None
        process.send_signal(number)
        process.wait(PATIENCE_S)


def test_a_run_leaves_a_poolers_sessions_alone(behind: OwnServer, home: Home, scratch: Path, tmp_path: Path) -> None:
    """They keep the names that users gave to pgdrive's clients."""
    with pgbouncer(behind, "transaction", scratch / "pooler") as pooler:
        program(PGDRIVE, "-n", "-c", "8", "-t", "5", f"{pooler.dsn} application_name='pgdrive 00000000/1'")
        before = pooler.sessions()
        fill_command("", pooler, tmp_path)
        pgdyno(home, tmp_path, "run", "plan.toml", "--set", f"target.far.dsn={dsn_of_server(pooler)}", code=0)
        assert pooler.sessions() == before


# ---- loads through a pooler ----


def pooled_plan(
    pooler: PgBouncer,
    folder: Path,
    more: str = ALLOWED,
    script: str = "select-only",
    duration: str = "300ms",
    **dsns: str,
) -> str:
    plan = folder / "pooled.toml"
    more = f'load_dsn = "{dsns.get("load_dsn", pooler.dsn)}"\n{more}'
    plan.write_text(plan_on(dsns.get("dsn", dsn_of_server(pooler)), more, script, duration))
    return str(plan)


def test_a_load_through_a_pooler_leaves_nothing(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    named = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgd%'"
    plan = pooled_plan(kept, tmp_path)
    pgdyno(home, tmp_path, "run", plan, "--set", "sweep.protocol=['simple', 'extended']", code=0)
    stats = {row["database"]: int(row["total_xact_count"]) for row in kept.ask("SHOW STATS")}
    assert stats["postgres"] >= sum(present(trial.summary).succeeded or 0 for trial in the_run(tmp_path).trials()) > 0
    # as the server sees them, before another client changes it
    assert kept.server.value(named) == 0
    (target,) = the_run(tmp_path).manifest.targets
    assert present(target.facts).pooler is not None


def test_a_database_of_pgdynos_own_is_measured_through_a_pooler(
    behind: OwnServer, home: Home, scratch: Path, tmp_path: Path
) -> None:
    with pgbouncer(behind, "transaction", scratch / "pooler", "pgdyno") as pooler:
        plan = pooled_plan(pooler, tmp_path, "", load_dsn=pooler.dsn.replace("dbname=postgres", "dbname=pgdyno"))
        pgdyno(home, tmp_path, "run", plan, "--set", "reset.method=template", "--set", "trial.repeats=2", code=0)
        assert len(the_run(tmp_path).trials()) == 2
    with behind.connect() as connection:
        connection.execute("DROP DATABASE pgdyno")
        connection.execute("DROP DATABASE pgdyno_template")


@pytest.mark.long_cases("session")
def test_a_pooler_that_cannot_be_measured_is_refused_before_the_first_trial(
    kept: PgBouncer, home: Home, tmp_path: Path
) -> None:
    own = f"host=127.0.0.1 port={kept.server.port} dbname=template1 user=postgres"
    for code, words, dsns, said in (
        (ExitCode.PLAN, ["--set", "sweep.protocol=prepared"], {},
         "prepared statements are not possible through the pooler of target far.*protocol = .extended. or .simple."),
        (ExitCode.PLAN, ["--set", "target.far.session_settings.work_mem=8MB"], {},
         "session_settings: are not possible through the pooler.*set them for the role or the database"),
        (ExitCode.TARGET, [], {"load_dsn": "host=127.0.0.1 port=1 user=postgres"},
         "cannot connect through the pooler at 127.0.0.1, port 1, to its database postgres.*check host and port"),
        (ExitCode.PLAN, [], {"load_dsn": "host=127.0.0.1 password=x"},
         "load_dsn: password is not allowed here.*PGPASSWORD"),
        (ExitCode.TARGET, [], {"load_dsn": own},
         "the pooler leads to another server or database.*let load_dsn and dsn lead to the same database"),
        (ExitCode.TARGET, [], {"dsn": kept.dsn}, r"load_dsn \(ab: --load-dsn\) is for the pooler"),
    ):  # fmt: skip
        plan = pooled_plan(kept, tmp_path, **dsns)
        assert re.search(said, rejection(home, tmp_path, "run", plan, *words, code=code))


ASLEEP = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@pytest.mark.long_cases("session-")
@SIGNALS
def test_a_killed_run_through_a_pooler_leaves_nothing(
    untouched: PgBouncer, warm_home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "slow.sql").write_text(SLOW)
    plan = pooled_plan(untouched, tmp_path, script="slow.sql", duration="1h")
    with running(warm_home, tmp_path, Path(plan)) as process:
        wait_until(lambda: untouched.server.value(ASLEEP) == 2)
        process.send_signal(number)
        process.wait(PATIENCE_S)
    wait_until(lambda: not engines(warm_home))
    # the requests to cancel them went through the pooler
    wait_until(lambda: untouched.server.value(ASLEEP) == 0)


def test_a_load_whose_parent_ended_cancels_its_statements_at_a_signal(kept: PgBouncer, tmp_path: Path) -> None:
    (tmp_path / "slow.sql").write_text(SLOW)
    words = [str(PGDRIVE), "-n", "-f", f"{tmp_path}/slow.sql", "-c", "2", "-T", "3600", "--parent-lease", kept.dsn]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as load:
        wait_until(lambda: kept.server.value(ASLEEP) == 2)
        present(load.stdin).close()
        load.send_signal(signal.SIGINT)
        assert load.wait(PATIENCE_S) == 128 + signal.SIGINT
    assert kept.server.value(ASLEEP) == 0


@pytest.mark.long_cases("session")
def test_a_failed_run_through_a_pooler_leaves_nothing(kept: PgBouncer, home: Home, tmp_path: Path) -> None:
    (tmp_path / "wrong.sql").write_text("SELECT pg_advisory_xact_lock(1); SELECT 1/0;\n")
    pgdyno(home, tmp_path, "run", pooled_plan(kept, tmp_path, script="wrong.sql"), code=ExitCode.TRIALS_FAILED)


# ---- what is no pooler ----


def test_a_relay_is_no_pooler(behind: OwnServer, home: Home, tmp_path: Path) -> None:
    relay = Relay(behind.port)
    try:
        dsn = f"host=127.0.0.1 port={relay.port} user=postgres dbname=postgres"
        assert pgdyno(home, tmp_path, "watch", dsn, "--once").returncode == 0
        for command in (["-i", "-q", "-s", "1"], ["-M", "prepared", "-t", "5"]):
            program(PGDRIVE, *command, dsn)
    finally:
        relay.close()


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
