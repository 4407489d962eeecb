"""What `pgdrive --proxy` adds to a statement, next to a plain TCP relay, and what it costs under load.

    benchmarks/proxy.py "host=127.0.0.1 port=5432 user=postgres dbname=app"     # with pgbench's tables

One session goes directly, one through a plain relay, one through the proxy, which records. Each round sends the same
statement on all three, in random order, so that all of them see the same machine. Then pgbench's TPC-B runs through the
proxy: transactions per second, CPU per transaction, and memory at the beginning and at the end.
"""

import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from measured import process_cpu_s
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgdyno.programs import find_engine

RESULT = Path(__file__).parent / "results" / "proxy.json"
GOAL_US = 50.0


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def added_us(dsns: dict[str, str], rounds: int) -> dict[str, float]:
    """Returns the median time of a statement on each way, and the medians of what two ways differ by in a round."""
    with ExitStack() as stack:
        ways = {name: stack.enter_context(psycopg.connect(dsn, autocommit=True)) for name, dsn in dsns.items()}
        times: dict[str, list[float]] = {name: [] for name in ways}
        names = list(ways)
        for number in range(rounds + 200):
            random.shuffle(names)
            for name in names:
                begun = time.perf_counter_ns()
                ways[name].pgconn.exec_(b"SELECT abalance FROM pgbench_accounts WHERE aid = 17")
                if number >= 200:
                    times[name].append((time.perf_counter_ns() - begun) / 1e3)
    median = {name: statistics.median(each) for name, each in times.items()}
    pairs = zip(times["proxy"], times["relay"], strict=True)
    return {**median, "proxy - relay": statistics.median(proxy - relay for proxy, relay in pairs)}


def memory_kb(pid: int) -> int:
    return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0])


def under_load(pid: int, dsn: str, clients: int, seconds: int) -> dict[str, float]:
    before_s, first_kb = process_cpu_s(pid), 0
    words = ["pgbench", "-n", f"-c{clients}", "-j2", f"-T{seconds}", "-Mprepared", dsn]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as load:
        time.sleep(min(5, seconds / 4))
        first_kb = memory_kb(pid)
        time.sleep(max(0, seconds - 6))
        last_kb = memory_kb(pid)
        out, _ = load.communicate()
    if load.returncode != 0:
        raise SystemExit(out)
    done = int(re.findall(r"actually processed: (\d+)", out)[0])
    return {
        "clients": clients,
        "tps": float(re.findall(r"tps = ([\d.]+)", out)[0]),
        "cpu_us": 1e6 * (process_cpu_s(pid) - before_s) / done,
        "first_kb": first_kb,
        "last_kb": last_kb,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dsn")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    parameters = conninfo_to_dict(given.dsn)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="proxy-")))
        relay = folder / "relay"
        subprocess.run(["cc", "-O2", "-o", relay, Path(__file__).with_name("relay.c")], check=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            relay_port = str(free.getsockname()[1])
        server = str(parameters.get("port", 5432))
        stack.enter_context(started(str(relay), relay_port, server))
        command = [*find_engine().command, "--proxy=127.0.0.1:0", f"--record={folder / 'records'}"]
        proxy = stack.enter_context(started(*command, given.dsn))
        assert proxy.stdout is not None
        proxy_port = json.loads(proxy.stdout.readline())["address"].rpartition(":")[2]
        time.sleep(0.5)
        dsns = {
            name: make_conninfo(given.dsn, host="127.0.0.1", port=port)
            for name, port in (("relay", relay_port), ("proxy", proxy_port))
        }
        statement = added_us({"direct": given.dsn, **dsns}, given.rounds)
        load = {
            name: under_load(proxy.pid, dsn, given.clients, given.seconds)
            for name, dsn in {"proxy": dsns["proxy"], "direct": given.dsn}.items()
        }
        load["direct"]["cpu_us"] = 0.0
    print(json.dumps({"statement_us": statement, "load": load}, indent=2))
    RESULT.write_text(json.dumps({"goal_us": GOAL_US, "statement_us": statement, "load": load}, indent=2) + "\n")


if __name__ == "__main__":
    main()
