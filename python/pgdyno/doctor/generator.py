"""Measures the generator's ceiling: pgdrive against pgnull, which answers immediately."""

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdyno.doctor.check import good, grade_value, note, unknown, warning
from pgdyno.doctor.needs import Needs
from pgdyno.errors import EngineError
from pgdyno.messages import Message
from pgdyno.programs import Engine
from pgdyno.records import Check
from pgdyno.run.process import Event, running_engine

PROGRAM = "pgnull"
ENVIRONMENT = "PGDYNO_PGNULL"
READY = "pgnull: ready on "
READY_S, FAR_READY_S = 10.0, 60.0
"""Time limits for a local server, and on another host, to which it may have to be copied."""
LONGEST_FOLDER = 90
"""The longest folder path that leaves space for a socket's name in sun_path of Linux (108 bytes)."""
RATE_NOTE, RATE_WARNING = 0.5, 0.8
"""Shares of the ceiling for the rate of an open loop."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The measured throughput of a generator."""

    tps: float
    p50_us: float
    clients: int
    workers: int
    threads: int
    """Threads of pgnull; 0 with a real server."""


def measure_ceiling(engine: Engine, needs: Needs, cores: int, seconds: float) -> Ceiling:
    """Measures the plan's clients with its protocol and, if they are built in, its scripts. Raises EngineError."""
    workers = min(needs.workers or max(cores // 2, 1), needs.clients)
    threads = min(max(cores - workers, 1), needs.clients)
    scripts = needs.scripts or ("-b", "select-only")
    with null_server(engine, threads, tcp=needs.tcp) as environment:
        options = [f"--client={needs.clients}", f"--jobs={workers}", f"--protocol={needs.protocol}", *scripts]
        end = drive(engine, options, environment, seconds)
    return Ceiling(end["tps"], p50_us(end), needs.clients, workers, threads)


def plain_ceiling(engine: Engine, cores: int, protocol: str, clients: int, seconds: float) -> float:
    """Return the transactions per second of `engine` on a host with this number of cores. Raises EngineError."""
    workers = min(max(cores // 2, 1), clients)
    with null_server(engine, max(cores - workers, 1), tcp=bool(engine.through)) as environment:
        options = [f"--client={clients}", f"--jobs={workers}", f"--protocol={protocol}", "-b", "select-only"]
        return float(drive(engine, options, environment, seconds)["tps"])


def drive(engine: Engine, options: Sequence[str], environment: Mapping[str, str], seconds: float) -> Event:
    """Return the last event of an engine that ran for `seconds`. Raises EngineError if it fails."""
    always = ["--events=-", "--parent-lease", "--no-vacuum", f"--time={seconds:g}"]
    with tempfile.TemporaryFile() as errors:
        with running_engine(engine, [*always, *options], environment, errors) as (process, stream):
            events = list(stream)
            process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    end = events[-1] if events and events[-1]["event"] == "end" else None
    if end is None or end["outcome"] != "finished" or not end["succeeded"]:
        raise EngineError(f"the engine failed: {said[-1] if said else 'it printed no message'}")
    return end


def p50_us(end: Event) -> float:
    return float(end["latency_ns"]["p50"]) / 1e3


@contextmanager
def null_server(engine: Engine, threads: int, *, tcp: bool) -> Iterator[dict[str, str]]:
    """Start pgnull and yield libpq's variables for it. Raises EngineError."""
    program = _find_null(engine)
    with tempfile.TemporaryDirectory(prefix="pgdyno-null-") as folder:
        over_tcp = tcp or len(os.fsencode(folder)) > LONGEST_FOLDER
        where = ["--listen=127.0.0.1", "--port=0"] if over_tcp else [f"--socket-dir={folder}", "--port=5432"]
        process = subprocess.Popen(
            [*engine.through, str(program), *where, f"--threads={threads}", "--parent-lease"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield _environment(_wait_until_ready(process, FAR_READY_S if engine.through else READY_S), folder)
        finally:
            process.kill()
            process.communicate()


def _wait_until_ready(process: subprocess.Popen[bytes], within_s: float) -> str:
    assert process.stdout is not None
    came, _, _ = select.select([process.stdout], [], [], within_s)
    line = process.stdout.readline().decode(errors="replace").strip() if came else ""
    if not line.startswith(READY):
        raise EngineError(f"{PROGRAM} does not start: {line or 'it printed no message'}")
    return line.removeprefix(READY)


def _environment(address: str, folder: str) -> dict[str, str]:
    host, _, port = (folder, "", "5432") if address.startswith("/") else address.rpartition(":")
    # the user's own connection variables apply to another server
    return {"PGHOST": host, "PGPORT": port, "PGUSER": "pgdyno", "PGDATABASE": "pgdyno", "PGSSLMODE": "disable"}


def _find_null(engine: Engine) -> Path:
    neighbour = engine.path.with_name(PROGRAM)
    found = os.environ.get(ENVIRONMENT) or (str(neighbour) if neighbour.is_file() else shutil.which(PROGRAM))
    if found is None:
        raise EngineError(f"{PROGRAM} is not installed", hint=f"reinstall pgdyno, or set {ENVIRONMENT} to its path")
    return Path(found)


def ceiling(needs: Needs, reached: Ceiling) -> Check:
    """`generator.ceiling`: the measured throughput, compared with the plan's rate."""
    name = "generator.ceiling"
    found = Message(
        "ceiling",
        "{tps} transactions per second ({scripts}; {protocol}) with {clients} on {workers}, next to {threads} of pgnull"
        if needs.scripts
        else "{tps} transactions per second (select-only, instead of the plan's files; {protocol}) with {clients} on "
        "{workers}, next to {threads} of pgnull",
        tps=format_rounded(reached.tps),
        scripts=" ".join(needs.scripts[1::2]),
        protocol=needs.protocol,
        clients=client_count(reached.clients),
        workers=Message("worker-count", "{count} worker", "{count} workers", count=reached.workers),
        threads=Message("thread-count", "{count} thread", "{count} threads", count=reached.threads),
    )
    measured = {"tps": round(reached.tps, 1), "workers": reached.workers, "threads": reached.threads}
    change = "use more workers, or more machines as generators"
    if needs.rate_per_s is not None:
        found = Message(
            "ceiling-and-rate",
            "{ceiling}; the plan asks for {rate}",
            ceiling=found,
            rate=format_rounded(needs.rate_per_s),
        )
        means = Message("starts-late", "near its limit, the generator starts transactions late, which adds to latency")
        limits = [(RATE_NOTE, note), (RATE_WARNING, warning)]
        return grade_value(name, needs.rate_per_s / max(reached.tps, 1), limits, found, means, change, measured)
    means = Message(
        "generator-measured",
        "a trial near {near} measures the generator as much as the server",
        near=format_rounded(0.7 * reached.tps),
    )
    return good(name, found, measured, means)


def client_count(count: int) -> Message:
    """Return `8 clients`."""
    return Message("client-count", "{count} client", "{count} clients", count=count)


def not_measured(name: str, error: Exception) -> Check:
    """Return a check that could not be measured, with the reason."""
    why = error.message if isinstance(error, EngineError) else str(error)
    hint = error.hint or "" if isinstance(error, EngineError) else ""
    return unknown(name, Message("not-measured", "not measured: {why}", why=why), change=hint)


def format_rounded(number: float) -> str:
    """Format `number` with three significant digits."""
    return f"{float(f'{number:.3g}'):,.0f}"
