"""`pgdrive -i` beside `pgbench -i` on one server: wall time, client and server CPU a row, interleaved.

Each pair loads with pgdrive and with pgbench one after the other, in alternating order, each time after a
checkpoint; the figure is the median of the ratios of the pairs. Client CPU is user and system time of the
process, from wait4; server CPU is that of the postmaster and all its children, from /proc. After that the
same is loaded with `--load-workers` 1, 2 and 4, plain and in four partitions.

At last pgdyno loads a server of its own as `pgdyno run` does, without WAL, both restarts included, and `pgbench -i`
loads an equal one, both with default settings: first when the server is new, then again.
"""

import argparse
import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from measured import process_ticks, run_measured
from programs import Programs

from pgdyno.host import describe_host
from pgdyno.prepare import Dataset
from pgdyno.prepare.dataset import load_dataset, read_comment, read_stamp
from pgdyno.prepare.timed_steps import Steps, minimal_wal
from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

RESULTS = Path(__file__).parent / "results"
ROWS_A_SCALE = 100_000
WALL_GOAL = 0.7
CPU_GOAL = 0.5
OWN_GOAL = 0.6


@dataclass(frozen=True)
class Sample:
    """One load."""

    wall_s: float
    client_us: float
    """Client CPU a row."""
    server_us: float
    """Server CPU a row."""


