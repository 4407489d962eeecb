"""A server that stalls must show in the percentiles as the queue that built up during the stall.

Eight loads run at once against pgnull, which answers after 2 ms, and for one second not at all. A simulation of the
queue computes the expected percentiles from the intended starts in the log. A run with the same seed against a server
that does not stall shows that these starts are the schedule's, and that the stall did not move them. Margins are shares
of the stall, so they test the shape of the distribution and not the speed of the machine.
"""

import contextlib
import itertools
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Null, null_server
from tests.cli.messages import message
from tests.cli.test_pgnull import session
from tests.load_recount import HDR_RELATIVE, PERCENTILES, Load, Running, percentile, start_load

RATE_PER_S = 400
CLIENTS = 6
DURATION_S = 3
DELAY_US = 2_000
STALL_AT_US = 1_000_000
STALL_US = 1_000_000
SLACK_US = 20_000
"""Between the clocks of two programs on a busy machine."""
LIMIT_MS = 100
SEED = 20

OPEN = (f"--rate={RATE_PER_S}",)
LIMITED = (*OPEN, f"--latency-limit={LIMIT_MS}")
KINDS = {"open": OPEN, "limited": LIMITED, "closed": ()}
CASES = {
    f"{kind}-{io}-{workers}": (*KINDS[kind], f"--io={io}", f"--jobs={workers}")
    for kind, io, workers in (
        ("open", "epoll", 1), ("open", "epoll", 3), ("open", "io_uring", 1), ("open", "io_uring", 3),
        ("limited", "epoll", 1), ("limited", "io_uring", 3), ("closed", "epoll", 2), ("closed", "io_uring", 1),
    )
}  # fmt: skip


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name in CASES if name.startswith(kind)])


@dataclass
class Stalled:
    """The results of the loads, and when the server did not answer (microseconds since 1970)."""

    loads: dict[str, Load]
    calm: Load
    """The schedule of `open-epoll-1`, against a server that did not stall."""
    stall_from_us: float
    stall_to_us: float
    late_us: float
    """How much later the stall may have begun and ended."""


def first_query(server: Null) -> tuple[float, float]:
    """Sends the first query, which starts the stall's clock; returns times before and after it."""
    with session(server) as connection:
        before_us = time.time() * 1e6
        connection.sendall(message("Q", b"select 1\0"))
        assert connection.recv(1)
        return before_us, time.time() * 1e6


def arguments(script: Path, *args: str) -> tuple[str, ...]:
    fixed = ("-n", "-f", str(script), "-M", "prepared", f"--client={CLIENTS}", f"--random-seed={SEED}")
    return (*fixed, f"--time={DURATION_S}", *args)


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stalled]:
    with contextlib.ExitStack() as stack:
        folders = {name: tmp_path_factory.mktemp(name) for name in ("stalling", "calm", "loads")}
        delay = f"--delay-us={DELAY_US}"
        stall = (f"--stall-at={STALL_AT_US / 1e6}", f"--stall-for={STALL_US / 1e6}")
        stalling = stack.enter_context(null_server(folders["stalling"], delay, *stall))
        calm = stack.enter_context(null_server(folders["calm"], delay))
        first_us, set_us = first_query(stalling)
        loads = folders["loads"]
        script = loads / "one.sql"
        script.write_text("SELECT 1;\n")
        running = {
            name: start_load(os.environ | stalling.env, loads / name, *arguments(script, *args))
            for name, args in CASES.items()
        }
        unhindered = start_load(os.environ | calm.env, loads / "calm", *arguments(script, *CASES["open-epoll-1"]))
        done = {name: load.finish() for name, load in running.items()}
        begin_us = first_us + STALL_AT_US
        yield Stalled(done, unhindered.finish(), begin_us, begin_us + STALL_US, set_us - first_us)


# ---- what must have happened ----


