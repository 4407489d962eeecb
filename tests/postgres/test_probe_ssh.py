"""Runs against a server on another host: its activity is in the generator's seconds, or the run gives the reason."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdyno.records import TrialRecord
from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO
from tests.postgres.namespaces import lan
from tests.postgres.own_servers import OwnServer
from tests.postgres.runs import environment, the_run
from tests.present import present
from tests.run_program import run_program
from tests.scratch import scratch_folder
from tests.ssh.sshd import FAKETIME, Sshd, running_sshd

pytestmark = pytest.mark.long

SKEW_S = 3600
PLAN = """\
name = "far"
[target.theirs]
kind = "dsn"
dsn = "host={address} port={port} user=postgres"
[target.theirs.ssh]
host = "{address}"
port = {ssh_port}
config = "{config}"
known_hosts = "{known_hosts}"
folder = "{cache}"
[workload]
scripts = ["tpcb-like"]
[sweep]
clients = 3
[trial]
duration = "{duration}"
"""


@dataclass(frozen=True)
class Stage:
    """A generator's host, and that of a database with an sshd: this machine if namespaces are not permitted."""

    within: tuple[str, ...]
    """The prefix of commands on the generator's host."""
    server: OwnServer
    sshd: Sshd

    def run(self, home: Home, folder: Path, ssh: Path | None = None, duration: str = "4s") -> tuple[TrialRecord, str]:
        """Runs a plan on the generator's host; returns its trial and the output. `ssh` is another file of host keys."""
        plan = PLAN.format(
            address=self.sshd.address,
            port=self.server.port,
            ssh_port=self.sshd.port,
            config=self.sshd.config,
            known_hosts=ssh or self.sshd.known_hosts,
            cache=self.sshd.cache,
            duration=duration,
        )
        (folder / "far.toml").write_text(plan)
        done = self.pgdyno(home, folder, "run", "far.toml", "--no-preflight")
        assert done.returncode == 0, done.stderr
        (trial,) = the_run(folder).trials()
        return trial, done.stderr + done.stdout

    def pgdyno(self, home: Home, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return run_program([*self.within, str(PGDYNO), *args], env=environment(home), cwd=folder)


@pytest.fixture(scope="module")
def stage(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Programs started over SSH see a clock that is an hour ahead."""
    assert FAKETIME is not None, "make test-packages installs libfaketime"
    skewed = f"SetEnv LD_PRELOAD={FAKETIME} FAKETIME=+{SKEW_S}s FAKETIME_DONT_FAKE_MONOTONIC=1"
    with ExitStack() as stack:
        hosts = lan(stack, 2)
        (generator, database), address = [each.within for each in hosts] or [(), ()], "127.0.0.1"
        if hosts:
            address = hosts[1].address
        folder = scratch_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = OwnServer.make(installed, folder / "server")
        server.configure(f"listen_addresses = '{address}'\ncluster_name = 'theirs/main'\n")
        with (server.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {address}/24 trust\n")
        server.start(database)
        stack.callback(server.stop, "immediate")
        there = running_sshd(tmp_path_factory.mktemp("sshd"), address=address, lines=[skewed], within=database)
        yield Stage(generator, server, stack.enter_context(there))


def test_activity_of_the_host_is_in_the_generator_s_seconds(stage: Stage, warm_home: Home, tmp_path: Path) -> None:
    trial, _ = stage.run(warm_home, tmp_path)
    assert trial.probe is not None
    far = present(trial.probe.over_ssh)
    assert (far.host, far.connections, far.message) == (stage.sshd.address, 1, None)
    assert (trial.probe.host, trial.probe.server, trial.probe.waits_hz) == (True, True, 1)
    clock = present(far.clock)
    assert abs(clock.offset_us - SKEW_S * 1_000_000) <= clock.uncertainty_us
    data = load_run(the_run(tmp_path))
    succeeded = sum(row.succeeded for row in data.intervals())
    # an hour of skew is gone from both times; the wide bounds leave time to a busy machine
    span = "SELECT min(t_us), max(t_us), min(wall_us) FROM series WHERE source = 'cpu'"
    first_us, last_us, wall_us = data.query(span).rows[0]
    assert first_us < SKEW_S * 1e6 / 10
    assert 2e6 < last_us < SKEW_S * 1e6 / 10
    assert abs(wall_us / 1e6 - present(trial.started_at).timestamp()) < 600
    # the load's own backends worked in the load's seconds and in no others, by the cluster's name
    busy = (
        "SELECT min(t_us), max(t_us - span_us), sum(value) FROM series WHERE source = 'process' AND metric = 'cpu'"
        " AND labels->>'kind' = 'client backend' AND value > 20000"
    )
    # the end of the first such sample, and the begin of the last one, however late they were taken
    begin_us, end_us, cpu_us = data.query(busy).rows[0]
    assert -clock.uncertainty_us < begin_us
    assert end_us < (present(trial.summary).measured_s or 0.0) * 1e6 + 1e6 + clock.uncertainty_us
    assert cpu_us > 0
    assert succeeded > 0
    # SQL was asked from here, and each probe tells its own cost
    sources = {row[0] for row in data.query("SELECT DISTINCT source FROM series").rows}
    assert {"cpu", "process", "memory", "wal", "database", "probe", "probe_over_ssh"} <= sources
    assert not list(the_run(tmp_path).trials_path.glob("*/probe.jsonl*"))


def test_a_host_with_an_unknown_key_stops_no_trial(stage: Stage, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    trial, said = stage.run(warm_home, tmp_path, tmp_path / "known", "2s")
    assert trial.outcome == "finished"
    assert trial.probe is not None
    assert "unknown host key of" in (present(trial.probe.over_ssh).message or "")
    # the server was asked all the same, and the run says what is missing
    assert (trial.probe.host, trial.probe.server, trial.probe.message) == (False, True, None)
    assert "figures of the database's host are incomplete: unknown host key of" in said
    assert "Figures of the database's host are incomplete" in stage.pgdyno(warm_home, tmp_path, "show").stdout
    sources = {row[0] for row in load_run(the_run(tmp_path)).query("SELECT DISTINCT source FROM series").rows}
    assert "database" in sources
    assert "cpu" not in sources
