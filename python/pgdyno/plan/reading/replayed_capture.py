"""Reads captures that plans replay, or compare their load with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from pgdyno.errors import InvalidValueError
from pgdyno.mounts import is_folder

if TYPE_CHECKING:
    from pgdyno.records.capture import Capture

LARGEST_BYTES = 32 << 20
"""Of a capture.json: 32,000 classes whose texts have a kilobyte each."""
_PARQUET = b"PAR1"
"""The first and the last bytes of a Parquet file."""
_AGAIN = "write it again with pgdyno capture"
_MAY_READ = "check its permissions"
TOLERANCE_S = 0.001
"""A duration of the plan that is shorter by less is that of the whole capture."""


def read_captured(path: Path) -> Capture:
    """Read a capture.json. Raises InvalidValueError with the reason and the remedy."""
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
    """Read the capture in `folder`, whose statements can be replayed. Raises InvalidValueError likewise."""
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
    """Return how long a replay of all of `capture` takes; None at the pace `max`, where the server decides."""
    return None if isinstance(pace, str) else capture.span_us / 1e6 / pace