def simulate(
    starts_us: list[float], clients: int, stalled: Stalled, limit_us: float = math.inf
) -> tuple[list[float], int]:
    """One worker's queue: every start is taken by the client that is free first, and served in `DELAY_US`. Returns the
    latencies, and how many starts are skipped.

    An answer that would come during the stall comes at its end. With a limit, a client passes over starts
    that are older than the limit when it comes to them.
    """
    free_us = [0.0] * clients
    latencies, skipped = [], 0
    for start in sorted(starts_us):
        client = min(range(clients), key=lambda number: free_us[number])
        begin = max(start, free_us[client])
        if start + limit_us < begin:
            skipped += 1
            continue
        end = begin + DELAY_US
        if stalled.stall_from_us <= end < stalled.stall_to_us:
            end = stalled.stall_to_us
        free_us[client] = end
        latencies.append(end - start)
    return latencies, skipped


def simulations(load: Load, stalled: Stalled, limit_us: float = math.inf) -> Iterator[tuple[list[float], int]]:
    clients, workers = load.start["clients"], load.start["workers"]
    for worker, own in itertools.groupby(load.lines, lambda line: line.worker):
        # clients are shared out evenly; the first workers have one more
        count = clients // workers + (worker < clients % workers)
        yield simulate([float(line.intended_us) for line in own], count, stalled, limit_us)


def starts_since_first(load: Load) -> list[int]:
    starts = sorted(line.intended_us for line in load.lines)
    return [start - starts[0] for start in starts]


# ---- the tests ----


@cases("")
def test_reported_figures_equal_the_log(stalled: Stalled, name: str) -> None:
    load = stalled.loads[name]
    assert load.exit_code == 0, load.stderr
    assert load.verify().succeeded > 0
    assert load.end["in_flight"] == 0


@cases("open")
def test_the_schedule_does_not_wait_for_the_server(stalled: Stalled, name: str) -> None:
    load = stalled.loads[name]
    from_us = stalled.stall_from_us + stalled.late_us + SLACK_US
    hit = [line for line in load.lines if from_us <= line.intended_us < stalled.stall_to_us - SLACK_US]
    # Poisson: a standard deviation is the root of the mean
    expected = RATE_PER_S * (stalled.stall_to_us - SLACK_US - from_us) / 1e6
    assert abs(len(hit) - expected) < 6 * expected**0.5
    # each of them waited for the end of the stall
    early = [line for line in hit if line.end_us < stalled.stall_to_us - SLACK_US]
    assert early == [], (stalled.stall_from_us, stalled.late_us)


def test_a_stall_moves_no_intended_start(stalled: Stalled) -> None:
    calm = starts_since_first(stalled.calm)
    hindered = starts_since_first(stalled.loads["open-epoll-1"])
    assert min(len(calm), len(hindered)) > 0.8 * RATE_PER_S * DURATION_S
    # starts are taken in their order: one may have a few more at its end; instants are cut off to microseconds
    assert all(abs(a - b) <= 4 for a, b in zip(calm, hindered, strict=False))
    assert percentile([line.latency_us for line in stalled.calm.lines], 0.99) < 0.5 * STALL_US


def test_loads_of_one_seed_had_one_schedule(stalled: Stalled) -> None:
    for workers in (1, 3):
        due = {
            name: load.end["scheduled"] + load.end["unstarted"]
            for name, load in stalled.loads.items()
            if load.start["workers"] == workers and load.start["rate_per_s"] is not None
        }
        assert len(due) == 3
        assert len(set(due.values())) == 1, due


@cases("open")
def test_percentiles_are_those_of_the_queue(stalled: Stalled, name: str) -> None:
    load = stalled.loads[name]
    computed_us = [each for latencies, _ in simulations(load, stalled) for each in latencies]
    assert len(computed_us) == load.end["succeeded"]
    for quantile_name in ("p50", "p75", "p90", "p95", "p99", "p999"):
        must_us = percentile(computed_us, PERCENTILES[quantile_name])
        told_us = load.end["latency_ns"][quantile_name] / 1000
        assert told_us >= must_us * (0.95 - HDR_RELATIVE), quantile_name
        assert told_us <= must_us * (1 + HDR_RELATIVE) + 0.5 * STALL_US, quantile_name
    # the stall is a third of the run: its queue is in every percentile from the 75th on
    assert load.end["latency_ns"]["p99"] / 1000 >= 0.9 * STALL_US
    assert sum(computed_us) <= sum(line.latency_us for line in load.lines) / 0.95


