"""`pgdyno analyse` over a stored run."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from tests.cli.conftest import Run
from tests.cli.test_compare import store_run

PRICES = """\
currency = "EUR"
date = "2026-11-21"
years = 3
left_out = ["power"]

[target.pg18]
purchase = [{ amount = 38364 }]
subscription = [{ amount = 4200, per = "socket", count = 2 }]
"""


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return store_run(tmp_path_factory.mktemp("runs"), {"pg17": 500.0, "pg18": 600.0}, repeats=2)


def test_prices_come_from_a_file_and_wrong_ones_are_refused(run: Run, stored_run: str, tmp_path: Path) -> None:
    (tmp_path / "price.toml").write_text(PRICES)
    said = " ".join(run("pgdyno", "analyse", stored_run, "--price", "price.toml").stdout.split())
    assert "pg18 63,564.00 " in said
    assert "The price list has no target pg17." in said
    assert "Left out: power." in said
    answer = json.loads(run("pgdyno", "analyse", stored_run, "--price", "price.toml", "--json").stdout)
    (price,) = [curve["price"] for curve in answer["curves"] if curve["price"]]
    assert price["per_tps"] == pytest.approx(63_564 / 600, rel=0.01)
    assert [trial["steady"] for trial in answer["trials"]] == [None] * 4
    missing = "line 1: currency: input should be a valid string; date: is missing"
    for text, complaint in (("a = ", "is not valid TOML"), ("currency = 1\n[targt.a]", missing)):
        (tmp_path / "price.toml").write_text(text)
        done = run("pgdyno", "analyse", stored_run, "--price", "price.toml")
        assert done.returncode == ExitCode.USAGE
        assert complaint in done.stderr
    assert run("pgdyno", "analyse", stored_run, "--price", "none.toml").returncode == ExitCode.USAGE


def test_an_undecidable_analysis_says_so_and_a_latency_target_has_its_capacity(run: Run, stored_run: str) -> None:
    said = run("pgdyno", "analyse", stored_run, "--latency", "p99 < 1s").stdout
    assert "tps" in said
    assert "at p99 < 1s, with 4 clients" in " ".join(said.split())
    refused = run("pgdyno", "analyse", stored_run, "--latency", "soon")
    assert refused.returncode == ExitCode.USAGE
    assert "is not a latency target" in refused.stderr
    done = run("pgdyno", "analyse", stored_run)
    assert done.returncode == 0, done.stderr
    assert "4 trials measured less than 20 s" in done.stdout
    assert "the law needs 6" in " ".join(done.stdout.split())


def test_two_targets_are_compared_by_price(run: Run, tmp_path: Path) -> None:
    stored_run = store_run(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0})
    (tmp_path / "price.toml").write_text(PRICES + "[target.pg17]\npurchase = [{ amount = 63564 }]\n")
    said = run("pgdyno", "compare", stored_run, "--price", "price.toml")
    assert said.returncode == 0, said.stderr
    (line,) = [each for each in said.stdout.splitlines() if each.startswith("price per tps")]
    assert line.endswith("pg18 is cheaper than pg17")
    answer = json.loads(run("pgdyno", "compare", stored_run, "--price", "price.toml", "--json").stdout)
    (price,) = answer["comparisons"][0]["prices"]
    assert price["change"] == pytest.approx(500 / 600 - 1, abs=0.002)


def test_prices_of_the_plan_are_shown(run: Run, tmp_path: Path) -> None:
    prices = tomllib.loads(PRICES)
    path = Path(store_run(tmp_path / "runs", {"pg18": 600.0}, repeats=2))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["plan"]["price"] = prices
    (path / "manifest.json").write_text(json.dumps(manifest))
    for command in ("show", "analyse"):
        shown = run("pgdyno", command, str(path)).stdout
        assert "over 3 years" in shown
        assert re.search(r"^pg18 +63,564\.00 ", shown, re.MULTILINE)


def test_the_first_run_of_a_folder_begins_a_history_and_a_damaged_one_is_left_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    none = run("pgdyno", "history", "runs")
    assert (none.returncode, none.stdout) == (ExitCode.STORE, "")
    assert "runs has no runs" in none.stderr
    store_run(tmp_path / "runs", {"pg18": 600.0}, repeats=2)
    begun = run("pgdyno", "history", "runs")
    assert begun.returncode == ExitCode.OK, begun.stderr
    assert "throughput of 1 run, " in begun.stdout
    assert "1 run is too few for change points" in begun.stdout
    (found,) = json.loads(run("pgdyno", "history", "runs", "--json").stdout)
    assert json.loads(run("pgdyno", "history", "--runs", "runs", "--json").stdout) == [found]
    assert len(found["points"]) == 1
    store_run(tmp_path / "runs", {"pg18": 600.0}, repeats=2)
    last = Path(store_run(tmp_path / "runs", {"pg18": 600.0}, repeats=2))
    # not a run, and no error
    (tmp_path / "runs" / "pages").mkdir()
    said = run("pgdyno", "history", "runs")
    assert said.returncode == 0, said.stderr
    assert "throughput of 3 runs" in said.stdout
    assert "3 runs are too few for change points" in said.stdout
    (found,) = json.loads(run("pgdyno", "history", "runs", "--metric", "p99", "--json").stdout)
    assert (len(found["points"]), found["changes"]) == (3, None)
    assert run("pgdyno", "history", "runs", "--target", "pg9").returncode == ExitCode.USAGE
    for damaged in ("trials/*/trial.json", "manifest.json"):
        next(last.glob(damaged)).write_text("{")
        said = run("pgdyno", "history", "runs")
        assert said.returncode == ExitCode.STORE
        assert "throughput of 2 runs" in said.stdout
        assert f"error: runs/{last.name}: cannot read " in said.stderr
    # several runs without a point in common have none
    for target in ("pg17", "pg18"):
        store_run(tmp_path / "others", {target: 600.0}, repeats=2)
    done = run("pgdyno", "history", "others")
    assert (done.returncode, done.stdout) == (ExitCode.STORE, "")
    assert "others has no point that at least two runs measured" in done.stderr
    assert json.loads(run("pgdyno", "history", "others", "--json").stdout) == []
