"""Whole plans on "RDS" and "Aurora": the simulator, with a real PostgreSQL behind its addresses."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from pgdyno.records import CloudSource
from pgdyno.report.full_report import whole_report
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.targets import Home
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.aws.selftest import Tally, checks_of, plan_of, try_restore
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.rented.provider import Tried
from tests.aws.account import take_snapshot
from tests.aws.plans import HERE, aurora, rds
from tests.aws.postgres_hosts import PostgresHosts
from tests.aws.simulator import REGION, Fault
from tests.forked import PGDYNO
from tests.postgres.aws_account import LOGIN, RealAccount, real_account
from tests.postgres.tls_server import TlsServer, running_tls_server
from tests.present import present
from tests.scratch import scratch_folder
from tests.ssh.sshd import FAKETIME
from tests.unit.store_sample import read_cloud
from tests.waiting import PATIENCE_S, wait_until

SKEW_S = 3600
VERDICTS = ("ok: ", "WRONG: ", "left out: ")
Amazon = RealAccount[PostgresHosts]


@pytest.fixture(scope="module")
def behind(installed: Installation) -> Iterator[TlsServer]:
    """The PostgreSQL that all simulated servers are."""
    with running_tls_server(installed) as server:
        yield server


@pytest.fixture
def amazon(behind: TlsServer, warm_home: Home, tmp_path: Path) -> Iterator[Amazon]:
    with real_account(PostgresHosts(behind, scratch_folder()), warm_home, tmp_path) as account:
        yield account


@pytest.fixture
def root(behind: TlsServer) -> Path:
    return Path(behind.certificates["root.crt"])


def take_loaded(amazon: Amazon, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Takes the snapshot `loaded`, with this process as a client of the account."""
    for name, value in amazon.environment.items():
        monkeypatch.setenv(name, value)
    take_snapshot(amazon.simulator, "loaded", kind)


@pytest.mark.long
def test_up_status_run_and_down_on_rds(amazon: Amazon, root: Path) -> None:
    checkpoint = '[[event]]\nat = "100ms"\ndo = "checkpoint"\n'
    plan = amazon.plan(rds(root, parameters='{ work_mem = "8MB" }'), more=checkpoint)
    assert "renting servers needs confirmation" in amazon.pgdyno("target", "up", plan, code=2)
    assert amazon.simulator.left() == []
    said = amazon.pgdyno("target", "up", plan, "--yes", "--for", "3h")
    assert "db.m7g.large in eu-central-1a, version 18.1" in said
    assert "sslmode=verify-full" in said
    assert "already up" in amazon.pgdyno("target", "up", plan, "--yes")
    (row,) = json.loads(amazon.pgdyno("target", "status", plan, "--json"))
    kinds = [each.split(" pgdyno-")[0] for each in row["there"]]
    assert kinds == ["database instance", "parameter group", "security group", "schedule"]
    said = amazon.pgdyno("run", plan, "--no-preflight")
    assert "using the servers that are already up" in said
    manifest = amazon.run().manifest
    assert "target rds is a db.m7g.large in eu-central-1a, version 18.1" in manifest.notes
    assert manifest.targets[0].kind == "rds"
    assert manifest.targets[0].facts is not None
    assert [record.outcome for record in amazon.run().trials()] == ["finished"]
    assert amazon.simulator.calls.count("rds:CreateDBInstance") == 1
    _was_told(amazon, load_run(amazon.run()))
    assert any("its gp3 volume of 20 GB provides 3,000 IOPS, 125 MB/s, the instance" in each for each in manifest.notes)
    (rent,) = manifest.rented
    # it was up before: this run pays for it while it lasts
    assert (rent.target, rent.instance, rent.since) == ("rds", "db.m7g.large", manifest.attempts[0].started_at)
    assert 0 < rent.hours < 1
    assert rent.hourly == pytest.approx(0.2077, abs=1e-4)
    amazon.pgdyno("target", "down", plan)
    assert amazon.simulator.left() == []
    assert "this machine has rented no servers that are still up" in amazon.pgdyno("target", "status", plan)