@cases("closed")
def test_a_closed_loop_omits_what_an_open_one_tells(stalled: Stalled, name: str) -> None:
    load = stalled.loads[name]
    slow = [line for line in load.lines if line.latency_us > STALL_US / 2]
    assert {line.client for line in slow} == set(range(CLIENTS))
    assert len(slow) == CLIENTS
    assert load.end["latency_ns"]["max"] / 1000 >= 0.95 * STALL_US
    assert load.end["latency_ns"]["p99"] / 1000 < 0.5 * STALL_US


@cases("limited")
def test_a_limit_skips_the_queue_and_says_so(stalled: Stalled, name: str) -> None:
    load = stalled.loads[name]
    # the same seed and workers: the same schedule, which ran without a limit
    schedule = stalled.loads[f"open-epoll-{load.start['workers']}"]
    computed = sum(skipped for _, skipped in simulations(schedule, stalled, LIMIT_MS * 1000))
    assert computed * 0.95 <= load.end["skipped"] <= computed + RATE_PER_S
    lines = load.lines
    assert load.end["skipped"] == sum(line.skipped for line in lines) >= 0.7 * RATE_PER_S
    # transactions that began before the stall ended after it, late; none began later than the limit allows
    assert load.end["late"] >= CLIENTS
    assert all(line.lag_us <= LIMIT_MS * 1000 + 0.2 * STALL_US for line in lines)


# ---- a server that has not answered when the load ends ----


def start_both(server: Null, folder: Path, *args: str) -> list[Running]:
    """Starts the load with each poller at once, as others wait for these tests to end."""
    script = folder / "one.sql"
    script.write_text("SELECT 1;\n")
    first_query(server)
    return [
        start_load(os.environ | server.env, folder / io, *arguments(script, f"--io={io}"), *args)
        for io in ("epoll", "io_uring")
    ]


def test_unstarted_transactions_are_reported(stalled: Stalled, tmp_path: Path) -> None:
    with null_server(tmp_path, "--stall-at=0.5", "--stall-for=1") as server:
        loads = [each.finish() for each in start_both(server, tmp_path, *OPEN, "--jobs=1", "--time=1")]
    # the same seed against a server that did not stall: so many were due in the first second
    calm = stalled.calm
    origin_us = calm.start["epoch_us"] + calm.events[1]["origin_us"]
    due = sum(line.intended_us - origin_us <= 1e6 for line in calm.lines)
    for load in loads:
        assert load.exit_code == 0, load.stderr
        load.verify()
        assert abs(load.end["scheduled"] + load.end["unstarted"] - due) <= 1
        assert load.end["unstarted"] >= 0.3 * RATE_PER_S
        assert f"{load.end['unstarted']} transactions were due before the end" in load.stderr


def test_a_load_that_is_stopped_in_a_stall_was_measured_up_to_the_stop(tmp_path: Path) -> None:
    with null_server(tmp_path, "--stall-at=0.3", "--stall-for=3600") as server:
        loads = start_both(server, tmp_path, "--time=60")
        for running in loads:
            running.wait_for_intervals(2)
            running.process.send_signal(signal.SIGINT)
        for load in [each.finish() for each in loads]:
            load.verify()
            assert load.end["in_flight"] == CLIENTS
            # nothing ended in the second second, but it counts
            assert load.end["measured_s"] >= 1.9
            assert load.end["measured_s"] == pytest.approx(load.intervals[-1]["to_us"] / 1e6, abs=0.2)
