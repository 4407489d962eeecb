"""Many runs on object storage: `pgdyno analyse` in one process, and with --cluster local:1 and local:2.

Makes runs by the store (figures made up), copies them to a server of moto's that stands for S3 on the loopback
address, and analyses them all each way. What is printed has to be the same. moto's server
shares the machine: times say how the ways stand to each other, and CPU what a run costs, in all processes. Take times
on an idle machine.
"""

import argparse
import hashlib
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import boto3
from archive import make_runs

from pgdyno.store import RunFolder
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.objects import list_objects
from pgdyno.store.object_storage.runs import SUMMARIES, upload

BIN = Path(sys.executable).parent
BUCKET = "bench"
WAYS: dict[str, list[str]] = {"here": [], "local:1": ["--cluster", "local:1"], "local:2": ["--cluster", "local:2"]}


@contextmanager
def object_storage() -> Iterator[None]:
    """moto's server as a process of its own; boto3 finds it through the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "no-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
    }
    command = [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port, server)
            boto3.client("s3").create_bucket(Bucket=BUCKET)
            yield
        finally:
            server.terminate()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Until somebody listens."""
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("moto's server did not start")


def cpu_s() -> float:
    """Of children that have ended, and of theirs that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    at = Address(BUCKET, "runs")
    with tempfile.TemporaryDirectory() as place, object_storage():
        folder = Path(place) / "runs"
        folder.mkdir()
        make_runs(folder, options.runs)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda path: upload(RunFolder.open(path), at), sorted(folder.iterdir())))
        objects = list_objects(at)
        names = {"manifest.json", "trial.json", *(f"{table}.parquet" for table in SUMMARIES)}
        read = [each for each in objects if each.address.name in names]
        size = sum(each.size_bytes for each in read)
        whole = sum(each.size_bytes for each in objects)
        print(
            f"{options.runs:,} runs, {len(objects):,} objects, {whole / 1e6:,.1f} MB; "
            f"read of each run: {len(read) / options.runs:.0f} objects, {size / options.runs / 1e3:,.1f} kB"
        )
        printed = set()
        for way in options.ways:
            began, cpu_before = time.perf_counter(), cpu_s()
            command = [str(BIN / "pgdyno"), "analyse", str(at), "--json", *WAYS[way]]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            took, cpu = time.perf_counter() - began, cpu_s() - cpu_before
            printed.add(hashlib.sha256(done.stdout).hexdigest())
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
            print(
                f"{way}: {took:.1f} s, {1e3 * took / options.runs:.1f} ms a run; "
                f"CPU of the command {1e3 * cpu / options.runs:.1f} ms a run; printed {len(done.stdout) / 1e6:.2f} MB; "
                f"largest process so far {peak:,.0f} MB"
            )
        print("every way printed the same" if len(printed) == 1 else "the ways printed different things")


if __name__ == "__main__":
    main()
