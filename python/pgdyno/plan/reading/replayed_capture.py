"""What a plan takes from the capture that it replays: its clients, its rate, and the length of a trial."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pgdyno.errors import InvalidValueError, Problem
from pgdyno.mounts import is_folder
from pgdyno.plan.plan_document import Document
from pgdyno.plan.values import pace as checked_pace
from pgdyno.units import format_duration, parse_duration_s

if TYPE_CHECKING:
    from pgdyno.records.capture import Capture

LARGEST_BYTES = 32 << 20
"""Of a capture.json: 32,000 classes whose texts have a kilobyte each."""
_PARQUET = b"PAR1"
"""The first and the last bytes of a Parquet file."""
_AGAIN = "write it again with pgdyno capture"
_MAY_READ = "check its permissions"
ITS_OWN = "remove it: it comes from the capture"
TOLERANCE_S = 0.001
"""A duration of the plan that is shorter by less is that of the whole capture."""


def read_captured(path: Path) -> Capture:
    """Reads a capture.json. Raises InvalidValueError with the reason and the remedy."""
    # imported here: few plans replay a capture
    from pgdyno.records.capture import FORMAT, Capture

    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise InvalidValueError(f"there is no {path}", "name a capture that pgdyno capture wrote") from None
    except OSError as error:
        raise InvalidValueError(f"cannot read {path}: {(error.strerror or str(error)).lower()}", _MAY_READ) from error
    if len(content) > LARGEST_BYTES:
        raise InvalidValueError(f"{path} is larger than {LARGEST_BYTES >> 20} MiB", _AGAIN)
    try:
        capture = Capture.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise InvalidValueError(f"{path} is damaged: {at or 'JSON'}: {first['msg'].lower()}", _AGAIN) from error
    if capture.format > FORMAT:
        raise InvalidValueError(
            f"{path} is of format {capture.format}, and this pgdyno reads up to {FORMAT}", "use a newer pgdyno"
        )
    return capture


def read_replayed(folder: Path) -> Capture:
    """Reads the capture in `folder`, whose statements can be replayed. Raises InvalidValueError likewise."""
    from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Source

    if not is_folder(folder):
        raise InvalidValueError(f"there is no folder {folder}", "name the folder that pgdyno capture wrote")
    capture = read_captured(folder / CAPTURE_FILE)
    if capture.source is Source.STATEMENTS:
        message = f"{folder} comes from pg_stat_statements, which has no single statements to replay"
        raise InvalidValueError(message, "make a model of it with pgdyno synthesise, or capture the server's log")
    if not capture.calls or capture.span_us <= 0 or capture.most_sessions < 1:
        raise InvalidValueError(f"{folder} has no statements", "capture for longer")
    statements = folder / STATEMENTS_FILE
    try:
        with statements.open("rb") as file:
            first = file.read(len(_PARQUET))
            file.seek(-len(_PARQUET), 2)
            is_complete = first == file.read() == _PARQUET
    except FileNotFoundError:
        raise InvalidValueError(f"{folder} is incomplete: it has no {STATEMENTS_FILE}", _AGAIN) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidValueError(f"cannot read {statements}: {reason}", _MAY_READ) from error
    if not is_complete:
        raise InvalidValueError(f"{statements} is cut off or not a Parquet file", _AGAIN)
    return capture


def full_length_s(capture: Capture, pace: float | str) -> float | None:
    """Returns how long a replay of all of `capture` takes; None at the pace `max`, where the server decides."""
    return None if isinstance(pace, str) else capture.span_us / 1e6 / pace


def with_capture(document: Document, folder: Path) -> tuple[Document, Sequence[Problem]]:
    """Fills in what `document` leaves to its capture; `workload.replay` is relative to `folder`.

    Also returns what is wrong with the capture, and the keys that differ from it.
    """
    workload = document.at(("workload",))
    path = ("workload", "replay")
    if not isinstance(workload, dict) or not isinstance(workload.get("replay"), str):
        return document, _unreadable(document, folder)
    pace = _pace(workload.get("pace", 1))
    try:
        capture = read_replayed(folder / workload["replay"])
    except InvalidValueError as error:
        # what it would fill in is not missing, too
        return _filled(document, 1, 1.0, None), [document.problem(path, error.message, error.hint)]
    length_s = full_length_s(capture, pace)
    problems = []
    clients, most = document.at(("sweep", "clients")), capture.most_sessions
    if clients not in (None, most, [most]):
        message = f"a replay has as many clients as the capture had sessions at its busiest moment, {most}"
        problems.append(document.problem(("sweep", "clients"), message, ITS_OWN))
    duration_s = _duration_s(document.at(("trial", "duration")))
    if duration_s is not None and length_s is not None and duration_s > length_s + TOLERANCE_S:
        message = f"is longer than the capture at this pace, {format_duration(length_s)}"
        problems.append(document.problem(("trial", "duration"), message, "remove it, or make it shorter"))
    rate = None if length_s is None or not capture.transactions else capture.transactions / length_s
    return _filled(document, most, length_s, rate), problems


def _unreadable(document: Document, folder: Path) -> Sequence[Problem]:
    path = ("workload", "captured")
    named = document.at(path)
    if not isinstance(named, str):
        return []
    try:
        read_captured(folder / named)
    except InvalidValueError as error:
        return [document.problem(path, error.message, error.hint)]
    return []


def _pace(given: object) -> float | str:
    try:
        found = checked_pace(given)
    except InvalidValueError:
        return 1.0  # the schema reports it
    return found if isinstance(found, (float, str)) else 1.0


def _duration_s(given: object) -> float | None:
    try:
        return parse_duration_s(given) if isinstance(given, str) else None
    except InvalidValueError:
        return None  # the schema reports it


def _filled(document: Document, clients: int, length_s: float | None, rate: float | None) -> Document:
    data: dict[str, Any] = copy.deepcopy(dict(document.data))
    sweep, trial = data.setdefault("sweep", {}), data.setdefault("trial", {})
    if isinstance(sweep, dict):
        sweep.setdefault("clients", [clients])
        if rate is not None:
            # the captured times make it an open loop: reports compare latencies, not throughput
            sweep.setdefault("rate", [float(f"{rate:.4g}")])
    is_limited = isinstance(trial, dict) and bool({"duration", "transactions"} & trial.keys())
    if isinstance(trial, dict) and length_s is not None and not is_limited and not data.get("phase"):
        trial["duration"] = f"{max(length_s, TOLERANCE_S):.6f}s"
    return replace(document, data=data)
