"""Loads that change over time, against a server that answers immediately; and errors in phase files."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_pgnull import Null, null

__all__ = ["null"]

PHASES = """\
[[phase]]
name = "warm"
duration = "500ms"
rate = 400
result = false

[[phase]]
name = "up"
duration = "2s"
rate = { from = 200, to = 1400 }
clients = { from = 2, to = 6 }
mix = { "tpcb-like" = 1, "select-only" = 3 }

[[phase]]
name = "pause"
duration = "600ms"
rate = 0

[[phase]]
name = "down"
duration = "1s"
rate = { from = 900, to = 0 }
clients = 2
mix = { 2 = 1 }
"""
EXPECTED = {"warm": 200.0, "up": 1600.0, "pause": 0.0, "down": 450.0}
"""Starts: the integral of each rate."""

ARGS = ("-n", "-b", "tpcb-like", "-b", "select-only", "-c", "6", "-j", "2")


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def near(count: float, expected: float) -> bool:
    return abs(count - expected) <= 5 * math.sqrt(expected)


def balanced(of: dict[str, Any]) -> bool:
    ended: int = of["succeeded"] + of["failed"] + of["skipped"] + of["in_flight"]
    return bool(of["scheduled"] == ended)


def test_each_phase_has_its_rate_its_mix_and_its_figures(run: Run, null: Callable[..., Null], tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(PHASES)
    options = ("--phases=phases.toml", "--events=e.jsonl", "--json=j.json", "--histogram=h.hlog")
    done = run("pgdrive", *ARGS, *options, env=null().env)
    assert done.returncode == 0, done.stderr
    said = events(tmp_path / "e.jsonl")
    start, end = said[0], said[-1]
    assert [phase["name"] for phase in start["phases"]] == list(EXPECTED)
    assert start["phases"][1]["rate_per_s"] == {"from": 200.0, "to": 1400.0}
    assert (start["duration_s"], start["rate_per_s"], start["arrivals"]) == (4.1, None, "poisson")

    phases = {phase["name"]: phase for phase in end["phases"]}
    for name, expected in EXPECTED.items():
        assert near(phases[name]["scheduled"] + phases[name]["unstarted"], expected), name
        assert balanced(phases[name])
        assert phases[name]["scheduled"] == sum(
            script["succeeded"] + script["failed"] + script["skipped"] for script in phases[name]["scripts"]
        )
    # the mix of each: equal weights, 1 to 3, one script only
    of_select = {name: phase["scripts"][1]["succeeded"] for name, phase in phases.items()}
    assert near(of_select["warm"], 100)
    assert near(of_select["up"], 1200)
    assert of_select["down"] == phases["down"]["succeeded"] > 0
    # the whole is the sum of the phases with a result
    assert balanced(end)
    for count in ("scheduled", "succeeded", "failed", "skipped", "in_flight", "unstarted", "late"):
        assert end[count] == sum(phase[count] for phase in phases.values() if phase["result"]), count
    assert (tmp_path / "j.json").read_text() != ""
    assert json.loads((tmp_path / "j.json").read_text())["phases"] == end["phases"]

    intervals = [event for event in said if event["event"] == "interval"]
    assert sum(script["succeeded"] for each in intervals for script in each["scripts"]) == sum(
        phase["succeeded"] for phase in phases.values()
    )
    measured = {(each["phase_name"], each["phase"]) for each in intervals}
    assert {("warm", "warm-up"), ("up", "measure"), ("pause", "measure"), ("down", "measure")} <= measured
    borders = {each["to_us"] for each in intervals}
    assert {500_000, 2_500_000, 3_100_000, 4_100_000} <= borders
    marks = [line for line in (tmp_path / "h.hlog").read_text().splitlines() if line.startswith("#[Phase: ")]
    assert marks == ["#[Phase: up]", "#[Phase: pause]", "#[Phase: down]"]

    summary = done.stdout
    assert "number of phases: 4\nduration: 4.1 s\n" in summary
    assert "phase 1: warm (500ms, not in the results)\n - rate: 400 per second\n - clients: 6\n" in summary
    assert "phase 2: up (2s)\n - rate: 200 to 1400 per second\n - clients: 2 to 6\n" in summary
    assert f"number of transactions actually processed: {end['succeeded']}\n" in summary


def test_regular_starts_are_exact_and_timers_may_be_coarse(run: Run, null: Callable[..., Null], tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(PHASES)
    options = ("--phases=phases.toml", "--arrivals=regular", "--timer-tick=2ms", "--events=e.jsonl")
    done = run("pgdrive", *ARGS, *options, env=null().env)
    assert done.returncode == 0, done.stderr
    said = events(tmp_path / "e.jsonl")
    assert (said[0]["arrivals"], said[0]["timer_tick_us"]) == ("regular", 2000)
    # no chance in it: a start at the begin of each stretch, and then one each time the integral grows by one
    assert {phase["name"]: phase["scheduled"] + phase["unstarted"] for phase in said[-1]["phases"]} == EXPECTED
    assert "arrivals: regular\ntimer tick: 2ms\n" in done.stdout
    # a start is on average half a tick away from the tick on which it is begun
    assert said[-1]["phases"][1]["lag_ns"]["mean"] > 500_000


def test_starts_beyond_the_servers_rate_are_told_by_phase(run: Run, null: Callable[..., Null], tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(
        '[[phase]]\nname = "low"\nduration = "500ms"\nrate = 20\n'
        '[[phase]]\nname = "flood"\nduration = "1s"\nrate = 3000\n'
    )
    options = ("--phases=phases.toml", "--arrivals=regular", "--events=e.jsonl")
    # two sessions of 10 ms a transaction: not more than 200 a second
    done = run("pgdrive", "-n", "-S", "-c", "2", *options, env=null("--delay-us=10000").env)
    assert done.returncode == 0, done.stderr
    low, flood = events(tmp_path / "e.jsonl")[-1]["phases"]
    assert (low["scheduled"], low["unstarted"]) == (10, 0)
    assert balanced(low)
    assert balanced(flood)
    assert 0 < flood["succeeded"] <= 202
    assert flood["unstarted"] == 3000 - flood["scheduled"]
    assert f" - {flood['unstarted']} more were due, and no client was free to begin them\n" in done.stdout


def test_a_closed_loop_uses_the_clients_of_its_phase(run: Run, null: Callable[..., Null], tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(
        '[[phase]]\nname = "all"\nduration = "600ms"\n'
        '[[phase]]\nname = "none"\nduration = "500ms"\nclients = 0\n'
        '[[phase]]\nname = "one"\nduration = "600ms"\nclients = 1\n'
    )
    options = ("--phases=phases.toml", "--events=e.jsonl", "-c", "8", "-j", "2")
    done = run("pgdrive", "-n", "-S", *options, env=null("--delay-us=5000").env)
    assert done.returncode == 0, done.stderr
    end = events(tmp_path / "e.jsonl")[-1]
    everyone, nobody, one = end["phases"]
    assert nobody["scheduled"] == 0
    # 5 ms each: 120 a client at most
    assert 0 < one["succeeded"] <= 121
    assert one["succeeded"] < everyone["succeeded"] <= 8 * 121
    assert end["scheduled"] == everyone["scheduled"] + one["scheduled"]
    assert balanced(end)


# ---- refused ----

CLOSED = '[[phase]]\nname = "a"\nduration = "1s"\n'


def test_errors_in_a_phases_file_are_reported_before_connecting(run: Run, tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(CLOSED + "rate = -1\nspeed = 2\n")
    for check in ((), ("--check",)):
        done = run("pgdrive", *ARGS, "--phases=phases.toml", *check, env={"PGHOST": "/nowhere"})
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "pgdrive: error: phases.toml:4: phase 1: rate: is not right; write a number from 0 to 1000000000, or "
            "{ from = 0, to = 500 }\n"
            "phases.toml:5: phase 1: speed: is not known; a phase has name, duration, rate, clients, mix and result\n"
        )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--phases=nowhere.toml",), 'pgdrive: error: could not open file "nowhere.toml": No such file or directory\n'),
        (
            ("--phases=closed.toml", "--arrivals=regular"),
            (
                'pgdrive: error: --arrivals needs a rate, and no phase of "closed.toml" has one\n'
                "pgdrive: hint: Give every phase a rate, or leave --arrivals out.\n"
            ),
        ),
    ],
)
def test_options_that_do_not_agree_are_refused(run: Run, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    (tmp_path / "closed.toml").write_text(CLOSED)
    done = run("pgdrive", *ARGS, *args, env={"PGHOST": "/nowhere"})
    assert (done.returncode, done.stderr) == (1, said)


def test_a_good_file_passes_the_check(run: Run, tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(PHASES)
    done = run("pgdrive", *ARGS, "--phases=phases.toml", "--check", env={"PGHOST": "/nowhere"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
