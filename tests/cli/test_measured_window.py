"""The divisor of throughput: the measured time as planned; under pgbench's name, the time to the last transaction."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import BIN
from tests.cli.test_pgnull import Null, null
from tests.run_program import run_program

__all__ = ["null"]

NullServer = Callable[..., Null]
Event = dict[str, Any]


def load(folder: Path, server: Null, program: str, *options: str) -> tuple[list[Event], str]:
    """The events and the summary of a load that ends well; pgbench has no option for events: only its summary."""
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin" / program
    if not link.exists():
        link.symlink_to(BIN / "pgdrive")
    events = [] if program == "pgbench" else [f"--events={folder}/events"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = run_program([str(link), "-n", "-S", *options, *events], env={**clean, **server.env}, cwd=folder, check=True)
    lines = (folder / "events").read_text().splitlines() if events else []
    return [json.loads(line) for line in lines], done.stdout


def tps(summary: str) -> tuple[int, float]:
    count = summary.split("actually processed: ")[1].split(maxsplit=1)[0]
    return int(count), float(summary.split("tps = ")[1].split(maxsplit=1)[0])


@pytest.mark.parametrize("arrivals", ["poisson", "regular"])
def test_a_low_rate_is_measured_to_the_end(null: NullServer, tmp_path: Path, arrivals: str) -> None:
    # twelve clients draw twelve starts ahead: all of them would leave seconds before the end
    options = ("-c12", "-R2", "-T4", f"--arrivals={arrivals}", "--random-seed=5")
    events, summary = load(tmp_path, null(), "pgdrive", *options)
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


@pytest.mark.parametrize("limit", [["-T60"], ["-t1000000"]])
def test_a_stopped_load_is_measured_to_the_stop(null: NullServer, tmp_path: Path, limit: list[str]) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    with subprocess.Popen(
        [str(BIN / "pgdrive"), "-n", "-S", "-R0.2", "--arrivals=regular", *limit, "--events=-"],
        cwd=tmp_path,
        env={**clean, **null().env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        events = map(json.loads, process.stdout)
        # the first start is at once, the next after five seconds
        until = next(event for event in events if event["event"] == "interval" and event["to_us"] >= 2_000_000)
        process.send_signal(signal.SIGINT)
        end = next(event for event in events if event["event"] == "end")
    assert end["outcome"] == "interrupted"
    assert until["to_us"] / 1e6 <= end["measured_s"] < 60
