"""A plan of the catalogue on every kind of server: on this machine, over the network, on hosts at Amazon and of a pool.

Only root can boot the pool's host: for others this test is left out, and says so. CI is root.
"""

import getpass
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pgdyno.records import Manifest, Outcome
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.installation import Installation
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.simulator import Simulator, simulated
from tests.forked import run_pgdyno
from tests.ports import EVERYWHERE, reserve_port
from tests.postgres.runs import environment
from tests.postgres.test_pool import Rack, rack
from tests.scratch import scratch_folder

__all__ = ["rack"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces: run it as root, as CI does")
PLAN, REGION = "graviton-pgbench", "us-east-1"
SHORT = (
    "workload.scale=1", "sweep.clients=2", "trial.warmup=0s", "trial.duration=1s", "trial.repeats=1", "trial.seed=1",
    "trial.order=as-listed",
)  # fmt: skip
SAME = ("workload", "sweep", "trial", "reset", "published")
"""What the plan keeps on all servers."""


@pytest.fixture
def hosts(installed: Installation) -> Iterator[Ec2Hosts]:
    folder = scratch_folder()
    hosts = Ec2Hosts(installed, folder)
    yield hosts
    hosts.stop()
    shutil.rmtree(folder, ignore_errors=True)


def measured(
    folder: Path, home: Home, *settings: str, on: str | None = None, variables: Mapping[str, str] | None = None
) -> Manifest:
    """Runs the plan with short trials, and returns the manifest of the run."""
    folder.mkdir()
    words = [word for each in (*SHORT, *settings) for word in ("--set", each)]
    chosen = [] if on is None else ["--on", on]
    args = ["run", PLAN, *chosen, *words, "--yes", "--no-preflight"]
    done = run_pgdyno(args, cwd=folder, env={**environment(home), **(variables or {})})
    assert done.returncode == 0, done.stdout + done.stderr
    (entry,) = list_runs(folder / "pgdyno-runs")
    run = RunFolder.open(entry.path)
    assert [(each.outcome, each.failure) for each in run.trials()] == [(Outcome.FINISHED, None)] * len(
        run.manifest.targets
    )
    return run.manifest


def on_amazon(folder: Path, home: Home, hosts: Ec2Hosts, simulator: Simulator) -> Manifest:
    ssh, port = reserve_port(hosts, EVERYWHERE), reserve_port(hosts, EVERYWHERE)
    ours = {"login": f'"{getpass.getuser()}"', "ssh_port": str(ssh)}
    tables = {"target.graviton2": ours | {"port": str(port)}, "target.x86-64": ours | {"port": str(port)}}
    tables["generator"] = ours | ({} if os.uname().machine == "x86_64" else {"instance": '"c7g.4xlarge"'})
    settings = [f"{table}.{key}={value}" for table, keys in tables.items() for key, value in keys.items()]
    variables = {**simulator.environment, "PGDYNO_ADDRESS": "203.0.113.7"}
    return measured(folder, home, *settings, variables=variables)


@pytest.mark.long
def test_a_plan_runs_everywhere(rack: Rack, hosts: Ec2Hosts, server: Server, warm_home: Home, tmp_path: Path) -> None:
    here = measured(tmp_path / "embedded", warm_home, 'target.here.version="18"', on="embedded")
    # the database of that name is the tests' own
    over_network = measured(
        tmp_path / "dsn", warm_home, 'target.server.database="elsewhere"', on="dsn", variables=server.environment()
    )
    with server.connect(server.maintenance) as connection:
        connection.execute("DROP DATABASE elsewhere")
    before = rack.look()
    login = f'user="bench", config="{rack.ssh.config}", known_hosts="{rack.ssh.known_hosts}"'
    borrowed = f'target.host.hosts=[{{host="{rack.ssh.host}", {login}}}]'
    pool = measured(tmp_path / "pool", warm_home, borrowed, 'target.host.version="15"', on="pool")
    assert rack.look() == before
    with simulated(Simulator(hosts, region=REGION)) as simulator:
        amazon = on_amazon(tmp_path / "amazon", warm_home, hosts, simulator)
        assert simulator.left() == []
    assert [each.kind for each in (*here.targets, *over_network.targets, *pool.targets)] == ["embedded", "dsn", "pool"]
    assert [(each.name, each.kind) for each in amazon.targets] == [("graviton2", "ec2"), ("x86-64", "ec2")]
    for each in (over_network, pool, amazon):
        assert {key: each.plan.get(key) for key in SAME} == {key: here.plan.get(key) for key in SAME}
