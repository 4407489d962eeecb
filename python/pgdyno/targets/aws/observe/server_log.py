"""The log of a database instance, as RDS serves it: the lines of a period, and its checkpoints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.rented.rental import SECOND_US, Span

MOST_BYTES = 64 << 20
"""The most bytes of log that pgdyno stores for one trial."""
MOST_READ_BYTES = 512 << 20
"""The most bytes to read of one file, which begins with its hour and not with the trial."""
_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?:UTC|GMT)\b[^\[]*\[(?P<pid>\d+)\]:?\s*"
    r"(?P<severity>[A-Z0-9]+):\s+(?P<message>.*)"
)
"""The format of a line: RDS's log_line_prefix is `%t:%r:%u@%d:[%p]:`, in UTC."""
_STARTING = re.compile(r"(?P<kind>checkpoint|restartpoint) starting:(?P<reason>.*)")
_COMPLETE = re.compile(
    r"(?P<kind>checkpoint|restartpoint) complete: wrote (?P<buffers>\d+) buffers \([\d.]+%\)"
    r"(?:, wrote (?P<slru_buffers>\d+) SLRU buffers)?;"
    r" (?P<wal_added>\d+) (?:WAL|transaction log) file\(s\) added, (?P<wal_removed>\d+) removed,"
    r" (?P<wal_recycled>\d+) recycled;"
    r" write=(?P<write_ms>[\d.]+) s, sync=(?P<sync_ms>[\d.]+) s, total=(?P<total_ms>[\d.]+) s;"
    r" sync files=(?P<sync_files>\d+), longest=(?P<longest_sync_ms>[\d.]+) s, average=(?P<average_sync_ms>[\d.]+) s"
    r"(?:; distance=(?P<distance_bytes>\d+) kB, estimate=(?P<estimate_bytes>\d+) kB)?"
    r"(?:; lsn=(?P<lsn>[0-9A-F/]+), redo lsn=(?P<redo_lsn>[0-9A-F/]+))?"
)


@dataclass(slots=True)
class LogPart:
    """The log of a period."""

    lines: list[str] = field(default_factory=list)
    checkpoints: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Times in µs since 1970 by the server's clock, exact to a second, with the fields of the probe's `checkpoint`."""
    cut: bool = False
    """Whether there was more log than pgdyno stores or reads."""


def log_part(cloud: Cloud, instance: str, span: Span) -> LogPart:
    """Return the log of `instance` during the whole seconds that `span` touches. Raises AwsError."""
    seconds = span.widen_to_periods(1)
    part = LogPart()
    inside, size = False, 0
    for line in _lines(cloud, instance, seconds, part):
        t_us = line_us(line)
        # A line without a timestamp continues the line before it.
        inside = inside if t_us is None else seconds.from_us <= t_us < seconds.to_us
        if not inside:
            continue
        size += len(line) + 1
        if size > MOST_BYTES:
            part.cut = True
            break
        part.lines.append(line)
        if t_us is not None and (found := checkpoint_of(line)) is not None:
            part.checkpoints.append((t_us, found))
    return part


def _lines(cloud: Cloud, instance: str, span: Span, part: LogPart) -> Iterator[str]:
    asked = {
        "DBInstanceIdentifier": instance,
        "FilenameContains": "postgresql",
        "FileLastWritten": span.from_us // 1000,
    }
    files = list(cloud.list_elements("rds", "describe_db_log_files", "DescribeDBLogFiles", **asked))
    for file in sorted(files, key=lambda each: (each["LastWritten"], each["LogFileName"])):
        begun = ""
        for portion in _portions(cloud, instance, file["LogFileName"], part):
            *lines, begun = (begun + portion).split("\n")
            yield from lines
        if begun:
            yield begun


def _portions(cloud: Cloud, instance: str, file: str, part: LogPart) -> Iterator[str]:
    # Without a marker, RDS returns the end of the file.
    marker, size = "0", 0
    while True:
        asked = {"DBInstanceIdentifier": instance, "LogFileName": file, "Marker": marker}
        answer = cloud.call("rds", "download_db_log_file_portion", **asked)
        portion = answer.get("LogFileData") or ""
        yield portion
        size += len(portion)
        if not answer.get("AdditionalDataPending") or answer.get("Marker", marker) == marker:
            return
        if size > MOST_READ_BYTES:
            part.cut = True
            return
        marker = answer["Marker"]


def line_us(line: str) -> int | None:
    """Return the time of `line` in microseconds since 1970; None if it continues the line before it."""
    match = _LINE.match(line)
    if match is None:
        return None
    form = "%Y-%m-%d %H:%M:%S.%f" if "." in match["at"] else "%Y-%m-%d %H:%M:%S"
    return round(datetime.strptime(match["at"], form).replace(tzinfo=UTC).timestamp() * SECOND_US)


def checkpoint_of(line: str) -> dict[str, Any] | None:
    """Return the fields of `checkpoint` (docs/reference/probe.md) if the line reports one, else None."""
    match = _LINE.match(line)
    said = match["message"] if match is not None else ""
    if (starting := _STARTING.match(said)) is not None:
        return {"kind": starting["kind"], "phase": "started", "reason": starting["reason"].strip()}
    if (complete := _COMPLETE.match(said)) is None:
        return None
    found = {name: value for name, value in complete.groupdict().items() if value is not None}
    return {"phase": "completed", **{name: _parse_value(name, value) for name, value in found.items()}}


def _parse_value(name: str, value: str) -> str | int | float:
    if name.endswith("_ms"):
        return round(1000 * float(value), 3)
    if name.endswith("_bytes"):
        return 1024 * int(value)
    return int(value) if value.isdigit() and not name.endswith("lsn") else value
