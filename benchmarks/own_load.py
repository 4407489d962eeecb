"""How like a known load its model is: load, log, capture, synthesise, run the model, compare.

Each load runs on an embedded server that logs every statement, and so does its model. Then the load and the model run
in turn, because a machine is faster in some seconds than in others. "model/load" is the median of the ratios, round by
round, of the model to the mean of the load's runs before and after; "in rounds" are the smallest and the largest of
them. "load/load" is how far, in the median, the load is from its own run before: a difference within it shows nothing.
What the server did for a statement (blocks, rows, WAL records) shows on a busy machine, too, whether it did the same.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from pgdyno.analyse.likeness import MeasuredStatement, likeness
from pgdyno.capture.folder import new_folder, write_capture
from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.capture.parser import parse
from pgdyno.capture.server.server_session import reach_server
from pgdyno.capture.server.wait_samples import WaitSamples
from pgdyno.programs import find_engine
from pgdyno.records.capture import Capture, Values
from pgdyno.synthesise.model_folder import write_model
from pgdyno.synthesise.modelled_load import Model, model_log
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.units import quantity

RESULT = Path(__file__).parent / "results" / "own_load.json"
SCRIPTS = Path(__file__).parent / "scripts" / "own_load"
VERSION = "18"
SAMPLES_PER_S = 10
SHARE_GOAL, LATENCY_GOAL = 0.01, 0.1
LEAST_SHARE = 0.01
"""Statements with a smaller share have too few executions for a p99."""
LEAST_SESSIONS = 0.05
"""Waits of fewer sessions on average are too few samples."""
LOADS: dict[str, list[str]] = {
    "tpcb-like, 4 clients": ["--builtin=tpcb-like", "--client=4"],
    "tpcb-like, 200/s": ["--builtin=tpcb-like", "--client=8", "--rate=200"],
    "three scripts, 400/s": [
        f"--file={SCRIPTS / 'order.sql'}@3",
        f"--file={SCRIPTS / 'look.sql'}@5",
        f"--file={SCRIPTS / 'range.sql'}@2",
        "--client=8",
        "--rate=400",
        "--protocol=prepared",
    ],
    "oltp_read_write, 50/s": [
        "--lua=oltp_read_write",
        "--lua-opt=tables=1",
        "--lua-opt=table-size=100000",
        "--client=8",
        "--rate=50",
    ],
    "tproc-c, 4 clients": ["--workload=tpcc", "--client=4"],
    "tproc-c in single statements, 4 clients": ["--workload=tpcc", "--tpcc-variant=sql", "--client=4"],
}


class Figure(TypedDict):
    """A figure of a load and of its model."""

    load: float
    model: float
    """Medians of the runs; ms, or sessions."""
    ratio: float
    """The model's, relative to the load's, in the median of the rounds."""
    low: float
    high: float
    """The smallest and the largest ratio of a round."""
    noise: float
    """How far the load is from its own run before, in the median: 0.05 is 5 %."""


class Statement(TypedDict):
    """A class of statements in a load and in its model."""

    text: str
    share: float
    """In the load."""
    model_share: float
    p50_ms: Figure
    p99_ms: Figure


@dataclass(frozen=True)
class Figures:
    """What a run of pgdrive says of its statements, by the text of their class, and of the server."""

    share: dict[str, float]
    p50_ms: dict[str, float]
    p99_ms: dict[str, float]
    waits: dict[str, float]
    """Active sessions on average."""
    work: dict[str, float]
    """For each statement."""


@contextmanager
def logging_server(scale: int) -> Iterator[Server]:
    """A server that logs every statement, with the tables of pgbench, sysbench and TPC-C."""
    settings = {"shared_buffers": "256MB", "log_min_duration_statement": "0"}
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings)
    with open_target("own-load", spec, home=Home.locate(), progress=SilentProgress()) as server:
        environment = {**os.environ, **server.environment()}
        engine = str(find_engine().path)
        for options in (
            ["-s", str(scale)],
            ["--dataset=sbtest", "--tables=1", "--table-size=100000"],
            ["--dataset=tpcc", f"--warehouses={max(1, scale // 5)}"],
        ):
            subprocess.run([engine, "-i", "-q", *options], env=environment, check=True, stderr=subprocess.DEVNULL)
        yield server


@dataclass(frozen=True)
class Classes:
    """How statements of a run are found in the capture."""

    capture: Capture
    commands: dict[str, list[int]]
    """Of the model's scripts, by name; of others, the text says it."""

    def of(self, script: str, place: int, text: str) -> int | None:
        """The number of the class of the statement at `place` of a script."""
        if script in self.commands:
            return self.commands[script][place]
        found = fingerprint(text)
        # pgdrive shortens the texts of Lua scripts
        start = re.split(r"\?|\.\.\.", text)[0] if "..." in text else None
        return next(
            (
                number
                for number, each in enumerate(self.capture.statements)
                if (each.fingerprint == found if start is None else each.text.startswith(start))
            ),
            None,
        )


