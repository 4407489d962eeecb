"""What one file, or the logs of one run of pgbench, hold: read by themselves, wherever they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.importers.document import Document, read_document
from pgdyno.importers.fold import Place, Trial, slug, throughput
from pgdyno.importers.found import Output
from pgdyno.importers.hammerdb_jobs import SQLITE, is_report, read_job_store, read_report
from pgdyno.importers.naming import name_targets
from pgdyno.importers.pgbench_log import LINE_BYTES, LogKind, log_kind, read_log
from pgdyno.importers.tabular import is_table, read_table
from pgdyno.records import (
    Imported,
    ImportedClaim,
    ImportedFile,
    ImportedLine,
    Outcome,
    Point,
    TrialRecord,
)
from pgdyno.store.remote.address import is_remote
from pgdyno.store.remote.at_hand import at_hand, first_line, size_bytes

LARGEST_DOCUMENT = 256 << 20
"""Bytes; logs are read in pieces, documents as a whole."""


@dataclass(slots=True)
class Part:
    """What one document holds, or several."""

    files: list[ImportedFile] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    claims: list[ImportedClaim] = field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = field(default_factory=dict)
    unread: list[ImportedLine] = field(default_factory=list)

    def add(self, other: Part) -> None:
        """Also has what `other` has, behind its own."""
        self.files += other.files
        self.places += other.places
        self.claims += other.claims
        self.unread += other.unread
        for name, lines in other.facts.items():
            self.facts.setdefault(name, []).extend(lines)


def read_source(target: str | None, mapping: Mapping[str, str], place: str) -> Part | LogKind:
    """What the document at `place` holds; of a log, what it is. Raises StoreError and UsageError."""
    kind = log_kind(first_line(place, LINE_BYTES))
    if kind is not None:
        return kind
    if size_bytes(place) > LARGEST_DOCUMENT:
        raise StoreError(
            f"cannot import {place}: it is larger than {LARGEST_DOCUMENT >> 20} MiB and no log of pgbench's"
        )
    with at_hand(place) as path:
        return _part(place, path, target, mapping)


def _part(place: str, path: Path, target: str | None, mapping: Mapping[str, str]) -> Part:
    content = path.read_bytes()
    document = _read(path, content, mapping)
    part = Part()
    kept = list(_with_throughput(document, path.name, part))
    names = name_targets(kept, path.stem, target)
    part.places = [Place(output, path.name, name) for output, name in zip(kept, names, strict=True)]
    part.files = [ImportedFile(path=whole(place), sha256=hashlib.sha256(content).hexdigest(), trials=len(kept))]
    for claim in document.claims:
        fields = {name: getattr(claim, name) for name in ("line", "text", "printed", "decimals", "computed")}
        part.claims.append(ImportedClaim(file=path.name, **fields))
    for fact in document.facts:
        line = ImportedLine(file=path.name, line=fact.line, text=fact.text)
        part.facts.setdefault(fact.name, []).append(line)
    part.unread += [ImportedLine(file=path.name, line=each.line, text=each.text) for each in document.unread]
    return part


def whole(place: str) -> str:
    """An address, or a path that means the same everywhere."""
    return place if is_remote(place) else str(Path(place).absolute())


def _read(path: Path, content: bytes, mapping: Mapping[str, str]) -> Document:
    """By what it is: HammerDB's job store or report, a table, or a document with outputs in it."""
    if content.startswith(SQLITE):
        return read_job_store(path)
    text = content.decode("utf-8-sig", "replace")
    if is_report(text):
        return read_report(text)
    return read_table(text, mapping) if is_table(text.split("\n", 1)[0], mapping) else read_document(text)


def _with_throughput(document: Document, file: str, part: Part) -> Iterator[Output]:
    for output in document.outputs:
        if throughput(output) is not None:
            yield output
        else:
            text = "; ".join(dict.fromkeys(text for _, text in output.printed.values()))
            part.unread.append(ImportedLine(file=file, line=output.line, text=f"no transactions: {text}"))


@dataclass(frozen=True, slots=True)
class Logs:
    """Logs of the threads of one pgbench."""

    number: int
    """Of the trial that they become."""
    places: Sequence[str]
    kind: LogKind


def read_logs(target: str | None, logs: Logs) -> tuple[Trial, ImportedFile]:
    """The trial that `logs` tell of, and the first of them. Raises StoreError."""
    with ExitStack() as stack:
        paths = [stack.enter_context(at_hand(place)) for place in logs.places]
        trial = _log_trial(logs.number, paths, logs.kind, target)
        size = sum(path.stat().st_size for path in paths)
    # hashing what is read once, and may be as large as a disk, would take longer than reading it
    return trial, ImportedFile(path=whole(logs.places[0]), sha256=f"not taken: {size} bytes", trials=1)


def _log_trial(number: int, paths: Sequence[Path], kind: LogKind, target: str | None) -> Trial:
    log = read_log(paths, number, kind)
    name = target or paths[0].name
    record = TrialRecord(
        number=number,
        slug=slug(number, name, log.clients),
        target=name,
        point=Point(clients=log.clients, workers=len(paths), protocol=""),
        repeat=1,
        started_at=log.started_at,
        ended_at=log.ended_at,
        warmup_s=0,
        duration_s=log.summary.measured_s,
        transactions=None,
        outcome=Outcome.FINISHED,
        summary=log.summary,
        imported=Imported(file=paths[0].name, line=1, last_line=log.lines, tool="pgbench-log"),
    )
    return Trial(record, log.tables)
