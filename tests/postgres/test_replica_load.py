"""A load in the background on real standbys during a trial's own: both in the same seconds, with separate figures."""

import gzip
import json
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, TrialRecord
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home, LagWatch, Server
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.cluster.reconfigure import reconfigure
from tests.postgres.runs import FAST_SERVER, fast_plan, run_plan_text, the_run
from tests.postgres.servers import on_replica, opened, preparer
from tests.postgres.test_target_replicas import SMALL, spec, step
from tests.present import present

TRIAL = """\
warmup = "1s"
duration = "4s"
seed = 3
[replica_load]
scripts = ["SCRIPT"]
clients = 3
rate = 300
[hooks]
before_trial = 'echo "$PGDYNO_REPLICA_PORTS" > ports; echo "$PGDYNO_REPLICA_DIRECTORIES" > directories'
after_trial = 'date'
"""
SERVER = f"{FAST_SERVER}\n[target.a.replicas]\ncount = 2"
PLAN = fast_plan('scripts = ["simple-update"]', "clients = 2\nrate = 200", TRIAL, server=SERVER)
ALONE = PLAN.replace("count = 2", "count = 1")


def run(
    home: Home, folder: Path, text: str = PLAN, version: str = "18", script: str = "select-only"
) -> tuple[TrialRecord, RunFolder, str]:
    plan = text.replace('version = "18"', f'version = "{version}"').replace("SCRIPT", script)
    done = run_plan_text(home, folder, plan)
    assert done.returncode in (ExitCode.OK, ExitCode.TRIALS_FAILED), done.stderr
    opened = the_run(folder)
    (trial,) = opened.trials()
    return trial, opened, done.stdout


def standbys_are_sampled(trial: TrialRecord, folder: RunFolder) -> None:
    """Samples of standbys are in their own tables, by name, and not in the primary's."""
    standbys = present(trial.probe).standbys
    assert [(each.name, each.message) for each in standbys] == [("pgdyno_1", None), ("pgdyno_2", None)]
    assert all(each.active is not None for each in standbys)
    assert any(each.active for each in standbys)
    data = load_run(folder)
    reads = (
        "SELECT standby, sum(value) FROM standby_series WHERE source = 'database' AND metric = 'commits' "
        "GROUP BY 1 ORDER BY 1"
    )
    commits = dict(data.query(reads).rows)
    (load,) = trial.background
    # the probe may come later than the load and go before it
    assert sum(commits.values()) >= load.succeeded / 2
    # each client has a third of the rate, and one standby has two of them
    few, more = sorted(commits.values())
    assert more == pytest.approx(2 * few, rel=0.3)
    looked = data.query("SELECT DISTINCT standby FROM standby_waits WHERE sessions > 0 ORDER BY 1").rows
    assert looked == [("pgdyno_1",), ("pgdyno_2",)]
    rows = "SELECT count(*) AS n FROM series WHERE source = 'database' AND metric = 'backends' GROUP BY t_us"
    once = f"SELECT max(n) FROM ({rows})"
    assert data.query(once).rows == [(1,)]


def nothing_is_left(folder: Path) -> bool:
    """Tells whether the standbys are gone whose folders a hook recorded; the shared home has other servers, too."""
    directories = [Path(each) for each in (folder / "directories").read_text().strip().split(":")]
    return not any(servers_in(each) or each.exists() for each in directories)


def said(folder: RunFolder, trial: TrialRecord) -> list[dict[str, object]]:
    path = folder.trials_path / trial.slug / "log" / "group-standbys-events.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.mark.long_cases("[13]")
