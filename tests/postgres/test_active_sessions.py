"""Mean active sessions of a saturated server, checked against throughput and statement latency (Little's law)."""

import sys
from pathlib import Path

import pytest

from pgdyno.store import load_run
from pgdyno.store.probe_queries import probe_averages
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run
from tests.present import present

PLAN = """\
name = "saturated"
[target.a]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_preload_libraries = "pg_stat_statements" }
[workload]
scripts = ["ranges.sql"]
scale = 1
[sweep]
clients = 16
protocol = "prepared"
[trial]
warmup = "500ms"
duration = "3s"
[hooks]
before_trial = ["PYTHON", "create.py"]
[probe]
"""
# long enough that pg_stat_statements sees most of what the server does for it: not its parsing and its answer
SCRIPT = """\
\\set aid random(1, 80000)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 20000;
"""


CREATE = """\
import psycopg
with psycopg.connect() as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
"""


@pytest.mark.long
def test_active_sessions_are_throughput_times_server_time(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "saturated.toml").write_text(PLAN.replace("PYTHON", sys.executable))
    (tmp_path / "create.py").write_text(CREATE)
    (tmp_path / "ranges.sql").write_text(SCRIPT)
    pgdyno(warm_home, tmp_path, "run", "saturated.toml", code=0)
    run = load_run(the_run(tmp_path))
    (trial,) = run.trials
    found = run.query("SELECT sum(exec_time_ms) / sum(calls) FROM server_statements WHERE text LIKE '%abalance%'")
    expected = present(present(trial.summary).tps) * found.rows[0][0] / 1e3
    (seen,) = probe_averages(run)
    active = sum(sessions for _, _, sessions in seen.waits)
    print(f"active {active:.3f}, throughput x server time {expected:.3f}, ratio {active / expected:.3f}")
    assert 0.85 < active / expected < 1.2
    assert seen.waits[0][:2] == ("CPU", "")
