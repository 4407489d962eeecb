"""Transactions of an open loop begin on time, with both pollers, and where a kernel or a container refuses
system calls.
"""

import json
import os
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_pgnull import null_server
from tests.load_recount import PGDRIVE, start_load
from tests.run_program import run_program
from tests.seccomp import refusing

ROUNDS = 12
"""The first suffices on a quiet machine; on a busy one, a poller may have no core in most of them."""
RATE_PER_S = 300
POLLERS = {
    "io_uring": ((), "io_uring"),
    "epoll": ((), "epoll"),
    "epoll without epoll_pwait2": (refusing("EPERM", "epoll_pwait2"), "epoll"),
}
IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")


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


def run_refused(tmp_path: Path, error: str, calls: tuple[str, ...], io: str) -> subprocess.CompletedProcess[str]:
    with null_server(tmp_path) as server:
        command = (*refusing(error, *calls), str(PGDRIVE), "-n", "-S", "-c", "3", "-t", "20", f"--io={io}")
        return run_program([*command, f"--events={tmp_path / 'e.jsonl'}"], env=os.environ | server.env)


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("call", IO_URING)
def test_the_default_is_epoll_where_a_call_of_io_uring_is_refused(tmp_path: Path, call: str, error: str) -> None:
    done = run_refused(tmp_path, error, (call,), "auto")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    (connected,) = [event for event in events if event["event"] == "connected"]
    assert connected["io"] == "epoll"
    assert events[-1]["succeeded"] == 60
    # a user who asks for it is told why it is refused
    done = run_refused(tmp_path, error, (call,), "io_uring")
    assert done.returncode == 1
    assert "could not set up io_uring: " in done.stderr
    assert "seccomp profile forbids it" in done.stderr


def test_without_timers_there_is_an_error(tmp_path: Path) -> None:
    done = run_refused(tmp_path, "EPERM", ("timerfd_create",), "epoll")
    assert done.returncode == 1
    assert "could not create a timer: Operation not permitted" in done.stderr
    assert "seccomp profile" in done.stderr