def _was_told(amazon: Amazon, run: RunData) -> None:
    """Amazon's data about the trial is stored with it, aligned in time, and in the report."""
    (trial,) = run.trials
    path = present(trial.network_path)
    assert (path.server_zone, path.instance) == ("eu-central-1a", "db.m7g.large")
    assert 0 < path.least_us <= path.median_us
    # both are of this machine's clock
    assert abs(present(path.clock_ahead_us)) < present(path.clock_uncertainty_us) + 1_000_000
    told = present(read_cloud(run, 1))
    assert {each.source: (each.gaps, each.message) for each in told.sources} == dict.fromkeys(CloudSource, ([], None))
    rows = run.query("SELECT source, metric, min(t_us), max(t_us), max(value) FROM cloud_series GROUP BY ALL").rows
    values = {(source, metric): value for source, metric, _, _, value in rows}
    assert values["cloudwatch", "cpu"] == pytest.approx(0.425)
    assert values["insights", "load"] == 0.75
    # samples of seconds lie where the trial was
    (last_us,) = [last for source, metric, _, last, _ in rows if (source, metric) == ("insights", "load")]
    (end_us,) = run.query("SELECT max(t_us) FROM events WHERE kind = 'end'").rows[0]
    assert abs(last_us - end_us) < 5_000_000
    kinds = run.query("SELECT json_extract_string(detail, '$.phase') FROM cloud_events ORDER BY t_us").rows
    assert ("completed",) in kinds, amazon.hosts.log()[-2000:]
    assert "checkpoint starting" in (run.folder.trials_path / trial.slug / "log" / "server.log").read_text()
    page = whole_report([run]).html()
    assert "Processors (provider's metrics, by the minute): 42.5 % busy" in page
    assert "Active sessions (provider's samples): most in CPU" in page


@pytest.mark.long
def test_a_run_on_aurora_is_gone_behind_it_and_its_password_nowhere(amazon: Amazon, root: Path) -> None:
    (amazon.folder / "own.sql").write_text("SELECT abalance FROM pgbench_accounts WHERE aid = 7;\n")
    plan = amazon.plan(aurora(root), more=amazon.generator())
    plan.write_text(plan.read_text().replace('"select-only"', '"own.sql@2", "select-only"'))
    amazon.simulator.denied = {"cloudwatch:GetMetricData"}
    assert FAKETIME is not None, "make test-packages installs libfaketime"
    amazon.hosts.of_generators = f"LD_PRELOAD={FAKETIME} FAKETIME=+{SKEW_S}s FAKETIME_DONT_FAKE_MONOTONIC=1"
    said = amazon.pgdyno("run", plan, "--yes", "--max-cost", "5")
    # the server, the generator with its volume, an address of each
    assert "0.5114 an hour" in said
    assert "the load comes from another host" in said
    _load_came_from_elsewhere(amazon)
    (record,) = amazon.run().trials()
    assert {each.name for each in present(record.summary).scripts} == {"own.sql", "<builtin: select only>"}
    # the generator's clock is ahead: data of its trial is requested by the server's clock
    assert abs(present(present(record.network_path).clock_ahead_us) / 1e6 + SKEW_S) < SKEW_S / 4
    calls = [*zip(amazon.simulator.calls, amazon.simulator.parameters, strict=True)]
    begin = next(asked["StartTime"] for name, asked in calls if name == "pi:GetResourceMetrics")
    at_s = begin if isinstance(begin, int | float) else datetime.fromisoformat(begin).timestamp()
    assert abs(at_s - present(record.started_at).timestamp()) < SKEW_S / 4
    # without one source the others are stored, with a note
    assert "CloudWatch's figures: the permission cloudwatch:GetMetricData is missing" in said
    told = present(read_cloud(load_run(amazon.run()), 1))
    figures = {each.source.value: each.figures > 0 for each in told.sources}
    assert figures == {"cloudwatch": False, "insights": True, "log": True}
    price = amazon.run().manifest.plan["price"]
    assert price["target"]["aurora"]["hourly"][0]["amount"] == 0.3
    rent, of_generator = amazon.run().manifest.rented
    assert (of_generator.target, of_generator.price_source) == ("generator", "Amazon's price list")
    assert rent.hourly == pytest.approx(0.3052, abs=1e-4)
    assert rent.price_date == datetime.now(UTC).date()
    assert rent.currency == "USD"
    assert rent.since < amazon.run().manifest.attempts[0].started_at
    assert re.search(r"^aurora +db\.r8g\.large", amazon.pgdyno("show"), re.MULTILINE)
    assert amazon.simulator.left() == []
    assert amazon.left_files() == ["prices.json"]
    (password,) = {each["MasterUserPassword"] for name, each in calls if name == "rds:CreateDBCluster"}
    assert password not in said
    for file in amazon.run().path.rglob("*"):
        if file.is_file():
            assert password.encode() not in file.read_bytes(), file


