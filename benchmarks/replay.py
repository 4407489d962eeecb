"""`pgdrive --replay`: how much CPU a statement takes, how exactly it starts, and how much memory a replay takes.

All loads go to the null server, which answers at once: what is measured is the generator alone.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measured import Measured, run_measured
from places import null_server

from pgdyno.programs import find_engine

RESULTS = Path(__file__).parent / "results"
SQL = "SELECT abalance FROM pgbench_accounts WHERE aid = "
GOAL_CPU = 1.3
"""Of the same statement's in a script."""
GOAL_EXACT = 0.99
"""The share of starts within 1 ms."""
PROTOCOLS = {"simple": {"sql": f"{SQL}54321", "of": 0}, "prepared": {"text": 0, "name": "s", "params": ["54321"]}}
SCRIPTS = {"simple": f"{SQL}54321;\n", "prepared": f"{SQL}:aid;\n"}


def write_capture(path: Path, protocol: str, sessions: int, each: int, gap_us: int) -> Path:
    """Writes sessions that run all the time, with a statement each `gap_us` in turns."""
    span_us = each * gap_us
    header = {
        "format": "pgdyno-replay",
        "version": 1,
        "sessions": sessions,
        "most_sessions": sessions,
        "statements": sessions * each,
        "span_us": span_us,
    }
    rest = json.dumps(PROTOCOLS[protocol])[1:]
    with path.open("w") as file:
        file.write(f'{json.dumps(header)}\n{{"class": 0, "sql": "{SQL}$1"}}\n')
        file.write(f'{{"text": 0, "of": 0, "sql": "{SQL}$1"}}\n')
        for session in range(sessions):
            turn_us = session * gap_us // sessions
            file.write(f'{{"session":{session}, "at_us": 0, "until_us": {span_us}}}\n')
            file.writelines(f'{{"at_us": {n * gap_us + turn_us}, {rest}\n' for n in range(each))
            file.write(f'{{"end":{span_us}}}\n')
    return path


def pgdrive(environment: Mapping[str, str], folder: Path, *args: str) -> tuple[Measured, dict[str, Any]]:
    """Runs a load on one worker; returns its cost and its `end` event."""
    events = folder / "events.jsonl"
    done = run_measured([str(find_engine().path), "-n", "-j1", f"--events={events}", *args], environment)
    end: dict[str, Any] = json.loads(events.read_text().splitlines()[-1])
    return done, end


def cpu(environment: Mapping[str, str], folder: Path, args: argparse.Namespace) -> list[dict[str, object]]:
    """CPU a statement of a replay without pauses, and of a script; interleaved."""
    rows: list[dict[str, object]] = []
    for protocol in PROTOCOLS:
        each = args.statements // args.sessions
        capture = write_capture(folder / "cpu.jsonl", protocol, args.sessions, each, 1000)
        script = folder / "cpu.sql"
        script.write_text(SCRIPTS[protocol])
        figures: list[tuple[float, float]] = []
        for _ in range(args.rounds):
            replayed, end = pgdrive(environment, folder, f"--replay={capture}", "--pace=max")
            assert end["replay"]["done"] == each * args.sessions
            scripted, _ = pgdrive(
                environment,
                folder,
                *("-f", str(script), "-M", protocol, "-D", "aid=54321"),
                *("-c", str(args.sessions), "-t", str(each)),
            )
            figures.append((replayed.cpu_s, scripted.cpu_s))
        per_statement = 1e6 / (each * args.sessions)
        ratio = statistics.median(one / other for one, other in figures)
        rows.append(
            {
                "protocol": protocol,
                "replay_us": statistics.median(one for one, _ in figures) * per_statement,
                "script_us": statistics.median(other for _, other in figures) * per_statement,
                "ratio": ratio,
                "reached": ratio <= GOAL_CPU,
            }
        )
    return rows


def exactness(environment: Mapping[str, str], folder: Path, rate: int, seconds: int) -> dict[str, object]:
    """How late statements start at `rate` a second."""
    sessions = 20
    gap_us = sessions * 1_000_000 // rate
    capture = write_capture(folder / "rate.jsonl", "prepared", sessions, seconds * 1_000_000 // gap_us, gap_us)
    _, end = pgdrive(environment, folder, f"--replay={capture}")
    found = end["replay"]
    return {
        "rate_per_s": rate,
        # while the worker waits for a processor, it cannot be exact
        "waited_ms": sum(worker["waited_us"] or 0 for worker in end["workers"]) / 1e3,
        "within_1ms": found["within_1ms"],
        "p50_us": found["lateness_ns"]["p50"] / 1e3,
        "p99_us": found["lateness_ns"]["p99"] / 1e3,
        "reached": found["within_1ms"] >= GOAL_EXACT,
    }


def memory(environment: Mapping[str, str], folder: Path, statements: int) -> dict[str, object]:
    """Peak memory, and time to scan; the file is replayed for a few seconds only."""
    sessions = 100
    capture = write_capture(folder / "large.jsonl", "simple", sessions, statements // sessions, 1000)
    size = capture.stat().st_size
    done, end = pgdrive(environment, folder, f"--replay={capture}", "--pace=max", "-T", "3")
    capture.unlink()
    return {
        "statements": statements,
        "file_bytes": size,
        "peak_bytes": done.peak_bytes,
        "scan_s": done.wall_s - end["measured_s"],
    }


def main() -> None:
    """Measures, prints, and writes results/replay.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--statements", type=int, default=640_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--large", type=int, nargs="*", default=[1_000_000, 10_000_000])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay-") as name, null_server(1) as environment:
        folder = Path(name)
        result = {
            "cpu": cpu(environment, folder, args),
            "starts": [exactness(environment, folder, rate, args.seconds) for rate in (2_000, 10_000)],
            "memory": [memory(environment, folder, statements) for statements in args.large],
        }
    for rows in result.values():
        for row in rows:
            print(json.dumps(row))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "replay.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
