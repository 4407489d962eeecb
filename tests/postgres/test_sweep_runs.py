"""Runs of sweeps: each trial has its rate, variables and place in the order; differences decide and are confirmed.

A published run is repeated from its raw files.
"""

import json
import re
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.publish.ranking import ranking
from pgdyno.publish.run_entry import read_entry
from pgdyno.records import Outcome
from pgdyno.store import list_runs, load_run
from pgdyno.targets import Home
from tests.json_schema import validated
from tests.postgres.runs import fast_plan, pgdyno, run_plan_text, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

PLAN = fast_plan(
    'scripts = ["rows.sql"]\ndataset = "none"\nvariables = { rows = 1, base = 10 }',
    """\
clients = [2, 4]
workers = "clients / 2"
rate = 400
variables.rows = ["variables.base * 3", 7]
exclude = "clients == 4 and variables.rows == 7"
""",
    'duration = "500ms"\nrepeats = 2\nseed = 5',
    targets="ab",
)
SCRIPT = "SELECT count(*) = :rows AS right FROM generate_series(1, :rows);\nSELECT 1 / (:rows % 10 % 7);\n"


def run(home: Home, tmp_path: Path, plan: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
    (tmp_path / "rows.sql").write_text(SCRIPT)
    return run_plan_text(home, tmp_path, plan, "--json", code=code)


def test_trials_run_as_planned(warm_home: Home, tmp_path: Path) -> None:
    # 7 divides by zero, 31 does not: the script sees each point's own value
    done = run(warm_home, tmp_path, PLAN.replace("base * 3", "base * 3 + 1"))
    last = validated("run", done.stdout.splitlines()[-1])
    assert (last["trials"], last["failed"]) == (12, 4)
    folder = the_run(tmp_path)
    assert tmp_path / last["run"] == folder.path
    trials = folder.trials()
    assert folder.manifest.order == [trial.slug for trial in trials]
    assert folder.manifest.plan["trial"]["order"] == "interleaved"
    assert "".join(trial.target for trial in trials) == "baabababbaab"
    points = [(trial.point.clients, trial.point.workers, trial.point.variables["rows"]) for trial in trials[::2]]
    assert points == [(2, 1, "31"), (4, 2, "31"), (2, 1, "7")] * 2
    for trial in trials:
        assert trial.point.rate == 400.0
        if trial.point.variables["rows"] == "7":
            assert "division by zero" in present(trial.failure).message
            continue
        # 200 starts at random: five standard deviations
        assert abs(present(present(trial.summary).scheduled) - 200) < 5 * 200**0.5
        assert present(trial.generator).workers == trial.point.workers
    assert done.returncode == ExitCode.TRIALS_FAILED
    sql = "SELECT rate, variables['rows'], count(*) FROM trials GROUP BY ALL ORDER BY 2"
    assert load_run(folder).query(sql).rows == [(400.0, "31", 8), (400.0, "7", 4)]


def test_later_trials_of_a_load_have_the_threads_of_the_first(warm_home: Home, tmp_path: Path) -> None:
    workload = 'scripts = ["rows.sql"]\ndataset = "none"\nvariables = { rows = 1 }'
    run(
        warm_home,
        tmp_path,
        fast_plan(workload, "clients = 12", 'warmup = "0.3s"\nduration = "0.3s"', "ab"),
        code=ExitCode.OK,
    )
    first, second = (present(trial.generator) for trial in the_run(tmp_path).trials())
    assert second.workers == first.workers


# ---- runs of two arms whose difference is planted ----


def slower(folder: Path, of_b_ms: int, trial: str) -> Path:
    (folder / "sleep.sql").write_text("SELECT pg_sleep(:ms / 1000.0);\n")
    workload, sweep = 'scripts = ["sleep.sql"]\ndataset = "none"', f"clients = 1\nvariables.ms = [4, {of_b_ms}]"
    (folder / "slower.toml").write_text(fast_plan(workload, sweep, trial))
    return folder / "slower.toml"


@pytest.mark.long
def test_a_regression_is_confirmed_in_a_new_run(warm_home: Home, tmp_path: Path) -> None:
    plan = slower(tmp_path, 8, 'duration = "1s"\nrepeats = 6\n[probe]\nenabled = false')
    pgdyno(warm_home, tmp_path, "run", str(plan), "--quiet", code=ExitCode.OK)
    gate = ("gate", "latest", "--by", "variables.ms", "--max-regression", "10%", "--json")
    pgdyno(warm_home, tmp_path, *gate, code=ExitCode.REGRESSION)
    confirmed = pgdyno(warm_home, tmp_path, *gate, "--confirm", code=ExitCode.REGRESSION)
    answer = json.loads(confirmed.stdout)
    assert answer["gate"] == "regression"
    assert any("1 of 1 suspected regressions confirmed" in each for each in answer["notes"])
    assert len(list_runs(tmp_path / "pgdyno-runs")) == 2


@pytest.mark.long
def test_a_clear_difference_is_decided_at_the_first_look(warm_home: Home, tmp_path: Path) -> None:
    plan = slower(tmp_path, 24, 'duration = "500ms"\nrepeats = "6..9"')
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: len(the_run(tmp_path).trial_paths()) >= 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    done = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    assert "24 vs 4 at 1 client: -" in done.stderr
    assert "(slower), interval " in done.stderr
    assert "6 of at most 9 pairs" in done.stderr
    manifest = the_run(tmp_path).manifest
    assert "stopped after 6 of at most 9 repeats: decided" in manifest.notes
    assert (present(manifest.stopping).ended, present(manifest.stopping).by) == ("decided", "variables.ms")
    assert (manifest.outcome, manifest.trials_planned, len(manifest.order)) == (Outcome.FINISHED, 12, 18)
    assert len(the_run(tmp_path).trials()) == 12
    # everywhere the interval is the one that holds after stopping
    assert "stopped after 6 of at most 9 repeats: decided" in done.stdout
    compared = pgdyno(warm_home, tmp_path, "compare", "latest")
    assert "; stopped after 6 of at most 9 repeats: decided" in " ".join(compared.stdout.split())
    gated = validated("gate", pgdyno(warm_home, tmp_path, "gate", "latest", "--max-regression", "5%", "--json").stdout)
    assert gated["gate"] == "regression"
    assert gated["points"][0]["interval"]["look_level"] > gated["points"][0]["interval"]["level"]
    assert gated["stopping"]["ended"] == "decided"
    again = pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.STORE)
    assert "all 12 trials are stored" in again.stderr


