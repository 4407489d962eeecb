"""Converts the lines of a probe on the database's host to the generator's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgdyno.probe.clock_offset import HERE, Ahead, Alignment, align
from pgdyno.probe.lines import (
    WARNINGS_KEPT,
    ProbeOutput,
    cannot_read,
    epoch_us,
    gap,
    gaps,
    last_us,
    own_lines,
    warnings,
)
from pgdyno.records import ALIGNED_US, ClockRecord, OverSshRecord, PlacedLines, ProbeRecord
from pgdyno.run.process import Event

if TYPE_CHECKING:
    from pgdyno.probe.over_ssh import OverSsh, Session

OWN_SOURCE = "probe_over_ssh"
"""The name of the remote probe's own figures; the local probe's are `probe`."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One probe's lines, from its start to its end or interruption."""

    session: Session
    own: list[Event]
    alignment: Alignment
    file: PlacedLines
    end_us: int
    """The engine's time of its last line."""
    events: list[Event]


def with_far(near: ProbeOutput | None, over: OverSsh, events: Sequence[Event], ahead: Ahead = HERE) -> ProbeOutput:
    """Add to `near`, from the engine's host, the lines of `over` during a trial with the engine's `events`.

    `ahead` is the clock offset of the engine's host.
    """
    parts, problem = _parts(over, events, ahead)
    said: list[Event] = []
    for place, part in enumerate(parts):
        before = over.sessions[: over.sessions.index(part.session)]
        if place == 0 and before:
            # the earlier ones wrote nothing that can be converted
            said.append(gap(part.events[0]["t_us"], before[0].ended or "the connection was lost"))
        elif place:
            cause = parts[place - 1].session.ended
            said.append(gap(part.events[0]["t_us"], f"{over.spec.host}: {cause or 'the connection was cut'}"))
        said += part.events
    if parts and parts[-1].session.ended is not None:
        said.append(gap(parts[-1].end_us, f"{over.spec.host}: {parts[-1].session.ended}"))
    base = near.record if near is not None else ProbeRecord()
    record = base.model_copy(
        update={
            "host": base.host or bool(parts),
            "gaps": base.gaps + gaps(said),
            "warnings": [*base.warnings, *warnings(said)][:WARNINGS_KEPT],
            "over_ssh": _record(over, parts, problem),
        }
    )
    if near is None:
        return ProbeOutput(record, [part.file for part in parts], said)
    return ProbeOutput(record, [*near.files, *(part.file for part in parts)], [*near.events, *said])


def _parts(over: OverSsh, events: Sequence[Event], ahead: Ahead) -> tuple[list[_Part], str | None]:
    parts: list[_Part] = []
    problem = None
    for session in over.sessions:
        own = own_lines(session.lines)
        unreadable = cannot_read(own[0]) if own else None
        problem = problem or unreadable
        last = last_us(session.lines) if own else 0
        alignment = align(session.rounds, last)
        if own and unreadable is None and alignment is not None:
            parts.append(_part(session, own, alignment, last, events, ahead))
    return parts, problem


def _part(
    session: Session, own: list[Event], alignment: Alignment, last: int, events: Sequence[Event], ahead: Ahead
) -> _Part:
    # by the local clock, whatever the engine's clock is
    epoch = round(epoch_us(events, round(alignment.local_us(own[0]["t_us"]) + ahead.us)) - ahead.us)
    alignment = replace(alignment, uncertainty_us=alignment.uncertainty_us + ahead.uncertainty_us)
    placed = [
        {
            **line,
            "event": f"probe_{line['event']}",
            "t_us": round(alignment.local_us(line["t_us"])) - epoch,
            "wall_us": round(alignment.local_us(line["t_us"])),
        }
        for line in own
    ]
    file = PlacedLines(session.lines, alignment.origin_us - epoch, alignment.rate, epoch, OWN_SOURCE)
    return _Part(session, own, alignment, file, round(alignment.local_us(last)) - epoch, placed)


def _record(over: OverSsh, parts: Sequence[_Part], problem: str | None) -> OverSshRecord:
    ends = [part.own[-1] for part in parts if part.own[-1]["event"] == "end"]
    whole = bool(parts) and len(ends) == len(over.sessions)
    return OverSshRecord(
        host=over.spec.host,
        version=parts[0].own[0]["pgprobe"] if parts else None,
        connections=len(over.sessions),
        cpu_us=sum(end["cpu_us"] for end in ends) if whole else None,
        late=sum(end["late"] for end in ends) if whole else None,
        clock=_clock(parts) if parts else None,
        message=problem or over.problem,
    )


def _clock(parts: Sequence[_Part]) -> ClockRecord:
    # of several connections, the longest shows the drift best, and the worst determines the trust
    best = max(parts, key=lambda part: len(part.session.rounds)).alignment
    worst_us = max(part.alignment.uncertainty_us for part in parts)
    return ClockRecord(
        offset_us=round(parts[0].alignment.ahead_us),
        uncertainty_us=-int(-worst_us // 1),
        drift_ppm=_round_ppm(best.drift_ppm),
        drift_uncertainty_ppm=_round_ppm(best.drift_uncertainty_ppm),
        round_trip_us=round(min(part.alignment.round_trip_us for part in parts)),
        rounds=sum(len(part.session.rounds) for part in parts),
        aligned=worst_us <= ALIGNED_US,
    )


def _round_ppm(ppm: float | None) -> float | None:
    return None if ppm is None else round(ppm, 3)
