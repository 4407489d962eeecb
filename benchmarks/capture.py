"""Capture from logs: lines a second, and peak memory, for each format of logs.

The log is made up: 200 sessions, transactions of five statements, half of them with parameters in the extended
protocol, and a text of its own in most.
"""

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measured import run_measured

GOAL = 100_000
"""Lines a second."""
MOST_BYTES = 500e6
"""Memory of the process."""
FORMATS = ("csv", "json", "stderr")
_SESSIONS = 200
_PROGRAM = """
import json, sys
from pathlib import Path
from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.records.capture import Values
capture = capture_logs([Path(sys.argv[1])], Path(sys.argv[2]), Options(values=Values(sys.argv[3])))
print(json.dumps({"calls": capture.calls, "left_out": sum(each.count for each in capture.left_out)}))
"""


def main() -> int:
    """Command-line entry; 1 when a log was not understood or took more memory than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--values", nargs="+", default=["anonymised", "kept"])
    args = parser.parse_args()
    failed = False
    print(f"{'log':>7} {'values':>11} {'size':>8} {'wall, s':>8} {'CPU, s':>8} {'lines/s':>9} {'peak memory':>12}")
    for kind in args.formats:
        with tempfile.TemporaryDirectory(prefix="pgdyno-capture-") as place:
            log = Path(place, f"log.{kind}")
            calls = write_log(log, kind, args.lines)
            for values in args.values:
                command = [sys.executable, "-c", _PROGRAM, str(log), f"{place}/{values}", values]
                done = run_measured(command, {})
                told = json.loads(done.out.splitlines()[-1])
                if told["calls"] != calls or told["left_out"]:
                    print(f"not understood: {done.out}, and the log has {calls}")
                    failed = True
                rate = args.lines / done.wall_s
                failed |= done.peak_bytes > MOST_BYTES
                print(
                    f"{kind:>7} {values:>11} {log.stat().st_size / 1e6:5.0f} MB {done.wall_s:8.1f} {done.cpu_s:8.1f}"
                    f" {rate:9,.0f} {done.peak_bytes / 1e6:9.0f} MB{'' if rate >= GOAL else '  below the goal'}"
                )
    return failed


def write_log(path: Path, kind: str, lines: int) -> int:
    """Writes a log with `lines` entries; returns how many statements it has."""
    writer = {"csv": _csv, "json": _json, "stderr": _stderr}[kind]
    start = datetime(2026, 11, 23, 10, tzinfo=UTC)
    calls = 0
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            session, turn = number % _SESSIONS, number // _SESSIONS % 9
            message, detail, is_statement = _entry(number, turn)
            calls += is_statement
            stamp = f"{start + timedelta(microseconds=50 * number):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
            file.write(writer(stamp, 1000 + session, number // _SESSIONS, message, detail))
    return calls


def _entry(number: int, turn: int) -> tuple[str, str, bool]:
    query = "SELECT id, name, email FROM customers WHERE region = $1 AND name = $2 AND created > now() - $3::interval"
    detail = f"Parameters: $1 = '{number % 1000}', $2 = 'Customer {number // 20}', $3 = '3 days'"
    insert = f"INSERT INTO history (account, delta, at, note) VALUES ({number}, -12.5, now(), 'payment no. {number}')"
    found: dict[int, tuple[str, str, bool]] = {
        0: ("duration: 0.011 ms  statement: BEGIN", "", True),
        1: (f"duration: 0.120 ms  parse <unnamed>: {query}", "", False),
        2: (f"duration: 0.045 ms  bind <unnamed>: {query}", detail, False),
        3: (f"duration: {number % 977 / 1000:.3f} ms  execute <unnamed>: {query}", detail, True),
        4: (f"duration: 0.211 ms  statement: UPDATE accounts SET balance = balance + 1 WHERE id = {number}", "", True),
        5: (f"duration: 0.100 ms  bind S_1: {query}", detail, False),
        6: (f"duration: {number % 911 / 1000:.3f} ms  execute S_1: {query}", detail, True),
        7: (f"duration: 0.301 ms  statement: {insert}", "", True),
        8: ("duration: 1.204 ms  statement: COMMIT", "", True),
    }
    return found[turn]


def _csv(stamp: str, pid: int, line: int, message: str, detail: str) -> str:
    quoted = message.replace('"', '""')
    more = f'"{detail}"' if detail else ""
    return (
        f'{stamp},"app","shop",{pid},"10.0.0.7:4{pid}",6b048515.{pid:x},{line + 1},"SELECT",2026-11-23 09:59:01 UTC,'
        f'{pid - 990}/0,0,LOG,00000,"{quoted}",{more},,,,,,,,"web","client backend",,0\n'
    )


def _json(stamp: str, pid: int, line: int, message: str, detail: str) -> str:
    entry = {
        "timestamp": stamp,
        "user": "app",
        "dbname": "shop",
        "pid": pid,
        "session_id": f"6b048515.{pid:x}",
        "line_num": line + 1,
        "session_start": "2026-11-23 09:59:01 UTC",
        "vxid": f"{pid - 990}/0",
        "error_severity": "LOG",
        "message": message,
        **({"detail": detail} if detail else {}),
        "application_name": "web",
        "backend_type": "client backend",
        "query_id": 0,
    }
    return json.dumps(entry, separators=(",", ":")) + "\n"


def _stderr(stamp: str, pid: int, line: int, message: str, detail: str) -> str:
    del line
    prefix = f"{stamp} [{pid}] app@shop "
    more = f"{prefix}DETAIL:  {detail}\n" if detail else ""
    return f"{prefix}LOG:  {message}\n{more}"


if __name__ == "__main__":
    sys.exit(main())