def test_a_published_run_is_repeated_from_its_raw_files(warm_home: Home, tmp_path: Path) -> None:
    plan = fast_plan('scripts = ["sql/read.sql@2", "select-only"]', "clients = 2", 'duration = "500ms"\nrepeats = 1')
    (tmp_path / "plan.toml").write_text(plan.replace('"small"', '"Accounts_by_key"'))
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "read.sql").write_text("SELECT count(*) FROM pgbench_branches;\n")
    for words in (("run", "plan.toml"), ("publish", "pgdyno-runs", "--into", "site")):
        pgdyno(warm_home, tmp_path, *words, code=ExitCode.OK)
    (page,) = (tmp_path / "site" / "runs").iterdir()
    with tarfile.open(page / "raw.tar") as tar:
        tar.extractall(tmp_path / "other", filter="data")
    published = the_run(tmp_path)
    text = (page / "index.html").read_text()
    commands = re.findall(r"pgdyno report (\S+)/\ncd (\S+) &amp;&amp; pgdyno run plan.toml", text)
    assert commands == [(published.name, f"{published.name}/repeat")]
    pgdyno(warm_home, tmp_path / "other", "report", f"{published.name}/", code=ExitCode.OK)
    repeat = tmp_path / "other" / published.name / "repeat"
    pgdyno(warm_home, repeat, "run", "plan.toml", code=ExitCode.OK)
    entries = [read_entry(each.path) for each in (the_run(repeat), published)]
    # their audits may find two trials of half a second void
    (group,) = ranking([each.model_copy(update={"alone": ""}) for each in entries]).groups
    assert len(group.ranked) == 2