@pytest.mark.parametrize("version", ["18", "13"])
def test_standbys_are_loaded_while_the_primary_is_measured(home: Home, tmp_path: Path, version: str) -> None:
    # sessions that are long enough in the server to be seen there by a probe that looks 20 times per second
    (tmp_path / "read.sql").write_text("SELECT count(*) FROM pgbench_branches;\nSELECT pg_sleep(0.005);\n")
    trial, folder, shown = run(home, tmp_path, version=version, script="read.sql")
    assert trial.outcome is Outcome.FINISHED, trial.failure
    # the primary's figures are its own
    assert [script.name for script in present(trial.summary).scripts] == ["<builtin: simple update>"]
    (each,) = trial.background
    assert (each.name, each.clients) == ("standbys", 3)
    by_itself = [event for event in said(folder, trial) if event["event"] == "interval"]
    assert 3 <= each.measured_s <= 4
    assert each.measured_s < len(by_itself)
    assert each.succeeded > 0
    assert each.latency_ns is not None
    assert 0 < present(each.latency_ns.p50) <= present(each.latency_ns.p99) <= present(each.latency_ns.max)
    assert each.tps == pytest.approx(each.succeeded / each.measured_s)
    assert (each.failed, each.skipped) == (0, 0)
    assert present(each.tps) == pytest.approx(300, rel=0.3)
    both_measure_the_same_seconds(trial, folder)
    lags = {lag.name: lag for lag in trial.replication}
    assert lags.keys() == {"pgdyno_1", "pgdyno_2"}
    for lag in lags.values():
        assert lag.samples > 0
        assert lag.sync_state == "async"
        assert 0 <= present(lag.bytes_last) <= present(lag.bytes_max)
        assert lag.replay_lag_max_s is not None
    standbys_are_sampled(trial, folder)
    logs = folder.trials_path / trial.slug / "log"
    assert {"server.log", "replica-1.log", "replica-2.log"} <= {entry.name for entry in logs.iterdir()}
    # what they wrote during the trial: none of their start
    assert "entering standby mode" not in (logs / "replica-1.log").read_text()
    assert "Standbys during each trial" in shown
    assert "Loads in the background of each trial" in shown
    assert len({row.script for row in load_run(folder).intervals(1)}) == 1
    assert "pgdyno_2" in (folder.path / "report.html").read_text()
    ports = (tmp_path / "ports").read_text().split()
    assert len(set(ports)) == 2
    directories = (tmp_path / "directories").read_text().strip().split(":")
    assert [Path(each).parent.name for each in directories] == ["replica-1", "replica-2"]
    assert nothing_is_left(tmp_path)


def both_measure_the_same_seconds(trial: TrialRecord, folder: RunFolder) -> None:
    """The load on the standbys begins before the primary's, and ends after it."""
    main = (folder.trials_path / trial.slug / "log" / "events.jsonl.gz").read_bytes()
    lines = [json.loads(line) for line in gzip.decompress(main).splitlines()]
    events = [line for line in lines if not line["event"].startswith("probe_")]
    epoch_of_main = next(each["epoch_us"] for each in events if each["event"] == "start")
    begin = epoch_of_main + next(each["origin_us"] for each in events if each["event"] == "connected")
    beside = said(folder, trial)
    epoch = int(str(beside[0]["epoch_us"]))
    origin = epoch + next(int(str(each["origin_us"])) for each in beside if each["event"] == "connected")
    assert origin <= begin
    assert epoch + int(str(beside[-1]["t_us"])) >= epoch_of_main + events[-1]["t_us"]


def test_a_script_that_writes_fails_the_trial_with_the_servers_words(home: Home, tmp_path: Path) -> None:
    # its text does not show it: plan check refuses scripts whose text does
    (tmp_path / "hidden.sql").write_text("DO $$ BEGIN UPDATE pgbench_accounts SET abalance = 0; END $$;\n")
    trial, folder, shown = run(home, tmp_path, ALONE.replace("4s", "600s"), script="hidden.sql")
    assert trial.outcome is Outcome.FAILED
    failure = present(trial.failure)
    assert failure.message.startswith("the load of group standbys failed: ")
    assert "read-only transaction" in failure.message
    assert failure.sqlstate == "25006"
    # the load neither waited for the trial's end nor began only after its start was noticed
    assert trial.summary is None or present(trial.summary.measured_s) < 300
    assert said(folder, trial)[-1]["event"] == "end"
    assert "no result" in shown or "failed" in shown
    assert nothing_is_left(tmp_path)


def test_clients_that_cannot_connect_fail_the_trial_before_its_load(home: Home, tmp_path: Path) -> None:
    few = "max_connections = 4, superuser_reserved_connections = 0, max_wal_senders = 3, shared_buffers"
    text = ALONE.replace("shared_buffers", few).replace("clients = 3", "clients = 30")
    trial, _, _ = run(home, tmp_path, text)
    assert present(trial.failure).message.startswith("the load of group standbys failed: ")
    assert "too many clients" in present(trial.failure).message
    assert trial.summary is None


@pytest.mark.long
@pytest.mark.parametrize("version", ["18", "13"])
def test_standbys_live_through_settings_that_they_must_not_have_lower(home: Home, version: str) -> None:
    wanted = spec(version, replicas={"count": 1, "synchronous": "on"})
    with opened(home, wanted) as server:
        trials = preparer(server)
        trials.prepare(SMALL)
        for connections in ("150", "60"):
            reconfigure(server, {**server.plan_settings, "max_connections": connections})
            assert step(trials.prepare(SMALL), "replicas").startswith("1: ")
            assert on_replica(server, "SHOW max_connections") == connections
        reconfigure(server, {**server.plan_settings, "work_mem": "9MB"})
        assert step(trials.prepare(SMALL), "replicas") == "they were there"
        assert on_replica(server, "SHOW work_mem") == "9MB"


def test_without_standbys_no_lag_is_sampled(server: Server) -> None:
    with LagWatch(server.address, server.replica_names()) as watch:
        server.connect().close()
    assert watch.lags() == []
