"""One, two and three generators on this machine against a server that answers at once.

They share the cores of one machine: this measures what several cost, not how far they go.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from places import null_server

from pgdyno.generators.generator_lifecycle import Cluster, open_cluster
from pgdyno.programs import find_engine

OPTIONS = ["--events=-", "--parent-lease", "--no-vacuum", "--protocol=prepared", "-b", "select-only"]


def main() -> int:
    """Command-line entry; 1 when a load failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=48)
    args = parser.parse_args()
    print("generators  start-up, s      tps  engine CPU, us a tx  start late, us  heard late, ms")
    for count in (1, 2, 3):
        began = time.monotonic()
        with open_cluster(find_engine(), count, (), lambda _text: None) as cluster:
            up_s = time.monotonic() - began
            ends = [one(cluster, args) for _ in range(args.rounds)]
        if any(end.get("outcome") != "finished" for end in ends):
            print(f"a load failed: {ends}")
            return 1
        hosts = [host for end in ends for host in end["generators"]]
        cpu = statistics.median(
            sum(sum(host["cpu_us"].values()) for host in end["generators"]) / end["succeeded"] for end in ends
        )
        tps = statistics.median(end["tps"] for end in ends)
        late = max(host["start_late_us"] for host in hosts)
        heard = max(host["heard_late_us"] for host in hosts) / 1e3
        print(f"{count:10} {up_s:12.1f} {tps:8,.0f} {cpu:20.2f} {late:15,} {heard:15.1f}")
    return 0


def one(cluster: Cluster, args: argparse.Namespace) -> dict[str, Any]:
    """The last event of one load."""
    end: dict[str, Any] = {}
    with (
        null_server(10) as environment,
        tempfile.TemporaryDirectory(prefix="pgdyno-cluster-") as folder,
        Path(folder, "engine.log").open("w+b") as errors,
    ):
        options = [*OPTIONS, f"--client={args.clients}", f"--time={args.seconds}"]
        with cluster.run_engine(find_engine(), options, environment, errors, Path(folder)) as (process, events):
            for event in events:
                end = event
            process.wait()
    return end


if __name__ == "__main__":
    sys.exit(main())
