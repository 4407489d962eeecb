"""Checks TPC-C's consistency conditions after a trial with the engine."""

from __future__ import annotations

import tempfile
import time
from typing import Literal

from pgdyno.errors import TargetError
from pgdyno.prepare.consistency import wait_for_quiet
from pgdyno.prepare.mark import Dataset
from pgdyno.programs import Engine
from pgdyno.records import Consistency
from pgdyno.run.process import running_engine
from pgdyno.run.vigil import Vigil
from pgdyno.targets import Server
from pgdyno.targets.silence import HINT, SilentServerError

NAME = "tpcc"
"""The name in the dataset stamp."""
BROKEN = 3
"""The engine's exit code for a violated condition."""
REQUIRED = "the standard's consistency conditions 1 to 4, and the rows of warehouse and district"
ALL = "all 12 of the standard's consistency conditions, and the rows of tables of a fixed size"


def check_tpcc(
    dataset: Dataset, server: Server, engine: Engine, asked: Literal["auto", "full", "counts", "none"]
) -> Consistency:
    """Checks the conditions in `dataset`: all 12 for `full`, else 1 to 4.

    Raises TargetError if the check fails to run, psycopg.Error.
    """
    started = time.monotonic()
    wait_for_quiet(server)
    is_full = asked == "full"
    options = ["--tpcc-check", f"--warehouses={dataset.scale}", f"--tpcc-profile={dataset.profile}", "--events=-"]
    options += ["--thorough"] if is_full else []
    vigil = Vigil(server.quiet_at_work)
    with tempfile.TemporaryFile() as errors:
        with vigil.over(running_engine)(engine, options, server.environment(), errors, None) as (process, stream):
            events = list(stream)
            process.wait()
        if vigil.reason is not None:
            raise SilentServerError(f"cannot check TPC-C's consistency conditions: {vigil.reason}", hint=HINT)
        if process.returncode not in (0, BROKEN):
            errors.seek(0)
            said = events[-1].get("message") if events else errors.read().decode(errors="replace").strip()
            raise TargetError(f"cannot check TPC-C's consistency conditions: {said}")
    conditions = [event for event in events if event["event"] == "condition"]
    return Consistency(
        scope="full" if is_full else "counts",
        rule=ALL if is_full else REQUIRED,
        seconds=round(time.monotonic() - started, 6),
        counts={},
        violations=[
            f"condition {each['number']} ({each['text']}) is violated in {each['violations']} places: "
            f"{each['examples']}"
            for each in conditions
            if each["violations"]
        ],
    )
