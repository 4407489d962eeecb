"""Searches on real servers: they find what is planted, also after a kill, and nonsense is refused."""

import json
import os
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.store import RunFolder
from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.postgres.runs import FAST_SERVER, environment, fast_plan, pgdyno, running, the_run
from tests.postgres.servers import embedded, opened
from tests.present import present
from tests.waiting import wait_until


def write(folder: Path, script: str, sweep: str, trial: str, search: str, target: str = FAST_SERVER) -> Path:
    (folder / "sleeps.sql").write_text(script)
    path = folder / "searching.toml"
    workload, trial = 'scripts = ["sleeps.sql"]\ndataset = "none"', f"seed = 7\n{trial}\n[search]\n{search}"
    path.write_text(fast_plan(workload, sweep, trial, ["pg18"], target))
    return path


def killed(home: Home, folder: Path, plan: Path) -> RunFolder:
    with running(home, folder, plan) as process:
        process.kill()
        process.wait()
    run = the_run(folder)
    assert run.manifest.search == []
    return run


@pytest.mark.long
def test_a_peak_is_found_again_behind_a_kill(warm_home: Home, tmp_path: Path) -> None:
    # more clients do more, whatever the machine does meanwhile
    sleeps = "SELECT pg_sleep(0.01);\n"
    plan = write(tmp_path, sleeps, "clients = [1, 4]", 'duration = "500ms"\nrepeats = 2', 'find = "peak"')
    folder = killed(warm_home, tmp_path, plan)
    before = [trial.number for trial in folder.trials()]
    done = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), code=ExitCode.OK)
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert len(trials) > len(before)
    manifest = folder.manifest
    (found,) = manifest.search
    assert (manifest.outcome, manifest.trials_planned, found.trials) == (Outcome.FINISHED, len(trials), len(trials))
    by_clients = {clients: [t for t in trials if t.point.clients == clients] for clients in (1, 2, 4)}
    assert all(len(each) == 2 for each in by_clients.values())
    assert [trial.repeat for trial in by_clients[2]] == [1, 2]
    assert found.words in done.stderr
    assert found.words in done.stdout
    means = {each.point.clients: found.tps for each in trials if each.point == found.point}
    assert means
    again = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), code=ExitCode.STORE)
    assert "all" in again.stderr


@pytest.mark.long
def test_the_capacity_of_a_server_that_sleeps_is_known(warm_home: Home, tmp_path: Path) -> None:
    # 4 clients do 400 transactions a second; a machine that stands still for a third of a second must not miss the
    # target at the lowest rate
    sweep, search = "clients = 4\nrate = [50, 6400]", 'find = "capacity"\nlatency = "p50 < 100ms"\nprecision = "50%"'
    plan = write(tmp_path, "SELECT pg_sleep(0.01);\n", sweep, 'duration = "1s"\nrepeats = 3', search)
    done = pgdyno(warm_home, tmp_path, "run", str(plan), "--json", code=ExitCode.OK)
    folder = the_run(tmp_path)
    (found,) = folder.manifest.search
    assert present(found.met) < 400
    assert present(found.missed) > 200
    assert json.loads(done.stdout.splitlines()[-1])["failed"] == 0
    for trial in folder.trials():
        if trial.point.rate == present(found.met):
            assert present(present(present(trial.summary).latency_ns).p50) < 100e6


CHANGED = """
    SELECT name, setting FROM pg_settings WHERE source IN ('configuration file', 'database', 'user', 'database user')
    UNION ALL SELECT setdatabase::text, setconfig::text FROM pg_db_role_setting
    UNION ALL SELECT name, setting FROM pg_file_settings
"""
"""Everything that a change of the server's settings would leave."""
SPACE = 'over.random_page_cost = ["1.1", "4"]\nover.effective_io_concurrency = ["7", "8"]'
# with the planted setting a transaction takes a fifth of the time, whatever the machine does meanwhile
SLEEPS = "SELECT pg_sleep(CASE WHEN current_setting('random_page_cost')::float8 < 2 THEN 0.004 ELSE 0.02 END);\n"


