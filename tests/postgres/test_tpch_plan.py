"""A plan with the workload tpch: the same queries in every trial on the rows of the load, and what its report says."""

import csv
import io
import json
import math
from pathlib import Path
from statistics import geometric_mean

import pytest

from pgdyno.records import TpchFigures
from pgdyno.store import load_run
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "64MB" }
[workload]
name = "tpch"
scale_factor = 0.01
[sweep]
clients = 2
session_settings = { enable_hashjoin = ["on", "off"] }
[trial]
repeats = 2
"""
QUERIES = [*(f"Q{number}" for number in range(1, 23)), "RF1", "RF2"]


def figures(folder: Path) -> list[TpchFigures]:
    run = load_run(the_run(folder))
    found = [trial.summary.tpch for trial in run.trials if trial.summary is not None]
    return [each for each in found if each is not None]


@pytest.mark.long
def test_a_plan_runs_it_and_its_report_compares_the_composite(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = pgdyno(warm_home, tmp_path, "run", "plan.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    found = figures(tmp_path)
    assert len(found) == 4
    for each in found:
        check_times(each)
    answer = json.loads(pgdyno(warm_home, tmp_path, "show", "latest", "--json").stdout)["answer"]
    assert answer["kind"] == "comparison"
    assert "composite" in answer["text"]
    shown = pgdyno(warm_home, tmp_path, "show", "latest").stdout
    assert "derived from TPC-H, not comparable with published TPC-H results" in shown
    assert " tps" not in done.stdout + shown
    assert all(f"\n{query} " in shown for query in QUERIES)
    compared = pgdyno(warm_home, tmp_path, "compare", "latest", "--by", "settings.enable_hashjoin")
    assert "composite" in compared.stdout, compared.stderr
    # a query is not a transaction of a long stream of them
    findings = json.loads(pgdyno(warm_home, tmp_path, "audit", "latest", "--json").stdout)
    unjudged = {finding["rule"] for finding in findings if finding["id"].endswith("-not-checked")}
    assert {
        "too-short",
        "percentile-of-few",
        "unsteady",
        "dips-unexplained",
        "declines",
        "checkpoint-cycle",
        "littles-law",
        "network-floor",
    } <= unjudged
    rows = list(csv.DictReader(io.StringIO(pgdyno(warm_home, tmp_path, "show", "latest", "--csv").stdout)))
    assert [float(row["composite"]) for row in rows] == pytest.approx([each.composite for each in found], rel=1e-5)
    assert all(row[name] == "" for row in rows for name in ("tps", "latency_mean_ms", "p99_ms", "latency_max_ms"))
    analysed = pgdyno(warm_home, tmp_path, "analyse", "latest").stdout
    assert all(f"{query} " in analysed for query in QUERIES)
    assert not [word for word in ("steady", "dips", "endurance", "tps") if word in analysed]
    points = json.loads(pgdyno(warm_home, tmp_path, "analyse", "latest", "--json").stdout)["queries"]
    assert [[time["query"] for time in point["times"]] for point in points] == [QUERIES, QUERIES]


def check_times(found: TpchFigures) -> None:
    """Asserts that each query was timed in each stream, and that the figures follow from the times."""
    for stream in range(3):
        assert sorted(timing.query for timing in found.timings if timing.stream == stream) == sorted(QUERIES)
    power = [timing.seconds for timing in found.timings if timing.stream == 0]
    least = max(power) / 1000
    assert found.power == pytest.approx(36 / geometric_mean(max(each, least) for each in power), rel=1e-3)
    assert found.throughput_s is not None
    assert found.throughput == pytest.approx(2 * 22 * 36 / found.throughput_s, rel=1e-3)
    assert found.composite == pytest.approx(math.sqrt((found.power or 0) * (found.throughput or 0)), rel=1e-6)