def _load_came_from_elsewhere(amazon: Amazon) -> None:
    """pgdrive ran on the generator, in the server's zone, and Amazon's data has the generator's clock."""
    run = amazon.run()
    assert f"the load comes from a {HERE} in eu-central-1a" in run.manifest.notes
    (host,) = amazon.simulator.machines.all.values()
    copied = {each.name.rpartition("-")[0] for each in amazon.hosts.kept(host) if each.is_file()}
    assert {"pgdrive", "pgprobe"} <= copied
    for record in run.trials():
        assert (record.outcome, record.failure) == ("finished", None)
        # what a transaction waits for is measured from there
        path = present(record.network_path)
        assert path.generator_zone == path.server_zone == "eu-central-1a"
        assert (path.generator, path.round_trips > 0) == (None, True)
        assert 0 < path.least_us <= path.median_us
        assert path.clock_uncertainty_us is not None
        told = present(read_cloud(load_run(run), record.number))
        assert told.shift_us == present(path.clock_ahead_us)


def test_a_run_is_stopped_before_a_trial_that_could_cost_too_much(amazon: Amazon, root: Path) -> None:
    plan = amazon.plan(rds(root))
    # about 0.67 USD as planned; a trial of twice the length could cost 1 USD
    options = ("--yes", "--no-preflight", "--set", "trial.duration=2h", "--max-cost", "0.8")
    said = amazon.pgdyno("run", plan, *options, code=8)
    assert "with its next trial and the removal it could cost" in said
    assert "resume it with a higher --max-cost" in said
    assert amazon.run().trials() == []
    assert amazon.simulator.left() == []


