"""The search for the cheapest target on real servers: planted speeds, a failed target, a kill, a budget."""

import json
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, running, the_run

SECONDS = {"small": 0.4, "medium": 0.001, "large": 0.001}
PRICES = {"small": 1, "broken": 1.5, "medium": 2, "large": 4}
PLAN = (
    """\
name = "cheapest"
[workload]
scripts = ["planted.sql"]
dataset = "none"
[sweep]
clients = 16
rate = 20
[trial]
duration = "1s"
seed = 7
[search]
find = "cheapest"
latency = "p50 < 150ms"
families = [["small", "medium", "large"]]
[price]
currency = "EUR"
date = 2026-11-01
years = 1
"""
    + "".join(f"[price.target.{name}]\nhourly = [{{ amount = {price} }}]\n" for name, price in PRICES.items())
    + "".join(
        f'[target.{name}]\nkind = "embedded"\nversion = "18"\n'
        f'settings = {{ fsync = "off", shared_buffers = "16MB", "load.seconds" = "{SECONDS.get(name, "none")}" }}\n'
        for name in PRICES
    )
)
"""Latencies are those of the script's sleep, whatever the machine does; the sleep of `broken` is an error."""


def write(folder: Path) -> Path:
    (folder / "planted.sql").write_text("SELECT pg_sleep(current_setting('load.seconds')::float8);\n")
    path = folder / "cheapest.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.long
def test_the_cheapest_is_found_again_after_a_kill(warm_home: Home, tmp_path: Path) -> None:
    plan = write(tmp_path)
    with running(warm_home, tmp_path, plan) as process:
        process.kill()
        process.wait()
    folder = the_run(tmp_path)
    assert folder.manifest.search == []
    done = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path))
    # a trial failed, as in any other run
    assert done.returncode == ExitCode.TRIALS_FAILED, done.stderr
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
    again = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path))
    assert again.returncode == ExitCode.STORE


def test_a_budget_has_room_for_every_target(warm_home: Home, tmp_path: Path) -> None:
    plan = write(tmp_path)
    plan.write_text(plan.read_text().replace('duration = "1s"', 'duration = "20s"'))
    refused = pgdyno(warm_home, tmp_path, "run", str(plan), "--budget", "20s")
    assert refused.returncode == ExitCode.USAGE
    assert "a budget of 20 s is too small" in refused.stderr
    shown = pgdyno(warm_home, tmp_path, "plan", "show", str(plan), "--budget", "3m")
    assert "the search is estimated at 12 trials at most" in shown.stdout