Run = tuple[dict[str, Any], dict[str, Any], dict[str, float], dict[str, float]]
"""The first and the last event of pgdrive, the active sessions by wait, and what the server did."""


def drive(server: Server, options: Sequence[str], seconds: float) -> Run:
    """Runs pgdrive, and samples what its sessions wait for."""
    before = work(server)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as events, waits_of(server) as samples:
        command = [str(find_engine().path), "-n", "-r", f"--time={seconds:g}", f"--events={events.name}", *options]
        subprocess.run(command, env={**os.environ, **server.environment()}, check=True, stdout=subprocess.DEVNULL)
        by_type = {each["event"]: each for each in map(json.loads, Path(events.name).read_text().splitlines())}
    after = work(server)
    done = {what: after[what] - before[what] for what in after}
    return by_type["start"], by_type["end"], {each.wait: each.sessions for each in samples.waits()}, done


def work(server: Server) -> dict[str, float]:
    """What the server has done in the database so far: unlike times, it does not depend on how busy the machine is."""
    query = """
        SELECT blks_hit + blks_read AS "blocks", tup_returned AS "rows read",
               tup_inserted + tup_updated + tup_deleted AS "rows written",
               (SELECT wal_records FROM pg_stat_wal) AS "WAL records"
        FROM pg_stat_database WHERE datname = current_database()
    """
    with reach_server(address_of(server), None).connect() as connection:
        cursor = connection.execute(query)
        return dict(zip((each.name for each in cursor.description or ()), cursor.fetchall()[0], strict=True))


def address_of(server: Server) -> str:
    """The server as a connection string."""
    return f"host={server.host} port={server.port} user={server.user} dbname={server.environment()['PGDATABASE']}"


@contextmanager
def waits_of(server: Server) -> Iterator[WaitSamples]:
    """Samples the server's sessions until the block ends."""
    samples, done = WaitSamples(reach_server(address_of(server), None)), threading.Event()

    def sample() -> None:
        while not done.wait(1 / SAMPLES_PER_S):
            samples.sample()

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()
        samples.close()


def figures(run: Run, classes: Classes) -> Figures:
    """Returns what a run measured."""
    start, end, waits, done = run
    names = {script["id"]: Path(script["name"]).name for script in start["scripts"]}
    texts = {(script["id"], each["id"]): each["text"] for script in start["scripts"] for each in script["statements"]}
    measured = []
    for script in end["scripts"]:
        for place, each in enumerate(script["statements"]):
            text = each.get("text") or texts[script["script"], each["id"]]
            latency, of = each["latency_ns"] or {}, classes.of(names[script["script"]], place, text)
            counts = each["executions"], each["failures"]
            blob = each.get("histogram")
            measured.append(MeasuredStatement(of, *counts, latency.get("p50"), latency.get("p99"), blob))
    found = likeness(classes.capture, measured)
    return Figures(
        {each.text: each.share for each in found.classes},
        {each.text: (each.p50_us or 0.0) / 1e3 for each in found.classes},
        {each.text: (each.p99_us or 0.0) / 1e3 for each in found.classes},
        waits,
        {what: amount / max(found.calls, 1) for what, amount in done.items()},
    )


