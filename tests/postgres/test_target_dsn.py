"""kind = "dsn": an existing server, and what pgdyno may do to it."""

import io
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from rich.console import Console

from pgdyno.errors import PlanError, TargetError
from pgdyno.experiment import run_experiment
from pgdyno.plan import load_plan
from pgdyno.prepare import Dataset
from pgdyno.records import EventOutcome, Outcome
from pgdyno.report.terminal.progress import live_view
from pgdyno.store import RunFolder
from pgdyno.targets import Home, Server, SilentProgress, Use, WhenBusy
from pgdyno.targets.cluster.reconfigure import reconfigure
from pgdyno.targets.connection import Address
from pgdyno.targets.dsn.reach import Reached
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.lock import LOCK_KEY, server_in_use
from tests.postgres.far_server import PASSWORD, dsn, far, fetch
from tests.postgres.runs import fast_plan
from tests.postgres.servers import execute, opened, preparer, rows, value
from tests.present import present
from tests.waiting import wait_until

SMALL = Dataset("pgbench", 1)
PLAN = fast_plan(
    'scripts = ["tpcb-like"]\nscale = 1',
    "clients = 2",
    'transactions = 50\nrepeats = 2\n[reset]\ncheckpoint = {checkpoint}\nmethod = "template"',
    ["theirs"],
    'kind = "dsn"\ndsn = "{dsn}"\npassword_env = "BENCH_PASSWORD"\ndatabase = "measured"\nsettings.work_mem = "7MB"',
)