@pytest.mark.long
def test_a_snapshot_is_restored_before_every_trial(amazon: Amazon, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_loaded(amazon, monkeypatch, "rds")
    amazon.hosts.origins.clear()
    target = rds(root, snapshot='"loaded"', restore='"each-trial"')
    amazon.pgdyno("run", amazon.plan(target, repeats=2), "--yes", "--no-preflight")
    assert amazon.hosts.origins == ["loaded", "loaded"]
    records = amazon.run().trials()
    assert [record.outcome for record in records] == ["finished", "finished"]
    assert all("first touch" in [step.name for step in record.prepare.steps] for record in records if record.prepare)
    # each began with the snapshot's content, which is empty, so each loaded again
    loads = [[step.name for step in record.prepare.steps] for record in records if record.prepare]
    assert len(loads) == 2
    assert loads[0] == loads[1]
    # the data of each was requested before its removal
    told = [read_cloud(load_run(amazon.run()), record.number) for record in records]
    assert [[each.message for each in of.sources] for of in told if of] == [[None, None, None]] * 2
    # what is not ours stays
    assert amazon.simulator.left() == ["theirs"]


@pytest.mark.long
def test_a_snapshot_of_the_loaded_server_is_restored_before_every_trial(amazon: Amazon, root: Path) -> None:
    target = rds(root, restore='"each-trial"')
    more = '[reset]\nmethod = "template"\n'
    amazon.pgdyno("run", amazon.plan(target, repeats=2, more=more), "--yes", "--no-preflight")
    empty, *origins = amazon.hosts.origins
    assert (empty, len(origins), len(set(origins))) == (None, 2, 1)
    assert str(origins[0]).endswith("-1-s1")
    records = amazon.run().trials()
    assert [(record.outcome, record.failure) for record in records] == [("finished", None)] * 2
    prepared = [record.prepare for record in records if record.prepare is not None]
    assert [each.method for each in prepared] == ["snapshot", "snapshot"]
    first, second = ([step.name for step in each.steps] for each in prepared)
    # it was loaded once, and both trials began with a restored server, without copying anything
    assert first == ["load", "snapshot", *second]
    assert second == ["first touch", "verify", "checkpoint"]
    assert amazon.simulator.calls.count("rds:CreateDBSnapshot") == 1
    assert amazon.simulator.left() == []
    assert amazon.left_files() == ["prices.json"]


@pytest.mark.long
def test_a_run_that_is_terminated_takes_its_servers_down_and_keep_keeps_them(amazon: Amazon, root: Path) -> None:
    plan = amazon.plan(rds(root), repeats=2, more='pause = "10m"\n')
    # the last figures are not there when it is interrupted
    amazon.simulator.telling.late = 1
    command = [str(PGDYNO), "run", str(plan), "--yes", "--no-preflight"]
    process = subprocess.Popen(command, cwd=amazon.folder, env=amazon.environment)
    stored = "pgdyno-runs/*/trials/*/trial.json"
    wait_until(lambda: process.poll() is not None or list(amazon.folder.glob(stored)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    assert amazon.simulator.left() == []
    run = amazon.run()
    # what is whole has what was known of it, and what was not is marked
    assert _gaps(run, 1) == {"cloudwatch": True, "insights": True, "log": False}
    assert "the servers stay for 2 h" in amazon.pgdyno("run", "--resume", run.path, "--yes", "--keep", "2h")
    assert _gaps(run, 1) == {"cloudwatch": True, "insights": True, "log": False}
    assert _gaps(run, 2) == {"cloudwatch": False, "insights": False, "log": False}
    # an instance, its parameter group, and the schedule that deletes the instance after its expiry
    assert len(amazon.simulator.left()) == 3
    assert "no resources of pgdyno found" in amazon.pgdyno("reap", "--expired")
    assert len(amazon.simulator.left()) == 3
    listed = amazon.pgdyno("reap", "--all", "--dry-run")
    assert listed.count("until 20") == 1
    assert listed.count("\n  ") == 3
    assert "this costs 0.2027 USD an hour" in listed
    made_by = listed.split()[1].rstrip(",")
    assert "removed: database instance" in amazon.pgdyno("reap", "--run", made_by)
    assert amazon.simulator.left() == []


def _gaps(run: RunFolder, trial: int) -> dict[str, bool]:
    told = present(read_cloud(load_run(RunFolder.open(run.path)), trial))
    return {each.source.value: bool(each.gaps) for each in told.sources}


def test_a_certificate_that_is_not_amazons_ends_it_and_leaves_nothing(amazon: Amazon, behind: TlsServer) -> None:
    target = rds(Path(behind.certificates["other.crt"]))
    said = amazon.pgdyno("target", "up", amazon.plan(target), "--yes", code=4)
    assert "certificate verify failed" in said
    assert amazon.simulator.left() == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rds", "aurora"])
def test_selftest_makes_the_database_anew_from_a_snapshot(
    amazon: Amazon, root: Path, monkeypatch: pytest.MonkeyPatch, kind: Literal["rds", "aurora"]
) -> None:
    monkeypatch.setattr(boto3_clients, "FIRST_S", 0.01)
    take_loaded(amazon, monkeypatch, kind)
    keys = {"version": "18", "region": REGION, "tls_root": str(root), "snapshot": "loaded", "public": True}
    tried = Tried(kind, keys)
    rental = begin(plan_of(tried).model_copy(update={"generator": None}), amazon.home.root, print, 3600)
    said: list[str] = []
    try:
        rental.up()
        password = rental.journal.passwords.read_text()
        amazon.hosts.origins.clear()
        try_restore(Tally(kind, said.append), rental, tried)
        assert said == ["ok: restore: from loaded, with work_mem of 8MB"]
        assert amazon.hosts.origins == ["loaded"]
        assert rental.journal.passwords.read_text() != password
        # one that comes back without its parameters
        monkeypatch.setattr(amazon.hosts, "configured", lambda *_: None)
        try_restore(Tally(kind, said.append), rental, tried)
        assert said[1:] == ["WRONG: restore: from loaded, with work_mem of 4MB"]
    finally:
        assert rental.remove_all() == []
    assert amazon.simulator.left() == ["theirs"]


@pytest.mark.long
def test_selftest(amazon: Amazon, root: Path) -> None:
    keys = {"login": LOGIN, "ssh_port": amazon.ssh_port}
    options = [word for name, value in keys.items() for word in ("--set", f"generator.{name}={value}")]
    options += ["--version", "18", "--tls-root", str(root), "--yes", "--generator", HERE, "--duration", "2s"]
    amazon.simulator.denied = {"pi:GetResourceMetrics", "ec2:DeleteSecurityGroup"}
    said = amazon.pgdyno("target", "selftest", *options, code=4)
    assert "for 2 hours, the very most, this is:" in said
    assert "about 0.47 USD for 2 h, 0.2340 an hour" in said
    told = [line.split(": ") for line in said.splitlines() if line.startswith(VERDICTS)]
    verdicts = {key: verdict for verdict, key, *_ in told}
    assert list(verdicts) == [each.key for each in checks_of("rds")]
    _load_came_from_elsewhere(amazon)
    wrong = ["insights", "removed", "gone"]
    assert [key for key, verdict in verdicts.items() if verdict == "WRONG"] == wrong
    assert [key for key, verdict in verdicts.items() if verdict == "left out"] == ["restore"]
    assert "WRONG: insights: the permission pi:GetResourceMetrics is missing" in said
    assert "work_mem is 8MB, and its parameters say 8MB" in said
    assert "failed: insights, removed, gone after" in said
    assert max(len(line) for line in said.splitlines() if line.startswith("ok")) <= 120
    amazon.simulator.denied = set()
    amazon.pgdyno("reap", "--all")
    # a server that cannot start skips the rest, and leaves no resource
    amazon.simulator.faults = [Fault("CreateDBInstance", "InstanceQuotaExceeded", "DB instances: 40")]
    said = amazon.pgdyno("target", "selftest", *options, code=4)
    assert "WRONG: up: target rds: a quota of the account is used up" in said
    assert "left out: trial: it did not come up" in said
    assert "failed: up after" in said
    assert amazon.simulator.left() == []
