"""What pgprobe wrote: what is kept with the trial besides its samples. docs/reference/probe.md describes the lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.records import ProbeRecord
from pgdyno.run.stream import Event

VERSION = 1
"""Newest version of the lines that this code reads."""
_SAMPLES = (b'{"event":"sample"', b'{"event":"waits"')
_WARNINGS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Said:
    """A probe's lines."""

    record: ProbeRecord
    offset_us: int | None
    """From its times to the engine's; None when its samples cannot be placed or read."""
    events: list[Event] = field(default_factory=list)
    """All but its samples, in the engine's times, kinds with `probe_` in front."""


def read_lines(lines: Path, events: Sequence[Event], problem: str | None) -> Said | None:
    """What the file `lines` holds beside a trial whose engine said `events`.

    `problem` is what went wrong with the probe as a process. None when there was no probe and no problem.
    """
    own = _own(lines) if lines.exists() else []
    if not own:
        return Said(ProbeRecord(message=problem), None) if problem else None
    start = own[0]
    if start["event"] != "start" or start.get("v", 0) > VERSION:
        message = f"the probe writes lines of version {start.get('v')}, and this pgdyno reads up to {VERSION}"
        return Said(ProbeRecord(message=message), None)
    epoch_us = next((event["epoch_us"] for event in events if event["event"] == "start"), start["wall_us"])
    offset_us = start["wall_us"] - start["t_us"] - epoch_us
    ended = own[-1] if own[-1]["event"] == "end" else None
    said = [{**line, "event": f"probe_{line['event']}", "t_us": line["t_us"] + offset_us} for line in own]
    if ended is None and problem:
        said.append({"event": "probe_gap", "t_us": _last_us(lines) + offset_us, "source": "probe", "message": problem})
    record = ProbeRecord(
        version=start["pgprobe"],
        waits_hz=start["waits_hz"],
        host=start["host"],
        server=start["server"],
        cpu_us=ended["cpu_us"] if ended else None,
        late=ended["late"] if ended else None,
        gaps=sum(each["event"] == "probe_gap" for each in said),
        warnings=_warnings(said),
        message=problem,
    )
    return Said(record, offset_us, said)


def _own(lines: Path) -> list[Event]:
    """All but samples; a line that was cut is left out."""
    with lines.open("rb") as file:
        parsed = (_parsed(line) for line in file if not line.startswith(_SAMPLES))
        return [line for line in parsed if line is not None]


def _last_us(lines: Path) -> int:
    last = 0
    with lines.open("rb") as file:
        for line in file:
            parsed = _parsed(line)
            last = last if parsed is None else int(parsed["t_us"])
    return last


def _parsed(line: bytes) -> Event | None:
    """None when it was cut, or is none of the probe's."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    is_line = isinstance(parsed, dict) and isinstance(parsed.get("event"), str) and isinstance(parsed.get("t_us"), int)
    return parsed if is_line else None


def _warnings(said: Sequence[Event]) -> list[str]:
    texts = [f"{each['source']}: {each['message']}" for each in said if each["event"] == "probe_warning"]
    return texts[:_WARNINGS_KEPT]
