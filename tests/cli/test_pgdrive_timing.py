"""When pgdrive begins transactions, by what time it divides them, and in how many threads: phases, pauses and timers.

The server answers immediately.

Rust's tests show the schedules themselves (crates/engine/src/schedule.rs and client_tests).
"""

import json
import math
import os
import signal
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Null, NullServer, Run, end_event, null_server, processed_count, read_events
from tests.load_recount import start_load
from tests.run_program import BIN, PGDRIVE, run_program
from tests.seccomp import refusing


def near(count: float, expected: float) -> bool:
    return abs(count - expected) <= 5 * math.sqrt(expected)


def counts_add_up(of: dict[str, Any]) -> bool:
    ended: int = of["succeeded"] + of["failed"] + of["skipped"] + of["in_flight"]
    return bool(of["scheduled"] == ended)


# ---- phases ----

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
ARGS = ("-n", "-b", "tpcb-like", "-b", "select-only", "-c", "6", "-j", "2", "--phases=phases.toml")


def test_each_phase_has_its_rate_its_mix_and_its_figures(run: Run, null: NullServer, tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(PHASES)
    checked = run("pgdrive", *ARGS, "--check", env={"PGHOST": "/nowhere"})
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    done = run("pgdrive", *ARGS, "--events=e.jsonl", "--json=j.json", "--histogram=h.hlog", env=null().env)
    assert done.returncode == 0, done.stderr
    said = read_events(tmp_path / "e.jsonl")
    start, end = said[0], said[-1]
    assert [phase["name"] for phase in start["phases"]] == list(EXPECTED)
    assert start["phases"][1]["rate_per_s"] == {"from": 200.0, "to": 1400.0}
    assert (start["duration_s"], start["rate_per_s"], start["arrivals"]) == (4.1, None, "poisson")

    phases = {phase["name"]: phase for phase in end["phases"]}
    for name, expected in EXPECTED.items():
        assert near(phases[name]["scheduled"] + phases[name]["unstarted"], expected), name
        assert counts_add_up(phases[name])
        assert phases[name]["scheduled"] == sum(
            script["succeeded"] + script["failed"] + script["skipped"] for script in phases[name]["scripts"]
        )
    # the mix of each: equal weights, 1 to 3, one script only
    of_select = {name: phase["scripts"][1]["succeeded"] for name, phase in phases.items()}
    assert near(of_select["warm"], 100)
    assert near(of_select["up"], 1200)
    assert of_select["down"] == phases["down"]["succeeded"] > 0
    # the whole is the sum of the phases with a result
    assert counts_add_up(end)
    for count in ("scheduled", "succeeded", "failed", "skipped", "in_flight", "unstarted", "late"):
        assert end[count] == sum(phase[count] for phase in phases.values() if phase["result"]), count
    assert json.loads((tmp_path / "j.json").read_text())["phases"] == end["phases"]

    intervals = [event for event in said if event["event"] == "interval"]
    assert sum(script["succeeded"] for each in intervals for script in each["scripts"]) == sum(
        phase["succeeded"] for phase in phases.values()
    )
    measured = {(each["phase_name"], each["phase"]) for each in intervals}
    assert {("warm", "warm-up"), ("up", "measure"), ("pause", "measure"), ("down", "measure")} <= measured
    assert {500_000, 2_500_000, 3_100_000, 4_100_000} <= {each["to_us"] for each in intervals}
    marks = [line for line in (tmp_path / "h.hlog").read_text().splitlines() if line.startswith("#[Phase: ")]
    assert marks == ["#[Phase: up]", "#[Phase: pause]", "#[Phase: down]"]

    summary = done.stdout
    assert "number of phases: 4\nduration: 4.1 s\n" in summary
    assert "phase 1: warm (500ms, not in the results)\n - rate: 400 per second\n - clients: 6\n" in summary
    assert "phase 2: up (2s)\n - rate: 200 to 1400 per second\n - clients: 2 to 6\n" in summary
    assert f"number of transactions actually processed: {end['succeeded']}\n" in summary


def test_regular_starts_are_exact_and_timers_may_be_coarse(run: Run, null: NullServer, tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(PHASES)
    options = ("--arrivals=regular", "--timer-tick=2ms", "--events=e.jsonl")
    done = run("pgdrive", *ARGS, *options, env=null().env)
    assert done.returncode == 0, done.stderr
    said = read_events(tmp_path / "e.jsonl")
    assert (said[0]["arrivals"], said[0]["timer_tick_us"]) == ("regular", 2000)
    # no chance in it: a start at the begin of each stretch, and then one each time the integral grows by one
    assert {phase["name"]: phase["scheduled"] + phase["unstarted"] for phase in said[-1]["phases"]} == EXPECTED
    assert "arrivals: regular\ntimer tick: 2ms\n" in done.stdout
    # a start is on average half a tick away from the tick on which it is begun
    assert said[-1]["phases"][1]["lag_ns"]["mean"] > 500_000


def test_starts_beyond_the_servers_rate_are_told_by_phase(run: Run, null: NullServer, tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(
        '[[phase]]\nname = "low"\nduration = "500ms"\nrate = 20\n'
        '[[phase]]\nname = "flood"\nduration = "500ms"\nrate = 3000\n'
    )
    options = ("--phases=phases.toml", "--arrivals=regular", "--events=e.jsonl")
    # two sessions of 10 ms a transaction: not more than 200 a second
    done = run("pgdrive", "-n", "-S", "-c", "2", *options, env=null("--delay-us=10000").env)
    assert done.returncode == 0, done.stderr
    low, flood = read_events(tmp_path / "e.jsonl")[-1]["phases"]
    assert (low["scheduled"], low["unstarted"]) == (10, 0)
    assert counts_add_up(low)
    assert counts_add_up(flood)
    assert 0 < flood["succeeded"] <= 102
    assert flood["unstarted"] == 1500 - flood["scheduled"]
    assert f" - {flood['unstarted']} more were due, and no client was free to begin them\n" in done.stdout


def test_errors_in_a_phases_file_are_reported_before_connecting(run: Run, tmp_path: Path) -> None:
    closed = '[[phase]]\nname = "a"\nduration = "1s"\n'
    both = (
        "phases.toml:4: phase 1: rate: is not right; write a number from 0 to 1000000000, or { from = 0, to = 500 }",
        "phases.toml:5: phase 1: speed: is not known; a phase has name, duration, rate, clients, mix and result",
    )
    no_rate = (
        '--arrivals needs a rate, and no phase of "phases.toml" has one',
        "pgdrive: hint: Give every phase a rate, or leave --arrivals out.",
    )
    for text, option, lines in [
        (closed + "rate = -1\nspeed = 2\n", "--check", both),
        (closed, "--arrivals=regular", no_rate),
        (closed, "--phases=nowhere.toml", ('could not open file "nowhere.toml": No such file or directory',)),
    ]:
        (tmp_path / "phases.toml").write_text(text)
        done = run("pgdrive", *ARGS, option, env={"PGHOST": "/nowhere"})
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "pgdrive: error: " + "\n".join((*lines, "")))


# ---- keying and think times ----


def test_fixed_pauses_bound_the_count(run: Run, null: NullServer, tmp_path: Path) -> None:
    args = ("-n", "-S", "-c", "5", "-T", "1", "--think-time=fixed:150ms", "--keying-time=50ms")
    done = run("pgdrive", *args, f"--events={tmp_path}/events", "--json=results.json", env=null().env)
    assert done.returncode == 0, done.stderr
    # keying first: none before 50 ms, and at least 200 ms from one start to the next
    assert 5 <= int(processed_count(done)) <= 5 * 5
    start = read_events(tmp_path / "events")[0]
    assert start["scripts"][0]["keying_time"] == {"distribution": "fixed", "mean_s": 0.05}
    end = end_event(tmp_path / "events")
    assert end == {**end, **json.loads((tmp_path / "results.json").read_text())}
    # who pauses at the deadline was there until then
    assert end["measured_s"] >= 1
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


# ---- timers, also where a kernel or a container refuses system calls ----

ROUNDS = 12
"""The first suffices on a quiet machine; on a busy one, a poller may have no core in most of them."""
RATE_PER_S = 300
POLLERS = {
    "io_uring": ((), "io_uring"),
    "epoll": ((), "epoll"),
    "epoll without epoll_pwait2": (refusing("EPERM", "epoll_pwait2"), "epoll"),
}


def test_transactions_begin_equally_late_by_every_poller(tmp_path: Path) -> None:
    # in milliseconds, as epoll's own timeout counts, it would be ten times io_uring's
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    arguments = ("-n", "-f", str(script), "-M", "prepared", "-c", "4", "-T", "1", f"--rate={RATE_PER_S}")
    least_us = dict.fromkeys(POLLERS, float("inf"))
    with null_server(tmp_path) as server:
        environment = os.environ | server.env
        for number in range(ROUNDS):
            loads = {
                name: start_load(
                    environment, tmp_path / f"{number} {name}", *arguments, f"--io={io}", launcher=launcher
                )
                for name, (launcher, io) in POLLERS.items()
            }
            for name, load in loads.items():
                lines = load.finish().lines
                assert len(lines) > RATE_PER_S / 5
                # the rest may be for want of a core, and so may all of a round
                least_us[name] = min(least_us[name], statistics.quantiles(line.lag_us for line in lines)[0])
            if max(least_us.values()) < 4 * min(least_us.values()):
                return
    raise AssertionError(least_us)


def run_refused(tmp_path: Path, error: str, call: str, io: str) -> subprocess.CompletedProcess[str]:
    with null_server(tmp_path) as server:
        command = (*refusing(error, call), str(PGDRIVE), "-n", "-S", "-c", "3", "-t", "20", f"--io={io}")
        return run_program([*command, f"--events={tmp_path / 'e.jsonl'}"], env=os.environ | server.env)


@pytest.mark.parametrize(
    ("call", "error"), [("io_uring_setup", "EPERM"), ("io_uring_enter", "ENOSYS"), ("io_uring_register", "EPERM")]
)
def test_the_default_is_epoll_where_a_call_of_io_uring_is_refused(tmp_path: Path, call: str, error: str) -> None:
    done = run_refused(tmp_path, error, call, "auto")
    assert done.returncode == 0, done.stderr
    said = read_events(tmp_path / "e.jsonl")
    (connected,) = [event for event in said if event["event"] == "connected"]
    assert connected["io"] == "epoll"
    assert said[-1]["succeeded"] == 60
    # a user who asks for it is told why it is refused
    done = run_refused(tmp_path, error, call, "io_uring")
    assert done.returncode == 1
    assert "could not set up io_uring: " in done.stderr
    assert "seccomp profile forbids it" in done.stderr


def test_without_timers_there_is_an_error(tmp_path: Path) -> None:
    done = run_refused(tmp_path, "EPERM", "timerfd_create", "epoll")
    assert done.returncode == 1
    assert "could not create a timer: Operation not permitted" in done.stderr
    assert "seccomp profile" in done.stderr


# ---- by what time throughput is divided: as planned; under pgbench's name, up to the last transaction ----


def load(folder: Path, server: Null, program: str, *options: str) -> tuple[list[dict[str, Any]], str]:
    """The events and the summary of a load that ends well; pgbench has no option for events: only its summary."""
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin" / program
    if not link.exists():
        link.symlink_to(BIN / "pgdrive")
    events = [] if program == "pgbench" else [f"--events={folder}/events"]
    command = [str(link), "-n", "-S", *options, *events]
    done = run_program(command, env=os.environ | server.env, cwd=folder, check=True)
    return read_events(folder / "events") if events else [], done.stdout


def tps(summary: str) -> tuple[int, float]:
    count = summary.split("actually processed: ")[1].split(maxsplit=1)[0]
    return int(count), float(summary.split("tps = ")[1].split(maxsplit=1)[0])


def test_a_low_rate_is_measured_to_the_end(null: NullServer, tmp_path: Path) -> None:
    # twelve clients draw twelve starts ahead: all of them would leave seconds before the end
    events, summary = load(tmp_path, null(), "pgdrive", "-c12", "-R2", "-T4", "--random-seed=5")
    end = events[-1]
    assert end["measured_s"] >= 4
    assert end["tps"] == pytest.approx(end["succeeded"] / end["measured_s"])
    count, rate = tps(summary)
    assert rate == pytest.approx(count / end["measured_s"], rel=1e-4)
    # seconds without a transaction are seconds, too: what is computed from the intervals agrees
    intervals = [event for event in events if event["event"] == "interval" and event["phase"] == "measure"]
    assert sum(event["to_us"] - event["from_us"] for event in intervals) == 4_000_000
    assert all(event["clients"] == 12 for event in intervals[:-1]), "none leaves before the end"
    # a rate so low that nothing starts
    events, _ = load(tmp_path, null(), "pgdrive", "-R1e-9", "-T1")
    assert events[-1]["measured_s"] >= 1
    assert (events[-1]["scheduled"], events[-1]["tps"]) == (0, 0)


def test_under_pgbenchs_name_the_last_transaction_is_the_end(null: NullServer, tmp_path: Path) -> None:
    # no start after the first second: the regular ones are at 0 and 2.5 s, and the deadline is at 2
    options = ("-c2", "-R0.4", "-T2", "--random-seed=1")
    server = null()
    count, rate = tps(load(tmp_path, server, "pgdrive", "--arrivals=regular", *options)[1])
    assert count == 1
    assert rate == pytest.approx(0.5, rel=0.2)
    counts = 0
    for seed in range(20):
        _, summary = load(tmp_path, server, "pgbench", "-c2", "-R2", "-T2", f"--random-seed={seed}")
        if "tps = " in summary:
            count, rate = tps(summary)
            counts += 1
            # the last one of few comes well before the end
            if rate > 1.05 * count / 2:
                return
    raise AssertionError(f"{counts} loads all took their whole time")


def test_a_stopped_load_is_measured_to_the_stop(null: NullServer, tmp_path: Path) -> None:
    with subprocess.Popen(
        [str(BIN / "pgdrive"), "-n", "-S", "-R0.2", "--arrivals=regular", "-t1000000", "--events=-"], cwd=tmp_path,
        env=os.environ | null().env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        events = map(json.loads, process.stdout)
        # the first start is at once, the next after five seconds
        until = next(event for event in events if event["event"] == "interval" and event["to_us"] >= 2_000_000)
        process.send_signal(signal.SIGINT)
        end = next(event for event in events if event["event"] == "end")
    assert end["outcome"] == "interrupted"
    assert until["to_us"] / 1e6 <= end["measured_s"] < 60


# ---- how many threads it chooses, and its warning when a thread is close to its ceiling ----

CORES = len(os.sched_getaffinity(0))
CLIENTS = 16
LOAD = ("-S", "-M", "prepared", f"-c{CLIENTS}")
BUSY = ("--worker-busy=1",)
"""A thread of these loads uses more than that of a core, however little of it others leave."""
CEILING = "of a core: these figures may be its own ceiling"


def test_threads_suit_the_clients_and_the_cores(run: Run, tmp_path: Path) -> None:
    """Rust's tests (worker_options.rs) have other numbers."""
    with null_server(tmp_path) as server:
        for options, threads in [
            # the other half of the cores is the server's
            ([f"-c{64 * CORES}"], f"{max(CORES // 2, 1)} (automatic)"),
            ([f"-c{CLIENTS}", "-j3"], "3"),
        ]:
            done = run("pgdrive", "-S", "-T0.2", *options, "--events=e.jsonl", env=server.env)
            assert done.returncode == 0, done.stderr
            assert f"number of threads: {threads}\n" in done.stdout
            events = read_events(tmp_path / "e.jsonl")
            count = int(threads.split(maxsplit=1)[0])
            assert events[0]["workers"] == count
            assert {len(event["workers"]) for event in events if event["event"] in ("interval", "end")} == {count}


def test_a_busy_thread_is_reported_whatever_chose_their_number(run: Run, tmp_path: Path) -> None:
    link = tmp_path / "pgbench"
    link.symlink_to(BIN / "pgdrive")
    with null_server(tmp_path) as server:
        for options in (["--warmup=1"], ["-j1"]):
            done = run("pgdrive", *LOAD, "-T2", *BUSY, *options, env=server.env)
            assert done.returncode == 0, done.stderr
            assert CEILING in done.stderr
        # called pgbench, there is one thread, and nothing is said
        done = run(str(link), *LOAD, "-T2", *BUSY, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 1\n" in done.stdout
    assert "ceiling" not in done.stderr


def test_a_load_far_from_the_ceiling_has_no_warning(run: Run, tmp_path: Path) -> None:
    with null_server(tmp_path) as server:
        options = ["-S", f"-c{CLIENTS}", "-T2", "-R", "200", "--max-workers=1", "--events=e.jsonl"]
        done = run("pgdrive", *options, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "ceiling" not in done.stderr
    assert "number of threads: 1 (automatic)\n" in done.stdout
    end = end_event(tmp_path / "e.jsonl")
    (worker,) = end["workers"]
    assert worker["cpu_share"] < 0.7
    assert worker["lag_ns"]["max"] >= worker["lag_ns"]["mean"] > 0
    assert 1 <= worker["replies"]["max"] <= CLIENTS
    assert end["memory"]["peak_bytes"] > 1 << 20
    assert 0 <= end["memory"]["per_connection_bytes"] < 1 << 20
    assert "steal_us" in end
