"""Import of pgbench's transaction logs: lines a second of processor time, and peak memory.

The logs are made up: 20,000 transactions a second of 64 clients, latencies by a formula.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import duckdb
from measured import run_measured

GOAL = 1_000_000
"""Lines a second of one core."""
_LINES = """
    COPY (SELECT i % 64, i // 64, 800 + (hash(i) % 2400), 0,
                 1793100000 + i // 20000, (i % 20000) * 50 + (hash(i + 1) % 50)
          FROM range({lines}) t(i))
    TO '{path}' (FORMAT csv, DELIMITER ' ', HEADER false)
"""


def main() -> int:
    """Command-line entry; 1 when a log was not understood."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000_000, 100_000_000])
    args = parser.parse_args()
    print(f"{'lines':>12} {'log':>8} {'wall, s':>8} {'CPU, s':>8} {'lines a CPU second':>19} {'peak memory':>12}")
    for lines in args.lines:
        with tempfile.TemporaryDirectory(prefix="pgdyno-imports-") as place:
            log = Path(place, "pgbench_log.1")
            duckdb.execute(_LINES.format(lines=lines, path=log))
            size = log.stat().st_size
            command = [str(Path(sys.executable).parent / "pgdyno"), "import", str(log), "--into", place, "--json"]
            done = run_measured(command, {})
            told = json.loads(done.out.splitlines()[-1])
            if told["trials"] != 1 or told["unread"]:
                print(f"not understood: {done.out}")
                return 1
            rate = lines / done.cpu_s
            print(
                f"{lines:12,} {size / 1e9:5.1f} GB {done.wall_s:8.1f} {done.cpu_s:8.1f} {rate:13,.0f}"
                f" {'ok' if rate >= GOAL else 'low':>5} {done.peak_bytes / 1e6:9.0f} MB"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