def fingerprint(text: str) -> str:
    """The class of a statement of a script, whatever its variables are."""
    parsed = parse(re.sub(r"(?<!:):([A-Za-z_]\w*)|\?", "1", text.rstrip().rstrip(";")))
    return parsed.fingerprint or parsed.text


def model_of(server: Server, options: Sequence[str], seconds: float, folder: Path) -> tuple[Capture, Model, list[str]]:
    """Runs a load, and returns its capture, its model, and the options of pgdrive that run the model."""
    before = server.log_size()
    drive(server, options, seconds)
    copied = folder / "server.log"
    with server.log_path.open("rb") as file:
        file.seek(before)
        copied.write_bytes(file.read())
    captured = folder / "capture"
    new_folder(captured)
    capture = capture_logs([copied], captured, Options(values=Values.KEPT))
    write_capture(captured, capture)
    model = model_log(captured, capture, 0.001)
    write_model(folder / "model", model)
    scripts = [f"--file={folder / 'model' / script.name}@{script.weight}" for script in model.scripts]
    arrivals = model.arrivals
    rate = [] if arrivals.rate is None else [f"--rate={arrivals.rate}"]
    # as max_errors of the plan does
    options = ["--continue-on-error", f"--client={arrivals.clients}", f"--protocol={model.protocol}", *rate]
    return capture, model, [*scripts, *options]


def compared(load: Sequence[Figures], model: Sequence[Figures]) -> list[Statement]:
    """Compares rounds of a load with those of its model; the load has one round more."""
    rows = []
    for of in sorted(load[0].share, key=lambda each: -load[0].share[each]):
        share = statistics.mean(each.share[of] for each in load)
        if share < LEAST_SHARE:
            continue
        rows.append(
            Statement(
                text=of,
                share=share,
                model_share=statistics.mean(each.share[of] for each in model),
                p50_ms=figure([each.p50_ms[of] for each in load], [each.p50_ms[of] for each in model]),
                p99_ms=figure([each.p99_ms[of] for each in load], [each.p99_ms[of] for each in model]),
            )
        )
    return rows


def compared_work(load: Sequence[Figures], model: Sequence[Figures]) -> dict[str, Figure]:
    """Compares what the server did for a statement."""
    return {
        what: figure([each.work[what] for each in load], [each.work[what] for each in model]) for what in load[0].work
    }


def compared_waits(load: Sequence[Figures], model: Sequence[Figures]) -> dict[str, Figure]:
    """Compares the active sessions by wait likewise, those of the load with the most sessions first."""
    found = {
        wait: figure([each.waits.get(wait, 0) for each in load], [each.waits.get(wait, 0) for each in model])
        for wait in {wait for each in (*load, *model) for wait in each.waits}
    }
    frequent = [(wait, each) for wait, each in found.items() if max(each["load"], each["model"]) >= LEAST_SESSIONS]
    return dict(sorted(frequent, key=lambda item: -item[1]["load"]))


