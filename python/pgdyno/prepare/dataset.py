"""Loads a dataset with the engine, which writes the dataset stamp."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import IO

from pgdyno.errors import TargetError
from pgdyno.prepare.mark import Dataset, marked_dataset
from pgdyno.programs import Engine
from pgdyno.run.process import running_engine
from pgdyno.run.stream import Event
from pgdyno.run.vigil import Vigil
from pgdyno.targets import Progress, Server
from pgdyno.targets.silence import HINT, SilentServerError


def load_dataset(dataset: Dataset, server: Server, engine: Engine, progress: Progress, *, anew: bool = False) -> bool:
    """Loads `dataset` unless the database's stamp names exactly that. Returns whether it was loaded.

    `anew` forces loading.

    Raises TargetError if the engine could not load it; the database then has no stamp.
    """
    if not anew and marked_dataset(server) == dataset:
        return False
    progress.step(f"loading {dataset}")
    # the engine chooses the number of connections, from the cores and tables
    options = ["--initialize", *_size(dataset), "--quiet", "--events=-"]
    _run_engine(engine, options, server, progress, f"load {dataset}")
    found = marked_dataset(server)
    if found != dataset:
        raise TargetError(
            f"cannot load {dataset}: the engine wrote the dataset stamp of {found}",
            hint="use pgdrive and pgdyno of the same release",
        )
    return True


def _size(dataset: Dataset) -> list[str]:
    if dataset.profile is not None:
        return [f"--dataset={dataset.name}", f"--warehouses={dataset.scale}", f"--tpcc-profile={dataset.profile}"]
    if dataset.tables is None:
        return [f"--scale={dataset.scale}"]
    return [f"--dataset={dataset.name}", f"--tables={dataset.tables}", f"--table-size={dataset.scale}"]


def _run_engine(engine: Engine, options: list[str], server: Server, progress: Progress, doing: str) -> None:
    vigil = Vigil(server.quiet_at_work)
    with tempfile.TemporaryFile() as errors:
        with vigil.over(running_engine)(engine, options, server.environment(), errors, None) as (process, events):
            end = _follow(events, progress)
            process.wait()
        if vigil.reason is not None:
            raise SilentServerError(f"cannot {doing}: {vigil.reason}", hint=HINT)
        if process.returncode != 0:
            raise TargetError(f"cannot {doing}: {_reason(end, errors)}", hint=(end or {}).get("hint"))


def _follow(events: Iterable[Event], progress: Progress) -> Event | None:
    end = None
    for event in events:
        if event["event"] == "load" and "rows_total" in event:
            # events for each table, and one for all of them, without a table
            if event["table"] is None:
                left_s = event["remaining_us"] / 1e6
                progress.rows(event["rows"], event["rows_total"], event["rows_per_s"], left_s)
        elif event["event"] == "load" and "rows_total" not in event and "generate" not in event["step"]:
            progress.step(f"loading: {event['step']}")
        elif event["event"] == "end":
            end = event
    return end


def _reason(end: Event | None, errors: IO[bytes]) -> str:
    if end is not None and end.get("message"):
        return str(end["message"])
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the engine printed no message"