def write_tuned(folder: Path, space: str = SPACE, target: str = FAST_SERVER) -> Path:
    search = f'find = "settings"\ntrials = 4\n{space}'
    return write(folder, SLEEPS, "clients = 2", 'duration = "400ms"\nrepeats = 6', search, target)


@pytest.mark.long
def test_a_killed_search_goes_on_and_confirms_the_planted_setting(warm_home: Home, tmp_path: Path) -> None:
    folder = killed(warm_home, tmp_path, write_tuned(tmp_path))
    done = pgdyno(warm_home, tmp_path, "tune", "--resume", str(folder.path), "--quiet", code=ExitCode.OK)
    folder = the_run(tmp_path)
    trials, (found,) = folder.trials(), folder.manifest.search
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert (folder.manifest.outcome, found.trials) == (Outcome.FINISHED, len(trials))
    assert found.settings["random_page_cost"] == "1.1"
    confirmed = present(found.confirmed)
    assert (confirmed.verdict, confirmed.pairs) == ("faster", 6)
    assert confirmed.low > 0
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
    pgdyno(warm_home, tmp_path, "tune", "--resume", str(folder.path), code=ExitCode.STORE)


def test_a_search_that_ends_before_its_first_trial_says_how_to_resume(warm_home: Home, tmp_path: Path) -> None:
    plan = write_tuned(tmp_path)
    plan.write_text(f'{plan.read_text()}[hooks]\nbefore_run = "touch begun; sleep 600"\n')
    command = [str(PGDYNO), "tune", str(plan), "--no-preflight"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(warm_home), text=True, stdout=PIPE, stderr=STDOUT
    ) as process:
        wait_until(lambda: any("begun" in files for _, _, files in os.walk(tmp_path)))
        process.terminate()
        printed, _ = process.communicate()
    assert f"to resume the search: pgdyno run --resume {the_run(tmp_path).path.relative_to(tmp_path)}" in printed


def test_nonsense_is_refused_before_the_first_trial(warm_home: Home, tmp_path: Path) -> None:
    space = 'over.shared_buffers = "128MB..4TB"\nover.random_page_kost = "1..4"\nover.work_mem = "1kB..4MB"'
    done = pgdyno(warm_home, tmp_path, "run", str(write_tuned(tmp_path, space)), code=ExitCode.STOPPED)
    for words in (
        "search.over.shared_buffers: 128MB..4TB exceeds the memory of the machine",
        "search.over.random_page_kost: the server has no such setting",
        "search.over.work_mem: 1kB..4MB is outside the server's range",
    ):
        assert words in done.stderr.replace("\n", " ")
    assert the_run(tmp_path).trials() == []


@pytest.mark.long
def test_a_server_of_others_keeps_its_settings_after_a_kill(warm_home: Home, home: Home, tmp_path: Path) -> None:
    with opened(home, embedded(connect="tcp"), "theirs") as server, server.connect() as connection:
        connection.execute("CREATE ROLE bench LOGIN CREATEDB")
        connection.execute("ALTER ROLE bench PASSWORD 'only here'")
        (tmp_path / "passfile").write_text("*:*:*:bench:only here\n")
        (tmp_path / "passfile").chmod(0o600)
        dsn = f"host={server.host} port={server.port} user=bench passfile={tmp_path / 'passfile'}"
        theirs = f'kind = "dsn"\ndsn = "{dsn}"\ndatabase = "measured"'
        path = write_tuned(tmp_path, 'over.random_page_cost = ["1.1", "4"]\n[reset]\ncheckpoint = false', theirs)
        before = connection.execute(CHANGED).fetchall()
        killed(warm_home, tmp_path, path)
        assert connection.execute(CHANGED).fetchall() == before
        pgdyno(warm_home, tmp_path, "tune", "--resume", "latest", code=ExitCode.OK)
        assert connection.execute(CHANGED).fetchall() == before
    folder = the_run(tmp_path)
    assert folder.manifest.search[0].settings == {"random_page_cost": "1.1"}
    assert {"random_page_cost": "1.1"} in [trial.session_settings for trial in folder.trials()]


