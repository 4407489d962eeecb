"""kind = "dsn": an existing server, and what pgdyno may do to it."""

import io
import os
from collections.abc import Iterator
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
from pgdyno.targets import Home, Server, SilentProgress, Use, WhenBusy, fetch_target
from pgdyno.targets.cluster.reconfigure import reconfigure
from pgdyno.targets.connection import Address
from pgdyno.targets.dsn.reach import Reached
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.lock import LOCK_KEY, server_in_use
from tests.postgres.servers import embedded, opened, preparer, value
from tests.present import present

PASSWORD = "only in the environment"
SMALL = Dataset("pgbench", 1)
PLAN = """\
name = "far"
[target.theirs]
kind = "dsn"
dsn = "{dsn}"
password_env = "BENCH_PASSWORD"
database = "measured"
[target.theirs.settings]
work_mem = "7MB"
[workload]
scripts = ["tpcb-like"]
scale = 1
[sweep]
clients = 2
[trial]
transactions = 50
repeats = 2
[reset]
checkpoint = {checkpoint}
method = "template"
"""


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    with opened(home, embedded(connect="tcp"), "theirs") as server:
        with server.connect() as connection:
            connection.execute(f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
        yield server


@pytest.fixture(autouse=True)
def clean(theirs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG") and not name.startswith("PGDYNO")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BENCH_PASSWORD", PASSWORD)
    with theirs.connect("postgres") as connection:
        for name in ("measured", "measured_template", "other"):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def dsn(theirs: Server) -> str:
    return f"host={theirs.host} port={theirs.port} user=bench"


def spec(theirs: Server, **fields: object) -> DsnTarget:
    values = {"kind": "dsn", "dsn": dsn(theirs), "password_env": "BENCH_PASSWORD", "database": "measured", **fields}
    return DsnTarget.model_validate(values)


def test_pgdyno_creates_and_keeps_its_own_database(theirs: Server, home: Home) -> None:
    for _ in range(2):
        with opened(home, spec(theirs), "far") as server:
            assert server.machine is None
            assert server.alive()
            assert server.log_size() == 0
            facts = server.facts()
            with server.connect() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
                row = connection.execute("SELECT current_database(), current_user").fetchone()
            assert row == ("measured", "bench")
    assert facts.version.startswith("18.")
    assert value(theirs, "SELECT count(*) FROM kept", "measured") == 0


def test_an_interrupt_leaves_no_unmarked_database(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pgdyno.targets.dsn.reach._sign", interrupted)
        with pytest.raises(KeyboardInterrupt), opened(home, spec(theirs), "far"):
            pass
    with opened(home, spec(theirs), "far") as server:
        assert server.owns_database


def test_options_that_need_the_server_s_machine_are_refused(theirs: Server, home: Home) -> None:
    with opened(home, spec(theirs), "far") as server:
        for work in (server.restart, server.stop, server.start):
            with pytest.raises(TargetError, match="pgdyno reaches the server only over the network"):
                work()
        with pytest.raises(TargetError, match="cannot look at the data directory"):
            server.data_directory.exists()


def test_a_database_that_it_did_not_make_is_not_touched(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("CREATE DATABASE measured OWNER bench")
    with pytest.raises(TargetError, match="target far: cannot use the database measured: pgdyno did not create it"):
        # known before anything runs
        fetch_target("far", spec(theirs), home=home, progress=SilentProgress())
    assert value(theirs, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgdyno'", "measured") == 0


def test_a_role_that_may_not_make_databases(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("ALTER ROLE bench NOCREATEDB")
        try:
            with pytest.raises(TargetError, match="the role may not create databases") as caught:
                fetch_target("far", spec(theirs), home=home, progress=SilentProgress())
        finally:
            connection.execute("ALTER ROLE bench CREATEDB")
    assert "CREATEDB" in str(caught.value.hint)


def test_a_database_that_was_renamed_is_somebodys(theirs: Server, home: Home) -> None:
    with opened(home, spec(theirs), "far"):
        pass
    with theirs.connect("postgres") as connection:
        connection.execute("ALTER DATABASE measured RENAME TO other")
    with (
        pytest.raises(TargetError, match="pgdyno did not create it"),
        opened(home, spec(theirs, database="other"), "far"),
    ):
        pass


def test_another_database_is_used_when_the_plan_allows_it(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("CREATE DATABASE measured OWNER bench")
    with theirs.connect("measured") as connection:
        connection.execute("CREATE TABLE precious AS SELECT 1 AS n")
    allowed = spec(theirs, allow_existing=True)
    with opened(home, allowed, "far") as server:
        assert preparer(server, checkpoint=False, method="reload").prepare(SMALL).method == "reload"
        with pytest.raises(TargetError, match="cannot change settings of the database measured"):
            reconfigure(server, {"work_mem": "9MB"})
    assert value(theirs, "SELECT n FROM precious", "measured") == 1
    changed = allowed.model_copy(update={"settings": {"work_mem": "7MB"}})
    with (
        pytest.raises(TargetError, match="cannot change settings of the database measured"),
        opened(home, changed, "far"),
    ):
        pass


def test_settings_are_the_databases_and_go_with_the_run(theirs: Server, home: Home) -> None:
    wanted = spec(theirs, settings={"work_mem": "7MB", "search_path": "public, pg_catalog"})
    with opened(home, wanted, "far") as server:
        preparer(server, checkpoint=False, method="template").prepare(SMALL)
        # the database was created again from the template since
        assert value(server, "SHOW work_mem") == "7MB"
        # ours is without pg_catalog, so that it comes first
        assert value(server, "SHOW search_path") == "public"
        with server.address.connect(server.dbname, as_is=True) as connection:
            assert connection.execute("SHOW search_path").fetchone() == ("public, pg_catalog",)
        assert server.facts().settings_changed["work_mem"] == "7MB"
    assert value(theirs, "SHOW work_mem", "measured") == "4MB"


def test_settings_of_a_point_are_the_databases_too(theirs: Server, home: Home) -> None:
    with opened(home, spec(theirs, settings={"work_mem": "7MB"}), "far") as server:
        done = reconfigure(server, {"work_mem": "8192kB", "random_page_cost": "2"})
        assert done is not None
        assert (done.restarted, done.values) == (False, {"work_mem": "8MB", "random_page_cost": "2"})
        assert reconfigure(server, {"work_mem": "8192kB", "random_page_cost": "2"}) is None
        with pytest.raises(TargetError, match="cannot set shared_buffers"):
            reconfigure(server, {"shared_buffers": "1GB"})
        reconfigure(server, {"work_mem": "7MB"})
        assert value(server, "SHOW random_page_cost") == "4"
        assert value(server, "SHOW work_mem") == "7MB"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"shared_buffers": "1GB"}, "takes effect when the server starts"),
        ({"max_wal_size": "1GB"}, "belongs to the server's configuration file"),
        ({"wrk_mem": "1GB"}, "the server has no such setting"),
    ],
)
def test_impossible_settings_are_known_at_once(theirs: Server, home: Home, settings: dict[str, str], why: str) -> None:
    with pytest.raises(TargetError, match=why):
        fetch_target("far", spec(theirs, settings=settings), home=home, progress=SilentProgress())


def test_a_value_that_the_server_refuses(theirs: Server, home: Home) -> None:
    wanted = spec(theirs, settings={"work_mem": "much"})
    with (
        pytest.raises(TargetError, match=r"cannot change settings of the database measured: invalid value"),
        opened(home, wanted, "far"),
    ):
        pass


def test_a_value_that_the_server_refuses_leaves_the_settings_as_they_were(theirs: Server, home: Home) -> None:
    before = {"work_mem": "7MB", "random_page_cost": "2"}
    with opened(home, spec(theirs, settings=before), "far") as server:
        with pytest.raises(TargetError, match="cannot change settings: invalid value"):
            reconfigure(server, {"work_mem": "9MB", "jit_above_cost": "much"})
        assert server.plan_settings == before
        assert value(server, "SHOW work_mem") == "7MB"
        assert value(server, "SHOW random_page_cost") == "2"


def test_a_setting_of_the_role_is_not_taken_for_the_plans(theirs: Server, home: Home) -> None:
    wanted = spec(theirs, settings={"work_mem": "7MB"})
    said = "cannot set work_mem = 7MB: 5MB is in effect, from a setting of the role"
    with theirs.connect("postgres") as connection:
        connection.execute("ALTER ROLE bench SET work_mem = '5MB'")
    try:
        with pytest.raises(TargetError, match=said), opened(home, wanted, "far"):
            pass
        with opened(home, spec(theirs), "far") as server:
            with pytest.raises(TargetError, match=said):
                reconfigure(server, {"work_mem": "7MB"})
            assert server.plan_settings == {}
    finally:
        with theirs.connect("postgres") as connection:
            connection.execute("ALTER ROLE bench RESET work_mem")


def test_the_service_file_may_have_it(
    theirs: Server, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "services"
    file.write_text(f"[far]\nhost={theirs.host}\nport={theirs.port}\nuser=bench\npassword={PASSWORD}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    wanted = spec(theirs, dsn="service=far", password_env=None)
    with opened(home, wanted, "far") as server:
        # resolved: the engine gets what the service says, and not its name
        assert "PGSERVICE" not in server.environment()
        assert PASSWORD not in repr(server)
        assert preparer(server, checkpoint=False).prepare(SMALL).steps[0].detail == "pgbench at scale 1"


def test_passwords_from_the_file(theirs: Server, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:bench:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    with opened(home, spec(theirs, password_env=None), "far") as server:
        assert "PGPASSWORD" not in server.environment()
        assert preparer(server, checkpoint=False).prepare(SMALL).steps[0].detail == "pgbench at scale 1"


def test_a_server_of_pgdyno_has_its_password_in_its_file_alone(
    theirs: Server, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:bench:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSWORD", "of another server")
    where = f"host={theirs.host} port={theirs.port} user=bench passfile={file}"
    made = DsnTarget.with_password_file(where, database="measured")
    with opened(home, made, "far") as server:
        assert "PGPASSWORD" not in server.environment()
        assert server.commands_environment()["PGPASSWORD"] == ""
        assert preparer(server, checkpoint=False).prepare(SMALL).steps[0].detail == "pgbench at scale 1"


def test_a_wrong_password_is_not_told(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PASSWORD", "wrong one")
    with pytest.raises(TargetError, match="password authentication failed") as caught:
        fetch_target("far", spec(theirs), home=home, progress=SilentProgress())
    assert "wrong one" not in caught.value.message
    assert caught.value.hint == "check PGPASSWORD, ~/.pgpass or the variable of password_env"


@pytest.mark.parametrize(
    ("words", "said", "remedy"),
    [
        ("dbname=nosuch", 'database "nosuch" does not exist', "check dbname"),
        ("sslmode=require", "does not support SSL", "sslmode=prefer"),
        ("host=/nosuch", "No such file or directory", "socket's folder"),
        ("user=limited", "too many connections for role", "CONNECTION LIMIT"),
        ("port=1", "Connection refused", "check host and port"),
        # a server does not say whether the role exists
        ("user=nosuch", "password authentication failed", "check PGPASSWORD"),
    ],
)
def test_a_connection_that_fails_names_its_remedy(theirs: Server, words: str, said: str, remedy: str) -> None:
    with theirs.connect() as connection:
        connection.execute(f"CREATE ROLE limited LOGIN CONNECTION LIMIT 0 PASSWORD '{PASSWORD}'")
    try:
        parameters = conninfo_to_dict(f"{dsn(theirs)} dbname=postgres {words}")
        dbname = str(parameters.pop("dbname"))
        with pytest.raises(TargetError, match=said) as caught:
            Address({name: str(value) for name, value in parameters.items()}, PASSWORD).connect(dbname)
        assert remedy in str(caught.value.hint)
    finally:
        with theirs.connect() as connection:
            connection.execute("DROP ROLE limited")


def test_one_pgdyno_at_a_time(theirs: Server, home: Home) -> None:
    reached = fetch_target("far", spec(theirs), home=home, progress=SilentProgress())
    assert isinstance(reached, Reached)
    # as another process would: its sessions have another name
    with theirs.connect("postgres") as other:
        other.execute("SET application_name = 'pgdyno 0badcafe 17@elsewhere slow'")
        other.execute("SELECT pg_advisory_lock_shared(%s, %s)", LOCK_KEY)
        with pytest.raises(TargetError, match=r"another pgdyno is measuring this server: .*17@elsewhere slow") as busy:
            fetch_target("far", spec(theirs), home=home, progress=SilentProgress())
        assert "--wait" in str(busy.value.hint)
        alongside = Use("far", WhenBusy.ALONGSIDE)
        with opened(home, spec(theirs), "far", use=alongside) as server:
            assert [note.id for note in server.notes] == ["alongside-at-server"]
    with server_in_use(reached.address, "postgres", Use("far"), SilentProgress()) as note:
        assert note is None
        # ourselves at a second target of the same server
        with server_in_use(reached.address, "template1", Use("far"), SilentProgress()) as second:
            assert second is None


def test_waiting_for_another(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.targets.lock.POLL_S", 0.01)
    with theirs.connect("postgres") as other:
        other.execute("SELECT pg_advisory_lock_shared(%s, %s)", LOCK_KEY)

        class Told(SilentProgress):
            said: list[str] = []

            def step(self, text: str) -> None:
                if text.startswith("waiting: another pgdyno is measuring this server"):
                    self.said.append(text)
                    other.close()

        waiting = Use("far", WhenBusy.WAIT)
        with opened(home, spec(theirs), "far", progress=Told(), use=waiting) as server:
            assert server.notes == []
        assert len(Told.said) == 1


def run(theirs: Server, folder: Path, checkpoint: str = "false", plan: str = PLAN) -> list[Outcome]:
    path = folder / "far.toml"
    path.write_text(plan.format(dsn=dsn(theirs), checkpoint=checkpoint))
    with live_view(Console(file=io.StringIO()), quiet=True) as view:
        finished = run_experiment(load_plan(path), folder / "runs", view)
    for file in finished.folder.path.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    return [record.outcome for record in finished.records]


def test_a_run_over_the_network(theirs: Server, tmp_path: Path) -> None:
    assert run(theirs, tmp_path) == [Outcome.FINISHED] * 2
    assert value(theirs, "SELECT count(*) FROM pgbench_history", "measured") == 100
    assert value(theirs, "SHOW work_mem", "measured") == "4MB"


def test_options_of_the_connection_are_in_force_and_only_the_plan_keeps_them(theirs: Server, tmp_path: Path) -> None:
    (tmp_path / "token.sql").write_text("SELECT 1 / (length(current_setting('app.token')) - 5);\n")
    options = PLAN.replace("{dsn}", "{dsn} options='-c app.token=sEcret'")
    assert run(theirs, tmp_path, plan=options.replace('"tpcb-like"', '"token.sql"')) == [Outcome.FINISHED] * 2
    (folder,) = (tmp_path / "runs").iterdir()
    manifest = RunFolder.open(folder).manifest
    assert manifest.plan["target"]["theirs"]["dsn"] == f"{dsn(theirs)} options='-c app.token=sEcret'"
    assert manifest.targets[0].asked["dsn"] == f"{dsn(theirs)} options=***"
    holding = [file.name for file in folder.rglob("*") if file.is_file() and b"sEcret" in file.read_bytes()]
    assert holding == ["manifest.json"]


EVERYTHING = (
    PLAN.replace("clients = 2\n", 'clients = 2\nrate = 100\nsettings.work_mem = ["5MB", "6MB"]\n')
    .replace("transactions = 50\nrepeats = 2", 'duration = "5s"\nledger = true\nmin_free_disk = "1kB"')
    .replace(
        "[reset]", '[[event]]\nat = "1s"\ndo = "vacuum"\n[[event]]\nat = "1s"\ndo = {{ command = "true" }}\n[reset]'
    )
    + """\
[hooks]
before_trial = "echo data=$PGDYNO_DATA_DIRECTORY replicas=$PGDYNO_REPLICA_PORTS port=$PGPORT >> told"
"""
)


def test_all_that_a_trial_may_have_is_possible_over_the_network(theirs: Server, tmp_path: Path) -> None:
    assert run(theirs, tmp_path, plan=EVERYTHING) == [Outcome.FINISHED] * 2
    assert (tmp_path / "told").read_text() == f"data= replicas= port={theirs.port}\n" * 2
    (folder,) = (tmp_path / "runs").iterdir()
    trials = sorted(RunFolder.open(folder).trials(), key=lambda trial: trial.point.settings["work_mem"])
    for trial, work_mem in zip(trials, ("5MB", "6MB"), strict=True):
        assert [event.outcome for event in trial.events] == [EventOutcome.DONE] * 2
        assert (present(trial.ledger).missing, trial.replication, trial.background) == (0, [], [])
        assert trial.point.settings == {"work_mem": work_mem}
    # chance decides which of the two comes second
    second = RunFolder.open(folder).trials()[1]
    changed = [step.detail for step in present(second.prepare).steps if step.name == "configure"]
    assert changed == [f"reloaded: work_mem = {second.point.settings['work_mem']}"]


def test_missing_privileges_of_the_role_are_reported_with_the_line(theirs: Server, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        run(theirs, tmp_path, checkpoint="true")
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("reset.checkpoint", 18)
    assert not (tmp_path / "runs").exists()


def test_a_template_of_somebodys_is_not_dropped(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("CREATE DATABASE measured_template OWNER bench")
    with (
        opened(home, spec(theirs), "far") as server,
        pytest.raises(TargetError, match="one without a dataset stamp exists"),
    ):
        preparer(server, checkpoint=False, method="template").prepare(SMALL)