def figure(load: Sequence[float], model: Sequence[float]) -> Figure:
    """Compares a figure of each round of a model with the mean of the load's runs before and after it.

    The tables grow and age from run to run, which the mean of both neighbours cancels.
    """
    between = [(before + after) / 2 for before, after in pairwise(load)]
    ratios = [theirs / ours for ours, theirs in zip(between, model, strict=True) if ours]
    again = [abs(after / before - 1) for before, after in pairwise(load) if before]
    return Figure(
        load=statistics.median(load),
        model=statistics.median(model),
        ratio=statistics.median(ratios) if ratios else 0.0,
        low=min(ratios, default=0.0),
        high=max(ratios, default=0.0),
        noise=statistics.median(again) if again else 0.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=3, help="of load and model in turn")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables; TPC-C has a fifth as warehouses")
    parser.add_argument("--only", metavar="TEXT", default="", help="loads whose names contain this")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep captures and models here")
    parser.add_argument("--out", type=Path, default=RESULT, help=f"default: {RESULT.name} in results/")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="own-load-") as folder, logging_server(arguments.scale) as server:
        for name, options in LOADS.items():
            if arguments.only not in name:
                continue
            work = Path(folder) / name.replace(" ", "-").replace("/", "-")
            work.mkdir()
            capture, model, modelled = model_of(server, options, arguments.seconds, work)
            if arguments.keep is not None:
                shutil.copytree(work / "model", arguments.keep / work.name, dirs_exist_ok=True)
            classes = Classes(capture, model.capture.commands)
            load, models = [figures(drive(server, options, arguments.seconds), classes)], []
            for _ in range(arguments.rounds):
                models.append(figures(drive(server, modelled, arguments.seconds), classes))
                load.append(figures(drive(server, options, arguments.seconds), classes))
            rows = compared(load, models)
            waits, done = compared_waits(load, models), compared_work(load, models)
            results[name] = {
                "calls": capture.calls,
                "scripts": len(model.scripts),
                "statements": rows,
                "waits": waits,
                "work": done,
            }
            _print(name, model, rows, waits, done)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


def _print(
    name: str, model: Model, rows: Sequence[Statement], waits: Mapping[str, Figure], done: Mapping[str, Figure]
) -> None:
    rate = "closed loop" if model.arrivals.rate is None else f"{model.arrivals.rate:g}/s"
    scripts, clients = quantity(len(model.scripts), "script"), quantity(model.arrivals.clients, "client")
    print(f"\n{name}: {scripts}, {clients}, {rate}, {model.protocol}")
    heading = f"{'load':>8} {'model':>8} {'model/load':>10} {'in rounds':>12} {'load/load':>9}"
    print(f"{'share, load':>11} {'model':>8} |{'p50, ms:':>8} {heading} |{'p99, ms:':>8} {heading}")
    for row in rows:
        times = " |".join(f"{'':8} {_cells(row[key])}" for key in ("p50_ms", "p99_ms"))
        print(f"{row['share']:11.2%} {row['model_share']:8.2%} |{times}  {row['text'][:80]}")
    for wait, each in waits.items():
        print(f"{'active sessions':>20} |{'':8} {_cells(each)}  {wait}")
    for what, each in done.items():
        print(f"{'in each statement':>20} |{'':8} {_cells(each)}  {what}")
    far = max(abs(row["share"] - row["model_share"]) for row in rows)
    print(f"largest difference of a share: {far:.2%} (goal {SHARE_GOAL:.0%})")
    for what, found in (
        ("p50", [row["p50_ms"] for row in rows]),
        ("p99", [row["p99_ms"] for row in rows]),
        ("active sessions by wait", list(waits.values())),
        ("what the server did", list(done.values())),
    ):
        away = [abs(each["ratio"] - 1) for each in found]
        near = sum(off <= LATENCY_GOAL for off in away)
        same = sum(LATENCY_GOAL < off <= each["noise"] for off, each in zip(away, found, strict=True))
        print(f"{what}: {near} of {len(found)} within {LATENCY_GOAL:.0%} of the load, {same} more within its noise")


def _cells(of: Figure) -> str:
    rounds = f"{of['low'] - 1:+.0%} to {of['high'] - 1:+.0%}"
    return f"{of['load']:8.3f} {of['model']:8.3f} {of['ratio'] - 1:+10.0%} {rounds:>12} {of['noise']:9.0%}"


if __name__ == "__main__":
    main()
