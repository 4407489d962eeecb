"""A run's figures for Prometheus: at an HTTP address during the run, as text afterwards, and in a line of `show`."""

import re
import subprocess
import urllib.request
from pathlib import Path

from prometheus_client import Metric

from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.postgres.runs import environment, pgdyno, the_run
from tests.present import present
from tests.unit.openmetrics_check import parsed
from tests.waiting import PATIENCE_S, wait_until

PLAN = """\
name = "metered"
[target.a]
kind = "embedded"
version = "18"
[target.a.settings]
fsync = "off"
[workload]
scripts = ["tpcb-like"]
[sweep]
clients = 3
rate = 200
[trial]
warmup = "1s"
duration = "4s"
[hooks]
after_trial = "until test -e scraped; do sleep 0.1; done"
"""
ACCEPT = "application/openmetrics-text; version=1.0.0"


def scraped(address: str) -> dict[str, Metric]:
    request = urllib.request.Request(address, headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return parsed(answer.read().decode())


def test_a_run_is_served_exported_and_shown(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "metered.toml").write_text(PLAN)
    with subprocess.Popen(
        [PGDYNO, "run", "metered.toml", "--no-preflight", "--metrics", "127.0.0.1:0"],
        cwd=tmp_path,
        env=environment(warm_home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        address = None
        while address is None:
            line = present(process.stderr).readline()
            assert line, process.wait()
            address = re.search(r"metrics: (http://127\.0\.0\.1:\d+/metrics)", line)
        met: dict[str, Metric] = {}
        url = address[1]

        # between start and end there is nothing to read that would stop it
        def is_measured() -> bool:
            nonlocal met
            assert process.poll() is None
            met = scraped(url)
            return "pgdyno_cpu_user_ratio" in met and "pgdyno_latency_seconds" in met

        wait_until(is_measured)
        # the hook has kept the run from its end, however late this is
        (tmp_path / "scraped").touch()
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
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
    taken = pgdyno(warm_home, tmp_path, "run", "metered.toml", "--metrics", "somewhere:1", code=2)
    assert "needs an address" in taken.stderr
