"""Whole plans on "EC2": the simulator, with a real sshd and a real PostgreSQL behind each host's address."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
from tests.waiting import wait_until

Rented = RealAccount[Ec2Hosts]


@pytest.fixture
def rented(installed: Installation, warm_home: Home, tmp_path: Path) -> Iterator[Rented]:
    with real_account(Ec2Hosts(installed, scratch_folder()), warm_home, tmp_path) as account:
        yield account


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
    over_ssh = present(present(record.probe).over_ssh)
    assert over_ssh.message is None
    assert over_ssh.clock is not None
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
    names = [each.replace(".", "-") for each in types]
    targets = [
        rented.target(instance=f'"{each}"').replace("target.ec2", f"target.{name}")
        for each, name in zip(types, names, strict=True)
    ]
    search = 'on_failure = "stop"\n[search]\nfind = "cheapest"\nlatency = "p50 < 150ms"\n'
    plan = rented.plan(*targets, repeats=3, more=search)
    text = plan.read_text().replace('"select-only"', '"planted.sql"').replace('dataset = "pgbench"', 'dataset = "none"')
    plan.write_text(text.replace("clients = 1\nrate = 200", "clients = 16\nrate = 20"))
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

    def engines_of_second_share() -> list[int]:
        there = os.fsencode(rented.hosts.folder)
        return [each for each in processes_with(b"\0--part=2/2\0") if command_line(each).startswith(there)]

    def kill() -> None:
        wait_until(engines_of_second_share)
        os.kill(engines_of_second_share()[0], signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        rented.pgdyno("run", plan, "--yes")
        killed.result()
    run = rented.run()
    (record,) = run.trials()
    assert (record.outcome, record.failure) == ("finished", None)
    assert any("runs again: generator 2 of 2 (generator-2) was lost" in each for each in run.manifest.notes)
    assert f"the load comes from 2 {HERE} in eu-central-1a" in run.manifest.notes
    hosts, summary = present(record.generator).hosts, present(record.summary)
    assert [(each.name, each.clients) for each in hosts] == [("generator-1", 2), ("generator-2", 1)]
    assert [each.name for each in summary.scripts] == ["own.lua"]
    assert present(summary.statements).reads == summary.succeeded
    assert summary.succeeded == sum(each.succeeded or 0 for each in hosts)
    for each in hosts:
        assert None not in (each.start_late_us, each.clock_ahead_after_us, each.cpu_us, each.ceiling_tps)
        assert (each.zone, each.instance) == ("eu-central-1a", HERE)
        assert each.cpu_model
        assert each.round_trips
        assert 0 < (each.round_trip_us or 0) <= present(each.round_trip_median_us)
    # the farthest is what the trial's way is from
    path, farthest = present(record.network_path), max(hosts, key=lambda each: each.round_trip_us or 0)
    assert (path.generator, path.least_us) == (farthest.called, farthest.round_trip_us)
    assert (path.generator_zone, path.server_zone) == ("eu-central-1a", "eu-central-1a")
    # each was driven against a server that answers at once, and went to the server and back
    looked = [check.id for check in run.manifest.preflight]
    assert (looked.count("generator.ceiling"), looked.count("network.round-trip")) == (2, 2)
    assert present(record.probe).server
    assert present(present(present(record.probe).over_ssh).clock).aligned
    # CloudWatch reported the server, and how far its volume limited it
    told = present(read_cloud(load_run(run), record.number))
    assert [(each.source, each.message, each.gaps) for each in told.sources] == [("cloudwatch", None, [])]
    assert any("volume root reached its IOPS limit" in each for each in run.manifest.notes)
    assert [each.target for each in run.manifest.rented] == ["ec2", "generator", "generator"]
    _, *generators = rented.simulator.machines.all.values()
    assert len({each.asked["NetworkInterfaces"][0]["Groups"][0] for each in generators}) == 1
    assert rented.simulator.left() == []
    assert rented.hosts.known == {}


@pytest.mark.long
def test_selftest_of_a_host(rented: Rented) -> None:
    # programs that print what they print on a host of Amazon, about its volumes and its services
    rented.hosts.path = str(rented.folder / "bin")
    (rented.folder / "bin").mkdir()
    for name, body in (
        ("findmnt", 'case "$3" in */data) echo ext4;; *) echo xfs;; esac'),
        ("systemctl", "echo active"),
    ):
        program = rented.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    own = {"login": LOGIN, "ssh_port": rented.ssh_port}
    keys = own | {"port": rented.port} | {f"generator.{name}": value for name, value in own.items()}
    options = [word for name, value in keys.items() for word in ("--set", f"{name}={value}")]
    options += ["--kind", "ec2", "--version", "18", "--yes", "--generator", HERE, "--duration", "1s"]
    said = rented.pgdyno("target", "selftest", *options)
    lines = [line.split(": ")[:2] for line in said.splitlines() if line.startswith(("ok: ", "WRONG: ", "left out: "))]
    assert lines == [["ok", each.key] for each in checks_of("ec2")]
    assert "data and WAL have ext4 and xfs" in said
    assert rented.simulator.left() == []
