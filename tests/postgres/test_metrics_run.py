"""Figures of whole runs: for Prometheus, and mean active sessions, which Little's law checks."""

import re
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import Metric

from pgdyno.store import load_run
from pgdyno.store.probe_queries import probe_averages
from pgdyno.targets import Home
from tests.postgres.runs import fast_plan, pgdyno, pgdyno_process, the_run
from tests.present import present
from tests.unit.openmetrics_check import parsed
from tests.waiting import PATIENCE_S, wait_until

METERED = fast_plan(
    'scripts = ["tpcb-like"]',
    "clients = 3\nrate = 200",
    'warmup = "1s"\nduration = "4s"\n[hooks]\nafter_trial = "until test -e scraped; do sleep 0.1; done"',
)
ACCEPT = "application/openmetrics-text; version=1.0.0"


def scraped(address: str) -> dict[str, Metric]:
    request = urllib.request.Request(address, headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return parsed(answer.read().decode())


def test_a_run_is_served_exported_and_shown(warm_home: Home, tmp_path: Path) -> None:
    """At an HTTP address during the run, as text afterwards, and in a line of `show`."""
    (tmp_path / "metered.toml").write_text(METERED)
    words = ("run", "metered.toml", "--no-preflight", "--metrics", "127.0.0.1:0")
    with pgdyno_process(warm_home, tmp_path, *words) as process:
        printed, announced = tmp_path / "said", re.compile(r"metrics: (http://127\.0\.0\.1:\d+/metrics)")
        wait_until(lambda: process.poll() is not None or announced.search(printed.read_text()))
        url = present(announced.search(printed.read_text()))[1]
        met: dict[str, Metric] = {}

        # between start and end there is nothing to read that would stop it
        def is_measured() -> bool:
            nonlocal met
            assert process.poll() is None
            met = scraped(url)
            return "pgdyno_cpu_user_ratio" in met and "pgdyno_latency_seconds" in met

        wait_until(is_measured)
        # the hook has kept the run from its end, however late this is
        (tmp_path / "scraped").touch()
        assert process.wait(PATIENCE_S) == 0, printed.read_text()
    (trial,) = met["pgdyno_trial"].samples
    folder = the_run(tmp_path)
    assert (trial.labels["run"], trial.labels["slug"]) == (folder.name, "0001-a-c3")
    assert met["pgdyno_clients"].samples[0].value == 3
    assert any(sample.labels.get("kind") == "client backend" for sample in met["pgdyno_processes_number"].samples)

    done = pgdyno(warm_home, tmp_path, "export", "latest", "--openmetrics", "--trial", "1", code=0)
    families = parsed(done.stdout)
    record = folder.trials()[0]
    succeeded = present(present(record.summary).succeeded)
    by_outcome = {sample.labels["outcome"]: sample.value for sample in families["pgdyno_transactions"].samples}
    # those of the warm-up are among them
    assert by_outcome["succeeded"] >= succeeded
    inserted = families["pgdyno_database_rows_inserted"].samples[-1].value
    assert 0.5 * succeeded < inserted <= by_outcome["succeeded"]
    for sample in families["pgdyno_cpu_user_ratio"].samples:
        assert sample.timestamp is not None
        assert abs(float(sample.timestamp) - present(record.started_at).timestamp()) < PATIENCE_S

    shown = pgdyno(warm_home, tmp_path, "show", "latest").stdout
    limits = shown.partition("In the probe's samples of the server")[2]
    assert re.search(r"^3 clients +\S+ .* \d+ ", limits, re.MULTILINE), shown

    assert pgdyno(warm_home, tmp_path, "export", "latest").returncode == 2


# long enough that pg_stat_statements sees most of what the server does for it: not its parsing and its answer
RANGES = """\
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
    length = f'warmup = "500ms"\nduration = "3s"\n[hooks]\nbefore_trial = ["{sys.executable}", "create.py"]'
    text = fast_plan('scripts = ["ranges.sql"]\nscale = 1', 'clients = 16\nprotocol = "prepared"', length)
    (tmp_path / "saturated.toml").write_text(text)
    (tmp_path / "create.py").write_text(CREATE)
    (tmp_path / "ranges.sql").write_text(RANGES)
    loads = '--set=target.a.settings.shared_preload_libraries="pg_stat_statements"'
    pgdyno(warm_home, tmp_path, "run", "saturated.toml", loads, code=0)
    run = load_run(the_run(tmp_path))
    (trial,) = run.trials
    found = run.query("SELECT sum(exec_time_ms) / sum(calls) FROM server_statements WHERE text LIKE '%abalance%'")
    expected = present(present(trial.summary).tps) * found.rows[0][0] / 1e3
    (seen,) = probe_averages(run)
    active = sum(sessions for _, _, sessions in seen.waits)
    print(f"active {active:.3f}, throughput x server time {expected:.3f}, ratio {active / expected:.3f}")
    assert 0.85 < active / expected < 1.2
    assert seen.waits[0][:2] == ("CPU", "")
