"""A search for settings on a real server: what it finds is confirmed, also after a kill, and nonsense is refused."""

import os
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.forked import PGDYNO
from tests.postgres.runs import environment, pgdyno, running, the_run
from tests.waiting import wait_until

PLAN = """\
name = "tuned"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scripts = ["sleeps.sql"]
dataset = "none"
[sweep]
clients = 2
[trial]
duration = "400ms"
repeats = 6
seed = 7
[search]
find = "settings"
trials = 4
SPACE
"""
CHANGED = """
    SELECT name, setting FROM pg_settings WHERE source IN ('configuration file', 'database', 'user', 'database user')
    UNION ALL SELECT setdatabase::text, setconfig::text FROM pg_db_role_setting
    UNION ALL SELECT name, setting FROM pg_file_settings
"""
"""Everything that a change of the server's settings would leave."""
SPACE = 'over.random_page_cost = ["1.1", "4"]\nover.effective_io_concurrency = ["7", "8"]'
# with the planted setting a transaction takes a fifth of the time, whatever the machine does meanwhile
SLEEPS = "SELECT pg_sleep(CASE WHEN current_setting('random_page_cost')::float8 < 2 THEN 0.004 ELSE 0.02 END);\n"


def write(folder: Path, space: str = SPACE) -> Path:
    (folder / "sleeps.sql").write_text(SLEEPS)
    path = folder / "tuned.toml"
    path.write_text(PLAN.replace("SPACE", space))
    return path


@pytest.mark.long
def test_a_killed_search_goes_on_and_confirms_the_planted_setting(warm_home: Home, tmp_path: Path) -> None:
    with running(warm_home, tmp_path, write(tmp_path)) as process:
        process.kill()
        process.wait()
    folder = the_run(tmp_path)
    assert folder.manifest.search == []
    done = pgdyno(warm_home, tmp_path, "tune", "--resume", str(folder.path), "--quiet")
    assert done.returncode == ExitCode.OK, done.stderr
    folder = the_run(tmp_path)
    trials, (found,) = folder.trials(), folder.manifest.search
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert (folder.manifest.outcome, found.trials) == (Outcome.FINISHED, len(trials))
    assert found.settings["random_page_cost"] == "1.1"
    assert found.confirmed is not None
    assert (found.confirmed.verdict, found.confirmed.pairs) == ("faster", 6)
    assert found.confirmed.low > 0
    # explored on one cluster, confirmed on another
    assert {trial.instance for trial in trials[:5]} == {1}
    assert {trial.instance for trial in trials[-12:]} == {2}
    text = (folder.path / "postgresql.conf").read_text()
    assert "random_page_cost = '1.1'\n" in text
    assert "throughput, 95 % interval" in text
    assert found.words.split(";")[0].removeprefix("confirmed") in done.stdout
    # the starting configuration, which may have settings of the target
    assert "unchanged" in done.stdout
    assert "default" not in done.stdout
    again = pgdyno(warm_home, tmp_path, "tune", "--resume", str(folder.path))
    assert again.returncode == ExitCode.STORE


def test_a_search_that_ends_before_its_first_trial_says_how_to_resume(warm_home: Home, tmp_path: Path) -> None:
    plan = write(tmp_path)
    plan.write_text(f'{plan.read_text()}[hooks]\nbefore_run = "touch begun; sleep 600"\n')
    command = [str(PGDYNO), "tune", str(plan), "--no-preflight"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(warm_home), text=True, stdout=PIPE, stderr=STDOUT
    ) as process:
        wait_until(lambda: any("begun" in files for _, _, files in os.walk(tmp_path)))
        process.terminate()
        printed, _ = process.communicate()
    assert f"to resume the search: pgdyno run --resume {the_run(tmp_path).path.relative_to(tmp_path)}" in printed


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            'over.shared_buffers = "128MB..4TB"',
            "search.over.shared_buffers: 128MB..4TB exceeds the memory of the machine",
        ),
        ('over.random_page_kost = "1..4"', "search.over.random_page_kost: the server has no such setting"),
        ('over.work_mem = "1kB..4MB"', "search.over.work_mem: 1kB..4MB is outside the server's range"),
    ],
)
def test_nonsense_is_refused_before_the_first_trial(warm_home: Home, tmp_path: Path, space: str, words: str) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(write(tmp_path, space)))
    assert done.returncode == ExitCode.STOPPED, done.stderr
    assert words in done.stderr.replace("\n", " ")
    assert the_run(tmp_path).trials() == []


@pytest.mark.long
def test_a_server_of_others_keeps_its_settings_after_a_kill(warm_home: Home, home: Home, tmp_path: Path) -> None:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"}, connect="tcp")
    with open_target("theirs", spec, home=home, progress=SilentProgress()) as server, server.connect() as connection:
        connection.execute("CREATE ROLE bench LOGIN CREATEDB")
        connection.execute("ALTER ROLE bench PASSWORD 'only here'")
        (tmp_path / "passfile").write_text("*:*:*:bench:only here\n")
        (tmp_path / "passfile").chmod(0o600)
        path = write(tmp_path, 'over.random_page_cost = ["1.1", "4"]')
        dsn = f"host={server.host} port={server.port} user=bench passfile={tmp_path / 'passfile'}"
        theirs = f'kind = "dsn"\ndsn = "{dsn}"\ndatabase = "measured"\n'
        ours = 'kind = "embedded"\nversion = "18"\nsettings = { fsync = "off", shared_buffers = "16MB" }\n'
        path.write_text(path.read_text().replace(ours, theirs))
        path.write_text(f"{path.read_text()}\n[reset]\ncheckpoint = false\n")
        before = connection.execute(CHANGED).fetchall()
        with running(warm_home, tmp_path, path) as process:
            process.kill()
            process.wait()
        assert connection.execute(CHANGED).fetchall() == before
        done = pgdyno(warm_home, tmp_path, "tune", "--resume", "latest")
        assert done.returncode == ExitCode.OK, done.stderr
        assert connection.execute(CHANGED).fetchall() == before
    folder = the_run(tmp_path)
    assert folder.manifest.search[0].settings == {"random_page_cost": "1.1"}
    assert {"random_page_cost": "1.1"} in [trial.session_settings for trial in folder.trials()]
