"""Reads pgprobe's lines (docs/reference/probe.md) other than samples, which are stored with the trial."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.records import PlacedLines, ProbeRecord
from pgdyno.run.process import Event

VERSION = 1
"""The newest version of the lines that this code reads."""
_SAMPLES = (b'{"event":"sample"', b'{"event":"waits"', b'{"event":"statements"')
"""Prefixes of lines that become separate tables."""
WARNINGS_KEPT = 20


@dataclass(frozen=True, slots=True)
class ProbeOutput:
    record: ProbeRecord
    files: list[PlacedLines] = field(default_factory=list)
    """Files whose samples can be read and converted."""
    events: list[Event] = field(default_factory=list)
    """All lines but samples, in the engine's times, with `probe_` before their kinds."""


def read_lines(lines: Path, events: Sequence[Event], problem: str | None) -> ProbeOutput | None:
    """Read the file `lines` of a trial with the engine's `events`.

    `problem` is the failure of the probe's process. Returns None without a probe and a problem.
    """
    own = own_lines(lines)
    if not own:
        return ProbeOutput(ProbeRecord(message=problem)) if problem else None
    start = own[0]
    unreadable = cannot_read(start)
    if unreadable is not None:
        return ProbeOutput(ProbeRecord(message=unreadable))
    offset_us = start["wall_us"] - start["t_us"] - epoch_us(events, start["wall_us"])
    ended = own[-1] if own[-1]["event"] == "end" else None
    said = [{**line, "event": f"probe_{line['event']}", "t_us": line["t_us"] + offset_us} for line in own]
    if ended is None and problem:
        said.append(gap(last_us(lines) + offset_us, problem))
    record = ProbeRecord(
        version=start["pgprobe"],
        waits_hz=start["waits_hz"],
        host=start["host"],
        server=start["server"],
        cpu_us=ended["cpu_us"] if ended else None,
        late=ended["late"] if ended else None,
        gaps=gaps(said),
        warnings=warnings(said),
        message=problem,
    )
    return ProbeOutput(record, [PlacedLines(lines, offset_us)], said)


def epoch_us(events: Sequence[Event], otherwise: int) -> int:
    """Return the engine's start since 1970; `otherwise` if it never began."""
    return next((event["epoch_us"] for event in events if event["event"] == "start"), otherwise)


def cannot_read(start: Event) -> str | None:
    """Return why this code cannot read lines that begin with `start`, or None."""
    if start["event"] == "start" and start.get("v", 0) <= VERSION:
        return None
    return f"the probe writes lines of version {start.get('v')}, and this pgdyno reads up to {VERSION}"


def gap(t_us: int, message: str) -> Event:
    """Mark a gap before this time."""
    return {"event": "probe_gap", "t_us": t_us, "source": "probe", "message": message}


def gaps(said: Sequence[Event]) -> int:
    return sum(each["event"] == "probe_gap" for each in said)


def warnings(said: Sequence[Event]) -> list[str]:
    """The first warnings, as source and message."""
    texts = [f"{each['source']}: {each['message']}" for each in said if each["event"] == "probe_warning"]
    return texts[:WARNINGS_KEPT]


def own_lines(lines: Path) -> list[Event]:
    """Yield all complete lines but samples; none if the file is missing."""
    if not lines.exists():
        return []
    with lines.open("rb") as file:
        found = (parse_line(line) for line in file if not line.startswith(_SAMPLES))
        return [line for line in found if line is not None]


def last_us(lines: Path) -> int:
    last = 0
    with lines.open("rb") as file:
        for line in file:
            found = parse_line(line)
            last = last if found is None else int(found["t_us"])
    return last


def parse_line(line: bytes) -> Event | None:
    """Parse a line; None if it is truncated or invalid."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_line = isinstance(found, dict) and isinstance(found.get("event"), str) and isinstance(found.get("t_us"), int)
    return found if is_line else None
