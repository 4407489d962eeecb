"""How like a known load its model is: load, log, capture, synthesise, run the model, compare.

Each load runs on an embedded server that logs every statement, and so does its model. Then the load and the model run
in turn, because a machine is faster in some seconds than in others; a figure is the median of the ratios, round by
round. The load against its own next run shows what the machine alone does to the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from pgdyno.capture.folder import new_folder, write_capture
from pgdyno.capture.logs import Options, capture_logs
from pgdyno.capture.parser import parse
from pgdyno.records.capture import Capture, Values
from pgdyno.run import find_engine
from pgdyno.synthesise.model_folder import write_model
from pgdyno.synthesise.modelled_load import Model, model_log
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.units import counted

RESULT = Path(__file__).parent / "results" / "own_load.json"
SCRIPTS = Path(__file__).parent / "scripts" / "own_load"
VERSION = "18"
SCALE = 10
SHARE_GOAL, LATENCY_GOAL = 0.01, 0.1
LEAST_SHARE = 0.01
"""Statements with a smaller share have too few executions for a p99."""
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
}


class Statement(TypedDict):
    """A class of statements in a load and in its model."""

    text: str
    share: float
    """In the load."""
    model_share: float
    p50: float
    """The model's, relative to the load's."""
    p99: float
    noise_p50: float
    """The load's next run, relative to the load's."""
    noise_p99: float


@dataclass(frozen=True)
class Figures:
    """What a run of pgdrive says of its statements, by the fingerprint of their class."""

    executions: Counter[str]
    p50_ns: dict[str, float]
    p99_ns: dict[str, float]

    def share(self, of: str) -> float:
        """Its part of all executions."""
        return self.executions[of] / self.executions.total()


@contextmanager
def logging_server() -> Iterator[Server]:
    """A server that logs every statement, with the tables of pgbench and sysbench."""
    settings = {"shared_buffers": "256MB", "log_min_duration_statement": "0"}
    spec = EmbeddedTarget(kind="embedded", version=VERSION, settings=settings)
    with open_target("own-load", spec, home=Home.locate(), progress=SilentProgress()) as server:
        environment = {**os.environ, **server.environment()}
        engine = str(find_engine().path)
        for options in (["-s", str(SCALE)], ["--dataset=sbtest", "--tables=1", "--table-size=100000"]):
            subprocess.run([engine, "-i", "-q", *options], env=environment, check=True, stderr=subprocess.DEVNULL)
        yield server


@dataclass(frozen=True)
class Classes:
    """How statements of a run are found in the capture."""

    capture: Capture
    commands: dict[str, list[int]]
    """Of the model's scripts, by name; of others, the text says it."""

    def of(self, script: str, place: int, text: str) -> str:
        """The fingerprint of the statement at `place` of a script."""
        if script in self.commands:
            return str(self.capture.statements[self.commands[script][place]].fingerprint)
        found = fingerprint(text)
        # pgdrive shortens the texts of Lua scripts
        start = re.split(r"\?|\.\.\.", text)[0]
        same = (str(each.fingerprint) for each in self.capture.statements if each.text.startswith(start))
        return found if "..." not in text else next(same, found)


