"""Plans of the catalogue on real servers: one on every kind of server, and the insert benchmark."""

import getpass
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Manifest, Outcome
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.installation import Installation
from tests.aws.ec2_hosts import Ec2Hosts
from tests.aws.simulator import Simulator, simulated
from tests.forked import run_pgdyno
from tests.ports import EVERYWHERE, reserve_port
from tests.postgres.own_servers import running_server
from tests.postgres.runs import environment, the_run
from tests.postgres.servers import execute
from tests.postgres.test_pool import Rack, rack
from tests.present import present

__all__ = ["rack"]
pytestmark = pytest.mark.long
PLAN, REGION = "graviton-pgbench", "us-east-1"
SHORT = (
    "workload.scale=1", "sweep.clients=2", "trial.warmup=0s", "trial.duration=1s", "trial.repeats=1", "trial.seed=1",
    "trial.order=as-listed",
)  # fmt: skip
SAME = ("workload", "sweep", "trial", "reset", "published")
"""What the plan keeps on all servers."""


@pytest.fixture
def hosts(installed: Installation, scratch: Path) -> Iterator[Ec2Hosts]:
    hosts = Ec2Hosts(installed, scratch)
    yield hosts
    hosts.stop()


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


# a plan for servers of this machine, over the network, at Amazon, and of a pool, whose host only root can boot
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces: run it as root, as CI does")
def test_a_plan_runs_everywhere(rack: Rack, hosts: Ec2Hosts, server: Server, warm_home: Home, tmp_path: Path) -> None:
    here = measured(tmp_path / "embedded", warm_home, 'target.here.version="18"', on="embedded")
    # the database of that name is the tests' own
    over_network = measured(
        tmp_path / "dsn", warm_home, 'target.server.database="elsewhere"', on="dsn", variables=server.environment()
    )
    execute(server, "DROP DATABASE elsewhere", dbname=server.maintenance)
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


ROWS, WRITES, REMAINDER = 2000, 500, 100
SMALL = [f"workload.variables.rows={ROWS}", f"workload.variables.writes={WRITES}", "reset.consistency=counts"]
SECONDS = [f"step.{number}.duration=1s" for number in range(6, 12)]
TRANSACTIONS = {"l.i0": ROWS / 100, "l.i1": WRITES * 4 / 5 / 50, "l.i2": WRITES / 5 / 5}


@pytest.mark.parametrize("options", [[], ["--on", "dsn"]], ids=["embedded", "dsn"])
def test_the_insert_benchmark_keeps_its_rows(
    options: list[str], installed: Installation, home: Home, tmp_path: Path
) -> None:
    sets = [word for each in [*SMALL, *SECONDS, "trial.repeats=1"] for word in ("--set", each)]
    args = ["run", "insert-benchmark", *options, *sets, "--no-preflight"]
    with running_server(installed, "") as server:
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        done = run_pgdyno(args, cwd=tmp_path, env=environment(home) | place)
    assert done.returncode == ExitCode.OK, done.stderr
    trials = the_run(tmp_path).trials()
    assert [trial.outcome for trial in trials] == [Outcome.FINISHED] * 15
    done_by_step = {trial.point.step: trial.summary for trial in trials if trial.summary is not None}
    for step, transactions in TRANSACTIONS.items():
        assert done_by_step[step].succeeded == transactions
    assert all(trial.summary is not None and trial.summary.failed == 0 for trial in trials)
    # inserts and deletes of all steps are equal
    assert present(trials[-1].consistency).counts == {"public.pi1": ROWS + REMAINDER}
    # the queries, whose rate was not asked for, come first in the answer
    answer = " ".join(done.stdout.split()).rpartition("qr100, range, 1 client: ")[2]
    assert "qp1000, point, 1 client: " in answer
    assert answer.endswith("; and 6 more.")
