"""Keying and think time against pgnull: counts, messages, refusals."""

import json
import math
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_pgnull import Null, end_event, null, processed

__all__ = ["null"]

NullServer = Callable[..., Null]


def test_exponential_thinking_gives_the_transactions_it_should(run: Run, null: NullServer, tmp_path: Path) -> None:
    args = ("-n", "-S", "-c", "20", "-T", "3", "--think-time=exponential:100ms", "--random-seed=3")
    done = run("pgdrive", *args, "--json=results.json", env=null().env)
    assert done.returncode == 0, done.stderr
    count = int(processed(done))
    (script,) = json.loads((tmp_path / "results.json").read_text())["scripts"]
    spent_s = script["think_time"]["spent_ns"]["mean"] / 1e9
    latency_s = script["latency_ns"]["mean"] / 1e9
    # 20 at once, then a Poisson process of 20 / (100 ms and a round trip) a second; a busy machine wakes clients late
    expected = 20 + 20 * 3 / (spent_s + latency_s)
    assert abs(count - expected) < 5 * math.sqrt(expected)
    assert spent_s > 0.1 * (1 - 5 / math.sqrt(count))
    assert "think time (exponential, mean 100 ms, at most 1000 ms) average = " in done.stdout


def test_fixed_pauses_bound_the_count(run: Run, null: NullServer, tmp_path: Path) -> None:
    args = ("-n", "-S", "-c", "5", "-T", "2", "--think-time=fixed:150ms", "--keying-time=50ms")
    done = run("pgdrive", *args, f"--events={tmp_path}/events", "--json=results.json", env=null().env)
    assert done.returncode == 0, done.stderr
    # keying first: none before 50 ms, and at least 200 ms from one start to the next
    assert 5 <= int(processed(done)) <= 5 * 10
    start = json.loads((tmp_path / "events").read_text().splitlines()[0])
    assert start["scripts"][0]["keying_time"] == {"distribution": "fixed", "mean_s": 0.05}
    end = end_event(tmp_path / "events")
    assert end == {**end, **json.loads((tmp_path / "results.json").read_text())}
    # who pauses at the deadline was there until then
    assert end["measured_s"] >= 2
    script = end["scripts"][0]
    assert script["lag_ns"] is None
    assert script["think_time"]["distribution"] == "fixed"
    assert script["think_time"]["spent_ns"]["min"] >= 150e6
    assert script["keying_time"]["spent_ns"]["min"] >= 50e6
    assert script["keying_time"]["count"] == script["succeeded"]
    assert 0 <= script["succeeded"] - script["think_time"]["count"] <= 5
    assert "latency stddev = " in done.stdout, "the average is of what was measured"


def test_pauses_are_a_scripts_own(run: Run, null: NullServer, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.sql").write_text("SELECT 1;\n")
    args = ("-n", "-f", "a.sql", "-f", "b.sql", "-t", "20", "--think-time=b.sql=1ms", "--keying-time=1=exponential:1ms")
    done = run("pgdrive", *args, "--json=results.json", env=null().env)
    assert done.returncode == 0, done.stderr
    first, second = json.loads((tmp_path / "results.json").read_text())["scripts"]
    assert (first["think_time"], second["keying_time"]) == (None, None)
    assert first["keying_time"]["count"] == first["succeeded"] > 0
    # there is no think time after the last transaction
    assert second["succeeded"] - second["think_time"]["count"] in (0, 1)
    blocks = done.stdout.split("SQL script ")
    assert " - keying time (exponential, mean 1 ms, at most 10 ms) average = " in blocks[1]
    assert "think time" not in blocks[1]
    assert " - think time (fixed, 1 ms) average = " in blocks[2]
    assert "keying time" not in blocks[2]