def drive(server: Server, options: Sequence[str], seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs pgdrive, and returns its first and its last event."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as events:
        command = [str(find_engine().path), "-n", "-r", f"--time={seconds:g}", f"--events={events.name}", *options]
        subprocess.run(command, env={**os.environ, **server.environment()}, check=True, stdout=subprocess.DEVNULL)
        by_type = {each["event"]: each for each in map(json.loads, Path(events.name).read_text().splitlines())}
    return by_type["start"], by_type["end"]


def figures(run: tuple[dict[str, Any], dict[str, Any]], classes: Classes) -> Figures:
    """Returns what a run measured."""
    start, end = run
    names = {script["id"]: Path(script["name"]).name for script in start["scripts"]}
    texts = {(script["id"], each["id"]): each["text"] for script in start["scripts"] for each in script["statements"]}
    executions = Counter[str]()
    weighted: dict[str, list[tuple[int, float, float]]] = {}
    for script in end["scripts"]:
        for place, each in enumerate(script["statements"]):
            if not each["executions"]:
                continue
            text = each.get("text") or texts[script["script"], each["id"]]
            of = classes.of(names[script["script"]], place, text)
            executions[of] += each["executions"]
            latency = each["latency_ns"]
            weighted.setdefault(of, []).append((each["executions"], latency["p50"], latency["p99"]))
    return Figures(
        executions,
        {of: _mean(each, 1) for of, each in weighted.items()},
        {of: _mean(each, 2) for of, each in weighted.items()},
    )


def _mean(of: Sequence[tuple[int, float, float]], place: int) -> float:
    return sum(each[0] * each[place] for each in of) / sum(each[0] for each in of)


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
    write_model(folder / "model", model, captured)
    scripts = [f"--file={folder / 'model' / script.name}@{script.weight}" for script in model.scripts]
    arrivals = model.arrivals
    rate = [] if arrivals.rate is None else [f"--rate={arrivals.rate}"]
    # as max_errors of the plan does
    options = ["--continue-on-error", f"--client={arrivals.clients}", f"--protocol={model.protocol}", *rate]
    return capture, model, [*scripts, *options]


def compared(load: Sequence[Figures], model: Sequence[Figures]) -> list[Statement]:
    """Compares rounds of a load with those of its model; the load has one round more."""
    rows = []
    for of in sorted(load[0].executions, key=lambda each: -load[0].executions[each]):
        share = statistics.mean(each.share(of) for each in load)
        if share < LEAST_SHARE:
            continue
        pairs, again = list(zip(load, model, strict=False)), list(pairwise(load))
        rows.append(
            Statement(
                text=of,
                share=share,
                model_share=statistics.mean(each.share(of) for each in model),
                p50=statistics.median(m.p50_ns.get(of, 0) / o.p50_ns[of] for o, m in pairs),
                p99=statistics.median(m.p99_ns.get(of, 0) / o.p99_ns[of] for o, m in pairs),
                noise_p50=statistics.median(b.p50_ns[of] / a.p50_ns[of] for a, b in again),
                noise_p99=statistics.median(b.p99_ns[of] / a.p99_ns[of] for a, b in again),
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=3, help="of load and model in turn")
    parser.add_argument("--only", metavar="TEXT", default="", help="loads whose names contain this")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep captures and models here")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="own-load-") as folder, logging_server() as server:
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
            names = {each.fingerprint: " ".join(each.text.split())[:80] for each in capture.statements}
            rows = [Statement(**{**row, "text": names.get(row["text"], row["text"])}) for row in rows]
            results[name] = {"calls": capture.calls, "scripts": len(model.scripts), "statements": rows}
            _print(name, model, rows)
    RESULT.write_text(json.dumps(results, indent=2) + "\n")


def _print(name: str, model: Model, rows: Sequence[Statement]) -> None:
    rate = "closed loop" if model.arrivals.rate is None else f"{model.arrivals.rate:g}/s"
    scripts, clients = counted(len(model.scripts), "script"), counted(model.arrivals.clients, "client")
    print(f"\n{name}: {scripts}, {clients}, {rate}, {model.protocol}")
    print(f"{'share':>8} {'model':>8} {'p50':>6} {'p99':>6} {'(noise':>7} {'p99)':>6}")
    for row in rows:
        print(
            f"{row['share']:8.2%} {row['model_share']:8.2%} {row['p50']:6.2f} {row['p99']:6.2f} "
            f"{row['noise_p50']:7.2f} {row['noise_p99']:6.2f}  {row['text']}"
        )
    far = max(abs(row["share"] - row["model_share"]) for row in rows)
    p50 = max(abs(row["p50"] - 1) for row in rows)
    p99 = max(abs(row["p99"] - 1) for row in rows)
    print(f"largest difference: share {far:.2%} (goal {SHARE_GOAL:.0%})")
    print(f"latency: p50 {p50:.0%}, p99 {p99:.0%} (goal {LATENCY_GOAL:.0%})")


if __name__ == "__main__":
    main()