def test_pgdyno_creates_and_keeps_its_own_database(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    # what an interrupt leaves is known to be pgdyno's
    with monkeypatch.context() as patch:
        patch.setattr("pgdyno.targets.dsn.reach._sign", interrupted)
        with pytest.raises(KeyboardInterrupt), opened(home, far(theirs.port)):
            pass
    for _ in range(2):
        with opened(home, far(theirs.port)) as server:
            assert (server.machine, server.alive(), server.owns_database, server.log_size()) == (None, True, True, 0)
            assert server.facts().version.startswith("18.")
            execute(server, "CREATE TABLE IF NOT EXISTS kept (n int)")
            assert value(server, "SELECT current_database() || ' of ' || current_user") == "measured of bench"
            # that needs the server's machine
            for work in (server.restart, server.stop, server.start):
                with pytest.raises(TargetError, match="pgdyno reaches the server only over the network"):
                    work()
            with pytest.raises(TargetError, match="cannot look at the data directory"):
                server.data_directory.exists()
    assert value(theirs, "SELECT count(*) FROM kept", "measured") == 0
    # under another name, it is somebody's
    execute(theirs, "ALTER DATABASE measured RENAME TO other", dbname="postgres")
    with pytest.raises(TargetError, match="pgdyno did not create it"):
        fetch(home, far(theirs.port, database="other"))


def test_another_database_is_used_only_when_the_plan_allows_it(theirs: Server, home: Home) -> None:
    execute(theirs, "CREATE DATABASE measured OWNER bench")
    execute(theirs, "CREATE TABLE precious AS SELECT 1 AS n", dbname="measured")
    with pytest.raises(TargetError, match="target far: cannot use the database measured: pgdyno did not create it"):
        fetch(home, far(theirs.port))
    assert value(theirs, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgdyno'", "measured") == 0
    with opened(home, far(theirs.port, allow_existing=True)) as server:
        assert preparer(server, checkpoint=False, method="reload").prepare(SMALL).method == "reload"
        with pytest.raises(TargetError, match="cannot change settings of the database measured"):
            reconfigure(server, {"work_mem": "9MB"})
    assert value(theirs, "SELECT n FROM precious", "measured") == 1
    changed = far(theirs.port, allow_existing=True, settings={"work_mem": "7MB"})
    with pytest.raises(TargetError, match="cannot change settings of the database measured"), opened(home, changed):
        pass


def test_settings_are_the_databases_and_go_with_the_run(theirs: Server, home: Home) -> None:
    wanted = far(theirs.port, settings={"work_mem": "7MB", "search_path": "public, pg_catalog"})
    # a template of somebody's
    execute(theirs, "CREATE DATABASE measured_template OWNER bench")
    with opened(home, wanted) as server:
        trials = preparer(server, checkpoint=False, method="template")
        with pytest.raises(TargetError, match="one without a dataset stamp exists"):
            trials.prepare(SMALL)
        execute(theirs, "DROP DATABASE measured_template")
        trials.prepare(SMALL)
        # the database was created again from the template since
        assert value(server, "SHOW work_mem") == "7MB"
        # ours is without pg_catalog, so that it comes first
        assert value(server, "SHOW search_path") == "public"
        with server.address.connect(server.dbname, as_is=True) as connection:
            assert connection.execute("SHOW search_path").fetchone() == ("public, pg_catalog",)
        assert server.facts().settings_changed["work_mem"] == "7MB"
        # of a point
        given = {"work_mem": "8192kB", "random_page_cost": "2"}
        path = {"search_path": wanted.settings["search_path"]}
        done = present(reconfigure(server, path | given))
        assert (done.restarted, done.values) == (False, {"work_mem": "8MB", "random_page_cost": "2"})
        assert reconfigure(server, path | given) is None
        before = server.plan_settings
        for settings, said in (
            ({"shared_buffers": "1GB"}, "cannot set shared_buffers"),
            ({"work_mem": "9MB", "jit_above_cost": "much"}, "cannot change settings: invalid value"),
        ):
            with pytest.raises(TargetError, match=said):
                reconfigure(server, path | settings)
            # as they were
            assert server.plan_settings == before
            assert [value(server, f"SHOW {name}") for name in given] == ["8MB", "2"]
        reconfigure(server, path | {"work_mem": "7MB"})
        assert [value(server, f"SHOW {name}") for name in given] == ["7MB", "4"]
    assert value(theirs, "SHOW work_mem", "measured") == "4MB"


def test_an_autovacuum_keeps_no_role_from_copying_its_database(theirs: Server, home: Home) -> None:
    execute(theirs, "ALTER SYSTEM SET autovacuum_naptime = 1", "SELECT pg_reload_conf()")
    slow = "autovacuum_vacuum_threshold = 100, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 10"
    with opened(home, far(theirs.port)) as server:
        trials = preparer(server, checkpoint=False, method="template")
        trials.prepare(SMALL)
        execute(
            server,
            f"CREATE TABLE dusty (id int, filler text) WITH ({slow})",
            "INSERT INTO dusty SELECT i, repeat('x', 400) FROM generate_series(1, 8000) i",
            "UPDATE dusty SET id = id + 1",
        )
        vacuum = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'measured' AND backend_type LIKE 'autovacuum%'"
        wait_until(lambda: value(theirs, vacuum))
        assert trials.prepare(SMALL).method == "template"
        assert not value(theirs, vacuum)
    execute(theirs, "ALTER SYSTEM RESET autovacuum_naptime", "SELECT pg_reload_conf()")


def test_what_cannot_be_is_known_at_once(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, why in (
        ("shared_buffers", "takes effect when the server starts"),
        ("max_wal_size", "belongs to the server's configuration file"),
        ("wrk_mem", "the server has no such setting"),
    ):
        with pytest.raises(TargetError, match=why):
            fetch(home, far(theirs.port, settings={setting: "1GB"}))
    execute(theirs, "DROP DATABASE IF EXISTS measured", "ALTER ROLE bench NOCREATEDB")
    with pytest.raises(TargetError, match="the role may not create databases") as caught:
        fetch(home, far(theirs.port))
    assert "CREATEDB" in str(caught.value.hint)
    monkeypatch.setenv("BENCH_PASSWORD", "wrong one")
    with pytest.raises(TargetError, match="password authentication failed") as caught:
        fetch(home, far(theirs.port))
    assert "wrong one" not in caught.value.message
    assert caught.value.hint == "check PGPASSWORD, ~/.pgpass or the variable of password_env"


def test_values_that_do_not_come_into_effect(theirs: Server, home: Home) -> None:
    said = "cannot change settings of the database measured: invalid value"
    with pytest.raises(TargetError, match=said), opened(home, far(theirs.port, settings={"work_mem": "much"})):
        pass
    # a setting of the role is not taken for the plan's
    said = "cannot set work_mem = 7MB: 5MB is in effect, from a setting of the role"
    execute(theirs, "ALTER ROLE bench SET work_mem = '5MB'")
    with pytest.raises(TargetError, match=said), opened(home, far(theirs.port, settings={"work_mem": "7MB"})):
        pass
    with opened(home, far(theirs.port)) as server:
        with pytest.raises(TargetError, match=said):
            reconfigure(server, {"work_mem": "7MB"})
        assert server.plan_settings == {}
        query = "SELECT setconfig FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase WHERE datname = "
        assert rows(server, f"{query} current_database()") == []


@pytest.mark.parametrize("source", ["service file", "password file", "password file of a server of pgdyno's"])
def test_files_may_have_the_password(
    theirs: Server, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    file = tmp_path / "file"
    file.write_text(f"*:*:*:bench:{PASSWORD}\n")
    file.chmod(0o600)
    if source == "service file":
        file.write_text(f"[far]\nhost=127.0.0.1\nport={theirs.port}\nuser=bench\npassword={PASSWORD}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        spec = far(theirs.port, dsn="service=far", password_env=None)
    elif source == "password file":
        monkeypatch.setenv("PGPASSFILE", str(file))
        spec = far(theirs.port, password_env=None)
    else:
        monkeypatch.setenv("PGPASSWORD", "of another server")
        spec = DsnTarget.with_password_file(f"{dsn(theirs.port)} passfile={file}", database="measured")
    with opened(home, spec) as server:
        # resolved: the engine gets what the service says, and not its name
        assert "PGSERVICE" not in server.environment()
        assert PASSWORD not in repr(server)
        if source != "service file":
            assert "PGPASSWORD" not in server.environment()
            assert server.commands_environment().get("PGPASSWORD") == ("" if "pgdyno" in source else None)
        # the engine reaches the server, too
        assert preparer(server, checkpoint=False).prepare(SMALL).steps[0].detail == "pgbench at scale 1"


@pytest.mark.parametrize(
    ("words", "said", "remedy"),
    [
        ("dbname=nosuch", 'database "nosuch" does not exist', "check dbname"),
        ("sslmode=require", "does not support SSL", "sslmode=prefer"),
        ("host=/nosuch", "No such file or directory", "socket's folder"),
        ("options=limited", "too many connections for role", "CONNECTION LIMIT"),
        ("port=1", "Connection refused", "check host and port"),
        # a server does not say whether the role exists
        ("user=nosuch", "password authentication failed", "check PGPASSWORD"),
    ],
)
def test_a_connection_that_fails_names_its_remedy(theirs: Server, words: str, said: str, remedy: str) -> None:
    parameters = conninfo_to_dict(f"{dsn(theirs.port)} dbname=postgres {words}")
    if parameters.pop("options", None):
        execute(theirs, "ALTER ROLE bench CONNECTION LIMIT 0")
    dbname = str(parameters.pop("dbname"))
    with pytest.raises(TargetError, match=said) as caught:
        Address({name: str(value) for name, value in parameters.items()}, PASSWORD).connect(dbname)
    assert remedy in str(caught.value.hint)


def test_one_pgdyno_at_a_time(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = fetch(home, far(theirs.port))
    assert isinstance(reached, Reached)
    # as another process would: its sessions have another name
    with theirs.connect("postgres") as other:
        other.execute("SET application_name = 'pgdyno 0badcafe 17@elsewhere slow'")
        other.execute("SELECT pg_advisory_lock_shared(%s, %s)", LOCK_KEY)
        with pytest.raises(TargetError, match=r"another pgdyno is measuring this server: .*17@elsewhere slow") as busy:
            fetch(home, far(theirs.port))
        assert "--wait" in str(busy.value.hint)
        with opened(home, far(theirs.port), use=Use("far", WhenBusy.ALONGSIDE)) as server:
            assert [note.id for note in server.notes] == ["alongside-at-server"]

        class Told(SilentProgress):
            said: list[str] = []

            def step(self, text: str) -> None:
                if text.startswith("waiting: another pgdyno is measuring this server"):
                    self.said.append(text)
                    other.close()

        monkeypatch.setattr("pgdyno.targets.lock.POLL_S", 0.01)
        with opened(home, far(theirs.port), progress=Told(), use=Use("far", WhenBusy.WAIT)) as server:
            assert server.notes == []
        assert len(Told.said) == 1
    with server_in_use(reached.address, "postgres", Use("far"), SilentProgress()) as note:
        assert note is None
        # ourselves at a second target of the same server
        with server_in_use(reached.address, "template1", Use("far"), SilentProgress()) as second:
            assert second is None


def run(theirs: Server, folder: Path, checkpoint: str = "false", plan: str = PLAN) -> RunFolder:
    """Returns a run of two trials that finished, in none of whose files the password is."""
    path = folder / "far.toml"
    path.write_text(plan.format(dsn=dsn(theirs.port), checkpoint=checkpoint))
    with live_view(Console(file=io.StringIO()), quiet=True) as view:
        finished = run_experiment(load_plan(path), folder / "runs", view)
    for file in finished.folder.path.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    assert [record.outcome for record in finished.records] == [Outcome.FINISHED] * 2
    return finished.folder


def test_options_of_the_connection_are_in_force_and_only_the_plan_keeps_them(theirs: Server, tmp_path: Path) -> None:
    insert = "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0)"
    (tmp_path / "token.sql").write_text(f"SELECT 1 / (length(current_setting('app.token')) - 5);\n{insert};\n")
    options = PLAN.replace("{dsn}", "{dsn} options='-c app.token=sEcret'").replace('"tpcb-like"', '"token.sql"')
    folder = run(theirs, tmp_path, plan=options)
    manifest = folder.manifest
    assert manifest.plan["target"]["theirs"]["dsn"] == f"{dsn(theirs.port)} options='-c app.token=sEcret'"
    assert manifest.targets[0].asked["dsn"] == f"{dsn(theirs.port)} options=***"
    holding = [file.name for file in folder.path.rglob("*") if file.is_file() and b"sEcret" in file.read_bytes()]
    assert holding == ["manifest.json"]
    # of the second trial alone
    assert value(theirs, "SELECT count(*) FROM pgbench_history", "measured") == 100
    assert value(theirs, "SHOW work_mem", "measured") == "4MB"


EVERYTHING = (
    PLAN.replace("clients = 2\n", 'clients = 2\nrate = 100\nsettings.work_mem = ["5MB", "6MB"]\n')
    .replace("transactions = 50\nrepeats = 2", 'warmup = "0s"\nduration = "1s"\nledger = true\nmin_free_disk = "1kB"')
    .replace(
        "[reset]", '[[event]]\nat = "0.3s"\ndo = "vacuum"\n[[event]]\nat = "0.3s"\ndo = {{ command = "true" }}\n[reset]'
    )
    + """\
[hooks]
before_trial = "echo data=$PGDYNO_DATA_DIRECTORY replicas=$PGDYNO_REPLICA_PORTS port=$PGPORT >> told"
"""
)


def test_all_that_a_trial_may_have_is_possible_over_the_network(theirs: Server, tmp_path: Path) -> None:
    trials = run(theirs, tmp_path, plan=EVERYTHING).trials()
    assert (tmp_path / "told").read_text() == f"data= replicas= port={theirs.port}\n" * 2
    assert {trial.point.settings["work_mem"] for trial in trials} == {"5MB", "6MB"}
    for trial in trials:
        assert [event.outcome for event in trial.events] == [EventOutcome.DONE] * 2
        assert (present(trial.ledger).missing, trial.replication, trial.background) == (0, [], [])
    # chance decides which of the two comes second
    changed = [step.detail for step in present(trials[1].prepare).steps if step.name == "configure"]
    assert changed == [f"reloaded: work_mem = {trials[1].point.settings['work_mem']}"]


def test_missing_privileges_of_the_role_are_reported_with_the_line(theirs: Server, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        run(theirs, tmp_path, checkpoint="true")
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("reset.checkpoint", 17)
    assert not (tmp_path / "runs").exists()