def server_cpu_s(server: Server) -> float:
    """CPU time of the server until now: the postmaster, its children, and those that have ended."""
    postmaster = int((server.data_directory / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    alive = sum(sum(_ticks(int(pid))[:2]) for pid in children)
    # last: it has the time of those that have ended meanwhile
    return (alive + sum(_ticks(postmaster))) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """User and system time of a process, and of children that it has waited for; nothing of one that is gone."""
    try:
        return process_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        return []


def load(server: Server, program: str, scale: int, *options: str) -> Sample:
    """Loads once, from a checkpoint on."""
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
    before_s = server_cpu_s(server)
    command = [program, "-i", "-q", "-s", str(scale), *options]
    child = run_measured(command, server.environment())
    server_s = server_cpu_s(server) - before_s
    rows = scale * ROWS_A_SCALE
    return Sample(child.wall_s, child.cpu_s * 1e6 / rows, server_s * 1e6 / rows)


def median(samples: list[Sample]) -> dict[str, float]:
    """The median of each figure."""
    names = asdict(samples[0])
    return {name: round(statistics.median(asdict(sample)[name] for sample in samples), 3) for name in names}


def ratios(ours: list[Sample], theirs: list[Sample]) -> dict[str, float]:
    """The median of the pairs' ratios of each figure."""
    pairs = [(asdict(a), asdict(b)) for a, b in zip(ours, theirs, strict=True)]
    return {name: round(statistics.median(a[name] / b[name] for a, b in pairs), 3) for name in pairs[0][0]}


def compare(server: Server, pgbench: str, engine: str, scale: int, pairs: int) -> dict[str, dict[str, float]]:
    """All pairs."""
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for pair in range(pairs):
        order = [(engine, ours), (pgbench, theirs)]
        for program, samples in order if pair % 2 == 0 else reversed(order):
            samples.append(load(server, program, scale))
    return {"pgdrive": median(ours), "pgbench": median(theirs), "ratio": ratios(ours, theirs)}


def scaling(server: Server, programs: Programs, scale: int, rounds: int) -> list[dict[str, object]]:
    """The same over more connections, beside pgbench, which has one: rows in turn, round by round."""
    ways: list[tuple[str, str, tuple[str, ...]]] = []
    for name, options in [("plain", ()), ("4 partitions", ("--partitions=4",))]:
        ways.append((f"{name}, pgbench", programs.pgbench, options))
        for workers in (1, 2, 4):
            more = (f"--load-workers={workers}", *options)
            ways.append((f"{name}, {workers} worker{'s' if workers > 1 else ''}", programs.pgdrive, more))
    samples: dict[str, list[Sample]] = {name: [] for name, _, _ in ways}
    for _ in range(rounds):
        for name, program, options in ways:
            samples[name].append(load(server, program, scale, *options))
    return [{"case": name, **median(of_case)} for name, of_case in samples.items()]


@dataclass(frozen=True)
class OwnSample:
    """One load of the comparison on default settings."""

    wall_s: float
    """All of it: with restarts, where there are any."""
    load_s: float
    """Without the restarts."""


PGBENCH, WITHOUT_WAL = "pgbench -i", "pgdyno, without WAL"
SERVERS = ("new", "used")
"""One that has just been made must create its WAL files; one that was loaded before has them, and drops tables."""


def own_servers(programs: Programs, scale: int, pairs: int) -> dict[str, dict[str, dict[str, float]]]:
    """Two equal servers a pair, each loaded when it is new and again: medians, and the pairs' ratios to pgbench."""
    samples: dict[str, dict[str, list[OwnSample]]] = {state: {PGBENCH: [], WITHOUT_WAL: []} for state in SERVERS}
    spec = EmbeddedTarget(kind="embedded", version="18")
    home, progress = Home.locate(), SilentProgress()
    for pair in range(pairs):
        with (
            open_target("pgbench", spec, home=home, progress=progress) as theirs,
            open_target("pgdyno", spec, home=home, progress=progress) as ours,
        ):
            for of_state in samples.values():
                for way in of_state if pair % 2 == 0 else reversed(of_state):
                    settle(theirs, ours)
                    server = theirs if way == PGBENCH else ours
                    of_state[way].append(own_load(way, server, programs, scale))
    return {state: own_medians(of_state) for state, of_state in samples.items()}


def own_medians(samples: dict[str, list[OwnSample]]) -> dict[str, dict[str, float]]:
    """Of each way; with the median of its ratios to pgbench, the restarts included."""
    found = {}
    for way, of_way in samples.items():
        ratios = [ours.wall_s / theirs.wall_s for ours, theirs in zip(of_way, samples[PGBENCH], strict=True)]
        found[way] = {
            "wall_s": round(statistics.median(sample.wall_s for sample in of_way), 3),
            "load_s": round(statistics.median(sample.load_s for sample in of_way), 3),
            "ratio": round(statistics.median(ratios), 3),
        }
    return found


def settle(*servers: Server) -> None:
    """Brings to disk what earlier loads left, so that no load writes another's pages."""
    for server in servers:
        with server.connect() as connection:
            connection.execute("CHECKPOINT")
    os.sync()


def own_load(way: str, server: Server, programs: Programs, scale: int) -> OwnSample:
    """Loads once."""
    if way == PGBENCH:
        child = run_measured([programs.pgbench, "-i", "-q", "-s", str(scale)], server.environment())
        return OwnSample(child.wall_s, child.wall_s)
    steps = Steps(SilentProgress())

    def load() -> None:
        load_dataset(Dataset("pgbench", scale), server, find_engine(), SilentProgress(), reload=True)

    with minimal_wal(server, steps):
        steps.do("load", "", load)
    mark = read_stamp(read_comment(server))
    if mark is None or mark.wal_level != "minimal":
        raise SystemExit(f"the load was not without WAL: {steps.done}")
    (load_s,) = (step.seconds for step in steps.done if step.name == "load")
    return OwnSample(steps.seconds, load_s)


def print_own(found: dict[str, dict[str, dict[str, float]]]) -> None:
    """The last table."""
    print(f"{'default settings':36}{'wall, s':>10}{'without restarts, s':>22}{'of pgbench':>12}")
    for state, ways in found.items():
        for way, figures in ways.items():
            name = f"{state} server: {way}"
            print(f"{name:36}{figures['wall_s']:>10.2f}{figures['load_s']:>22.2f}{figures['ratio']:>12.2f}")
        reached = "reached" if ways[WITHOUT_WAL]["ratio"] <= OWN_GOAL else "not reached"
        print(f"goal for a {state} server: {OWN_GOAL}: {reached}")


def line(name: str, figures: dict[str, float]) -> str:
    """A line of the table."""
    return f"{name:26}{figures['wall_s']:>10.2f}{figures['client_us']:>16.3f}{figures['server_us']:>16.3f}"


def main() -> None:
    """Runs all, prints it, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pgbench", help="the pgbench to compare with")
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of the loads with more connections")
    parser.add_argument("--only-own", action="store_true", help="only pgdyno's own servers; the other results stay")
    args = parser.parse_args()
    programs = Programs.find(args.pgbench)
    path = RESULTS / "load.json"
    if args.only_own:
        result = json.loads(path.read_text()) if path.is_file() else {}
    else:
        result = engine_alone(programs, args.scale, args.pairs, args.rounds)
    own = own_servers(programs, args.scale, args.pairs)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    result["own_servers"] = {"at": now, "scale": args.scale, "pairs": args.pairs, **own}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print_own(own)


def engine_alone(programs: Programs, scale: int, pair_count: int, rounds: int) -> dict[str, object]:
    """pgdrive and pgbench on one server, whose settings are the same for both; printed."""
    settings = {"shared_buffers": "512MB", "synchronous_commit": "off"}
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings)
    with open_target("bench", spec, home=Home.locate(), progress=SilentProgress()) as server:
        pairs = compare(server, programs.pgbench, programs.pgdrive, scale, pair_count)
        more = scaling(server, programs, scale, rounds)
    version = programs.versions()["pgbench"]
    print(f"-i -s {scale}, {pair_count} interleaved pairs, {version}")
    print(f"{'':26}{'wall, s':>10}{'client, us/row':>16}{'server, us/row':>16}")
    for name, figures in pairs.items():
        print(line(name, figures))
    for figure, goal in [("wall_s", WALL_GOAL), ("client_us", CPU_GOAL)]:
        reached = "reached" if pairs["ratio"][figure] <= goal else "not reached"
        print(f"goal for the ratio of {figure}: {goal}: {reached}")
    for row in more:
        print(line(str(row["case"]), {name: value for name, value in row.items() if isinstance(value, float)}))
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "python": platform.python_version(),
        "pgbench": version,
        "server": "embedded PostgreSQL 18, unix socket, client and server on the same cores",
        "scale": scale,
        "pairs": pair_count,
        "rounds": rounds,
        "beside": pairs,
        "workers": more,
    }


if __name__ == "__main__":
    main()