SECONDS = {"small": 0.4, "medium": 0.001, "large": 0.001}
PRICES = {"small": 1, "broken": 1.5, "medium": 2, "large": 4}


def write_cheapest(folder: Path, duration: str = "1s") -> Path:
    """Latencies are those of the script's sleep, whatever the machine does; the sleep of `broken` is an error."""
    prices = "".join(f"[price.target.{name}]\nhourly = [{{ amount = {price} }}]\n" for name, price in PRICES.items())
    planted = ', "load.seconds" = "{}" }}'
    servers = {name: FAST_SERVER.replace(" }", planted.format(SECONDS.get(name, "none"))) for name in PRICES}
    targets = [f"[target.{name}]\n{server}" for name, server in servers.items()]
    search = 'find = "cheapest"\nlatency = "p50 < 150ms"\nfamilies = [["small", "medium", "large"]]\n'
    path = write(
        folder,
        "SELECT pg_sleep(current_setting('load.seconds')::float8);\n",
        "clients = 16\nrate = 20",
        f'duration = "{duration}"',
        f'{search}[price]\ncurrency = "EUR"\ndate = 2026-11-01\nyears = 1\n{prices}',
    )
    path.write_text(path.read_text().replace(f"[target.pg18]\n{FAST_SERVER}", "\n".join(targets)))
    return path


@pytest.mark.long
def test_the_cheapest_is_found_again_after_a_kill(warm_home: Home, tmp_path: Path) -> None:
    folder = killed(warm_home, tmp_path, write_cheapest(tmp_path))
    done = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), code=ExitCode.TRIALS_FAILED)
    # a trial failed, as in any other run
    folder = the_run(tmp_path)
    manifest, trials = folder.manifest, folder.trials()
    (found,) = manifest.search
    # the cheapest of both families comes first; nothing larger than a keeper is tried
    assert [each.target for each in trials] == ["broken", *["medium"] * 3, *["small"] * 3]
    assert trials[0].outcome is Outcome.FAILED
    assert (found.target, found.kept, found.trials, manifest.trials_planned) == ("medium", True, 7, 7)
    assert [(each.target, each.verdict, each.trials) for each in found.targets] == [
        ("small", "failed", 3),
        ("broken", "unmeasured", 1),
        ("medium", "kept", 3),
        ("large", "untried", 0),
    ]
    assert (
        "the cheapest target that keeps 20 transactions a second at p50 < 150ms is medium, at 2.00 EUR" in found.words
    )
    assert "cheaper, but not decided: broken" in found.words
    assert found.words in done.stderr
    shown = pgdyno(warm_home, tmp_path, "show", str(folder.path))
    assert "The cheapest target that keeps 20 transactions a second" in shown.stdout
    assert "Cheaper, but not decided: broken." in shown.stdout
    answer = json.loads(pgdyno(warm_home, tmp_path, "show", str(folder.path), "--json").stdout)["answer"]
    assert (answer["kind"], answer["comparisons"]) == ("search", [])
    assert answer["search"][0]["targets"][3]["why"]["id"] == "target-dearer"
    html = (folder.path / "report.html").read_text()
    assert "Targets by price" in html
    pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path), code=ExitCode.STORE)


def test_a_budget_has_room_for_every_target(warm_home: Home, tmp_path: Path) -> None:
    plan = write_cheapest(tmp_path, "20s")
    refused = pgdyno(warm_home, tmp_path, "run", str(plan), "--budget", "20s", code=ExitCode.USAGE)
    assert "a budget of 20 s is too small" in refused.stderr
    shown = pgdyno(warm_home, tmp_path, "plan", "show", str(plan), "--budget", "3m")
    assert "the search is estimated at 12 trials at most" in shown.stdout
