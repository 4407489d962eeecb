"""Whole plans on "EC2": the simulator, with a real sshd and a real PostgreSQL behind each host's address."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.aws.selftest import checks_of
from pgdyno.targets.cluster.installation import Installation
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.plans import HERE
from tests.postgres.aws_account import LOGIN, RealAccount, real_account
from tests.present import present
from tests.processes import command_line, processes_with
from tests.scratch import scratch_folder
from tests.unit.store_sample import read_cloud

Rented = RealAccount[Ec2Hosts]


@pytest.fixture
def rented(installed: Installation, warm_home: Home, tmp_path: Path) -> Iterator[Rented]:
    with real_account(Ec2Hosts(installed, scratch_folder()), warm_home, tmp_path) as account:
        yield account


def put_before(rented: Rented, name: str, body: str) -> None:
    """Gives hosts another program of that name."""
    folder = rented.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)
    rented.hosts.path = str(folder)


@pytest.mark.long
def test_up_status_run_and_down_on_a_host(rented: Rented) -> None:
    plan = rented.plan(rented.target(parameters='{ work_mem = "8MB" }'))
    said = rented.pgdyno("target", "up", plan, "--yes", "--for", "3h")
    assert "m7g.large in eu-central-1a, version 18" in said
    assert "sslmode=verify-ca" in said
    # people get there by what it says
    line = next(line for line in said.splitlines() if "ssh -F" in line)
    command = ["ssh", *line.partition(", ssh ")[2].split(), "cat", "~/state"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "ready\n"
    (row,) = json.loads(rented.pgdyno("target", "status", plan, "--json"))
    assert [each.split(" pgdyno-")[0] for each in row["there"]] == ["instance", "volume", "security group"]
    said = rented.pgdyno("run", plan, "--no-preflight")
    assert "using the servers that are already up" in said
    run = rented.run()
    (record,) = run.trials()
    assert record.outcome == "finished"
    # the host was sampled over SSH
    assert record.probe is not None
    assert record.probe.over_ssh is not None
    assert record.probe.over_ssh.message is None
    assert record.probe.over_ssh.clock is not None
    rented.pgdyno("target", "down", plan)
    assert rented.simulator.left() == []
    assert rented.hosts.known == {}
    assert rented.left_files() == ["prices.json"]


@pytest.mark.long
def test_the_cheapest_host_of_two_families_is_found_and_others_are_removed_at_once(rented: Rented) -> None:
    (rented.folder / "planted.sql").write_text("SELECT pg_sleep(current_setting('load.seconds')::float8);\n")
    types = ("m7g.large", "m7g.xlarge", "r7g.large", "r7g.xlarge")
    # both small types are too slow, and a trial on one of the others fails
    slow = {each: "load.seconds = 0.4" for each in types if each.endswith(".large")}
    rented.hosts.settings = slow | {"r7g.xlarge": "load.seconds = 0.001"}
    targets = [
        rented.target(instance=f'"{each}"').replace("target.ec2", f"target.{each.replace('.', '-')}") for each in types
    ]
    search = '[search]\nfind = "cheapest"\nlatency = "p50 < 150ms"\n'
    plan = rented.plan(*targets, repeats=3, more=search)
    text = plan.read_text().replace('"select-only"', '"planted.sql"').replace('dataset = "pgbench"', 'dataset = "none"')
    plan.write_text(
        text.replace("clients = 1\nrate = 200", "clients = 16\nrate = 20").replace(
            "[trial]", '[trial]\non_failure = "stop"'
        )
    )
    rented.pgdyno("run", plan, "--yes", "--no-preflight", code=5)
    assert rented.simulator.left() == []
    run = rented.run()
    # each is removed when it is decided, not at the end
    assert [each for each in run.manifest.notes if "pgdyno removes its server" in each] == [
        f"target {name} is decided: pgdyno removes its server" for name in ("m7g-large", "r7g-large")
    ]
    ends = {each.target: each.until for each in run.manifest.rented}
    assert ends["m7g-large"] < ends["r7g-large"] < ends["m7g-xlarge"] == ends["r7g-xlarge"]
    # only what is still open is rented again
    rented.hosts.settings |= {"m7g.xlarge": "load.seconds = 0.001"}
    said = rented.pgdyno("run", "--resume", run.path, "--redo-failed", "--yes")
    machines = [each.asked["InstanceType"] for each in rented.simulator.machines.all.values()]
    assert sorted(machines[:4]) == sorted(types)
    assert sorted(machines[4:]) == ["m7g.xlarge", "r7g.xlarge"]
    run = rented.run()
    (found,) = run.manifest.search
    assert (found.kept, found.target, found.currency) == (True, "m7g-xlarge", "USD"), said
    # a small type of each family, then the cheaper large one, which the other one need not follow
    assert [each.target for each in run.trials()] == [*["m7g-large"] * 3, *["r7g-large"] * 3, *["m7g-xlarge"] * 3]
    verdicts = {each.target: each.verdict for each in found.targets}
    assert verdicts == {"m7g-large": "failed", "r7g-large": "failed", "m7g-xlarge": "kept", "r7g-xlarge": "untried"}
    assert "The cheapest target that keeps 20 transactions a second at p50 < 150ms is m7g-xlarge" in said
    assert rented.simulator.left() == []


@pytest.mark.long
def test_the_load_comes_from_a_host_of_its_own(rented: Rented) -> None:
    (rented.folder / "own.sql").write_text("SELECT abalance FROM pgbench_accounts WHERE aid = 7;\n")
    plan = rented.plan(rented.target(), more=rented.generator())
    plan.write_text(plan.read_text().replace('"select-only"', '"own.sql@2", "select-only"'))
    said = rented.pgdyno("run", plan, "--yes")
    assert f"the load comes from a {HERE} in eu-central-1a" in rented.run().manifest.notes
    assert "the load comes from another host" in said
    run = rented.run()
    (record,) = run.trials()
    assert (record.outcome, record.failure) == ("finished", None)
    assert {each.name for each in present(record.summary).scripts} == {"own.sql", "<builtin: select only>"}
    assert present(record.probe).server
    assert present(present(present(record.probe).over_ssh).clock).aligned
    # what a transaction waits for is measured from there
    assert record.network_path is not None
    assert (record.network_path.generator_zone, record.network_path.server_zone) == ("eu-central-1a", "eu-central-1a")
    assert record.network_path.round_trips > 0
    assert record.network_path.generator is None
    assert 0 < record.network_path.least_us <= record.network_path.median_us
    assert {each.target for each in run.manifest.rented} == {"ec2", "generator"}
    server, generator = list(rented.simulator.machines.all.values())
    assert (server.zone, generator.asked["InstanceType"]) == (generator.zone, HERE)
    # both programs were copied there and run there
    assert rented.simulator.left() == []
    copied = {each.name.rpartition("-")[0] for each in rented.hosts.kept(generator) if each.is_file()}
    assert {"pgdrive", "pgprobe"} <= copied
    # CloudWatch reported the server, and how far its volume limited it
    told = present(read_cloud(load_run(run), record.number))
    assert [(each.source, each.message, each.gaps) for each in told.sources] == [("cloudwatch", None, [])]
    assert any("volume root reached its IOPS limit" in each for each in run.manifest.notes)
    # and none of its processes continues
    page = run.path / "page.html"
    rented.pgdyno("report", run.path, "--html", page)
    assert "Processors (provider's metrics, by the minute)" in page.read_text()


@pytest.mark.long
def test_the_load_comes_from_two_hosts_and_one_is_lost(rented: Rented) -> None:
    plan = rented.plan(rented.target(), more=rented.generator(count="2"))
    (rented.folder / "own.lua").write_text(
        "require('beside')\n"
        "function thread_init() connection = sysbench.sql.driver():connect() end\n"
        "function event() connection:query('SELECT ' .. beside() .. ' FROM pg_sleep(0.005)') end\n"
    )
    (rented.folder / "beside.lua").write_text("function beside() return sysbench.opt.threads end\n")
    text = plan.read_text().replace("clients = 1", "clients = 3")
    plan.write_text(text.replace('scripts = ["select-only"]', 'lua = "own.lua"'))
    cost = rented.pgdyno("plan", "cost", plan, "--json")
    assert [each["what"] for each in json.loads(cost)["items"] if each["target"] == "generator"].count(HERE) == 2
    with killing_an_engine(rented) as killed:
        said = rented.pgdyno("run", plan, "--yes")
    assert killed, said
    run = rented.run()
    (record,) = run.trials()
    assert (record.outcome, record.failure) == ("finished", None)
    assert any("runs again: generator 2 of 2 (generator-2) was lost" in each for each in run.manifest.notes)
    assert f"the load comes from 2 {HERE} in eu-central-1a" in run.manifest.notes
    assert record.generator is not None
    assert [(each.name, each.clients) for each in record.generator.hosts] == [("generator-1", 2), ("generator-2", 1)]
    assert record.summary is not None
    assert [each.name for each in record.summary.scripts] == ["own.lua"]
    assert present(record.summary.statements).reads == record.summary.succeeded
    assert record.summary.succeeded == sum(each.succeeded or 0 for each in record.generator.hosts)
    for each in record.generator.hosts:
        assert each.start_late_us is not None
        assert each.clock_ahead_after_us is not None
        assert each.cpu_us is not None
        assert each.ceiling_tps is not None
        assert (each.zone, each.instance) == ("eu-central-1a", HERE)
        assert each.cpu_model
        assert each.round_trips
        assert 0 < (each.round_trip_us or 0) <= present(each.round_trip_median_us)
    # the farthest is what the trial's way is from
    assert record.network_path is not None
    farthest = max(record.generator.hosts, key=lambda each: each.round_trip_us or 0)
    assert (record.network_path.generator, record.network_path.least_us) == (farthest.called, farthest.round_trip_us)
    assert (record.network_path.generator_zone, record.network_path.server_zone) == ("eu-central-1a", "eu-central-1a")
    # each was driven against a server that answers at once, and went to the server and back
    looked = [check.id for check in run.manifest.preflight]
    assert (looked.count("generator.ceiling"), looked.count("network.round-trip")) == (2, 2)
    assert present(record.probe).server
    assert [each.target for each in run.manifest.rented] == ["ec2", "generator", "generator"]
    groups = {
        each.asked["NetworkInterfaces"][0]["Groups"][0] for each in list(rented.simulator.machines.all.values())[1:]
    }
    assert len(groups) == 1
    assert rented.simulator.left() == []
    assert rented.hosts.known == {}


@contextmanager
def killing_an_engine(rented: Rented) -> Iterator[list[int]]:
    """Kills the engine of the second share of a load as soon as it runs."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not killed and not over.is_set():
            for each in processes_with(b"\0--part=2/2\0"):
                if command_line(each).startswith(os.fsencode(rented.hosts.folder)):
                    os.kill(each, signal.SIGKILL)
                    killed.append(each)
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.mark.long
def test_selftest_of_a_host(rented: Rented) -> None:
    # what a host of Amazon would say of its volumes and its services
    put_before(rented, "findmnt", 'case "$3" in */data) echo ext4;; *) echo xfs;; esac')
    put_before(rented, "systemctl", "echo active")
    own = {"login": LOGIN, "ssh_port": rented.ssh_port}
    keys = own | {"port": rented.port} | {f"generator.{name}": value for name, value in own.items()}
    options = [word for name, value in keys.items() for word in ("--set", f"{name}={value}")]
    options += ["--kind", "ec2", "--version", "18", "--yes", "--generator", HERE, "--duration", "1s"]
    said = rented.pgdyno("target", "selftest", *options)
    lines = [line.split(": ")[:2] for line in said.splitlines() if line.startswith(("ok: ", "WRONG: ", "left out: "))]
    assert lines == [["ok", each.key] for each in checks_of("ec2")]
    assert "data and WAL have ext4 and xfs" in said
    assert rented.simulator.left() == []
