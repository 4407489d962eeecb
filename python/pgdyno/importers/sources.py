"""Reads one file, or the logs of one run of pgbench, local or remote."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.importers.csv_tables import FieldError, is_table, read_table
from pgdyno.importers.documents.published_rows import ASSUMED
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.documents.repeats import repeated_rows
from pgdyno.importers.documents.target_names import name_targets
from pgdyno.importers.formats import FILES
from pgdyno.importers.hammerdb_job_store import SQLITE, read_job_store
from pgdyno.importers.imported_trials import Trial, slug, throughput
from pgdyno.importers.parsed import FIGURES, LARGEST_NUMBER, Document, Output, unused_line
from pgdyno.importers.pgbench_logs.read_log import LINE_BYTES, LogKind, log_kind, read_log
from pgdyno.importers.warm_up import mark_short_first
from pgdyno.messages import Message
from pgdyno.records import Imported, ImportedClaim, ImportedFile, ImportedLine, Outcome, Point, TrialRecord, UnusedLine
from pgdyno.store.object_storage.address import is_remote
from pgdyno.store.object_storage.local_copy import at_hand, check_regular, first_line, size_bytes
from pgdyno.store.safe_files import store_errors

LARGEST_DOCUMENT = 64 << 20
"""Bytes; logs and HammerDB's job stores are read in pieces, documents as a whole."""
LARGEST_STORE = 16 << 30
"""Bytes of a job store of HammerDB, of which only some tables are read."""


@dataclass(slots=True)
class Part:
    files: list[ImportedFile] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    claims: list[ImportedClaim] = field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = field(default_factory=dict)
    unread: list[UnusedLine] = field(default_factory=list)
    left_out: list[UnusedLine] = field(default_factory=list)
    undecided: int = 0
    """Outputs with the settings of another, separated by text that may name another server."""
    assumed: int = 0
    """Figures whose unit was not printed."""

    def add(self, other: Part) -> None:
        for name in ("files", "outputs", "claims", "unread", "left_out", "undecided", "assumed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for fact, lines in other.facts.items():
            self.facts.setdefault(fact, []).extend(lines)


def read_source(target: str | None, mapping: Mapping[str, str], place: str) -> Part | LogKind:
    """Return the content of the document at `place`; for a log, its kind. Raises StoreError and UsageError."""
    check_regular(place)
    beginning = first_line(place, LINE_BYTES)
    kind = log_kind(beginning)
    if kind is not None:
        return kind
    is_store = beginning.startswith(SQLITE)
    largest = LARGEST_STORE if is_store else LARGEST_DOCUMENT
    if size_bytes(place) > largest:
        raise StoreError(
            f"cannot import {place}: it is larger than {largest >> 20:,} MiB and not a pgbench log",
            hint="split it, or cut out the outputs",
        )
    with at_hand(place) as path:
        return _part(place, path, is_store, target, mapping)


def _part(place: str, path: Path, is_store: bool, target: str | None, mapping: Mapping[str, str]) -> Part:
    if is_store:
        document = read_job_store(path)
        with store_errors("read", path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    else:
        with store_errors("read", path), path.open("rb") as file:
            content = file.read(LARGEST_DOCUMENT + 1)
        if len(content) > LARGEST_DOCUMENT:
            raise StoreError(f"cannot import {place}: it grew beyond {LARGEST_DOCUMENT >> 20} MiB while it was read")
        document, digest = _read(place, content, mapping), hashlib.sha256(content).hexdigest()
    part = Part()
    kept = list(_without_left_out(list(_with_throughput(document, path.name, part)), path.name, part))
    part.left_out.sort(key=lambda each: each.line)
    for output in kept:
        output.file = path.name
    part.outputs, part.undecided = kept, name_targets(kept, path.stem, target)
    part.assumed = sum(output.words.get("unit") == ASSUMED for output in kept)
    part.files = [ImportedFile(path=full_place(place), sha256=digest, trials=len(kept))]
    in_file = {"file": path.name}
    part.claims = [claim.model_copy(update=in_file) for claim in document.claims]
    part.facts = {topic: [line.model_copy(update=in_file) for line in lines] for topic, lines in document.facts.items()}
    part.unread += [line.model_copy(update=in_file) for line in document.unread]
    return part


def _without_left_out(outputs: Sequence[Output], file: str, part: Part) -> Iterator[Output]:
    originals = {id(row): original for row, original in repeated_rows(outputs)}
    mark_short_first([output for output in outputs if id(output) not in originals])
    for output in outputs:
        original = originals.get(id(output))
        if original is not None:
            what = Message(
                "output-repeated", "repeats the output in line {line}, and is not counted again", line=original.line
            )
        elif output.warmup is not None:
            what = Message(
                "warm-up", "warm-up run ({why}): {tps:,.1f} tps", why=output.warmup[:60], tps=throughput(output) or 0.0
            )
        else:
            yield output
            continue
        part.left_out.append(unused_line(output.line, what, file))


def full_place(place: str) -> str:
    return place if is_remote(place) else str(Path(place).absolute())


def _read(place: str, content: bytes, mapping: Mapping[str, str]) -> Document:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # Windows' PowerShell
        text = content.decode("utf-16", "replace")
    elif b"\0" in content[:8192]:
        raise StoreError(f"cannot import {place}: it is not text", hint="save it as text, Markdown or CSV")
    else:
        text = content.decode("utf-8-sig", "replace")
    for each in FILES:
        if each.matches(text):
            return each.read(text)
    if not is_table(text.split("\n", 1)[0], mapping):
        return read_document(text)
    try:
        return read_table(text, mapping)
    except FieldError as error:
        raise StoreError(
            f"cannot import {place}: {error}", hint="a quote that is never closed makes such a field"
        ) from error


def _with_throughput(document: Document, file: str, part: Part) -> Iterator[Output]:
    for output in document.outputs:
        output.clients = output.clients or None
        why = _impossible_figure(output)
        if why is not None:
            part.unread.append(unused_line(output.line, why, file))
        elif throughput(output) is not None or output.aborted is not None:
            yield output
        else:
            printed = "; ".join(dict.fromkeys(text for _, text in output.printed.values()))
            what = Message("output-without-throughput", "no transactions: {printed}", printed=printed)
            part.unread.append(unused_line(output.line, what, file))


def _impossible_figure(output: Output) -> Message | None:
    figures = [value for name in FIGURES if (value := getattr(output, name)) is not None]
    figures += output.percentiles_ms.values()
    printed = "; ".join(dict.fromkeys(text[:100] for _, text in output.printed.values()))
    if any(each > LARGEST_NUMBER for each in figures):
        return Message("figure-too-large", "no result: a figure is too large: {printed}", printed=printed)
    # not a number, too, which JSON may contain
    if not all(each >= 0 for each in figures):
        return Message(
            "figure-negative", "no result: a figure is negative, or not a number: {printed}", printed=printed
        )
    return None


@dataclass(frozen=True, slots=True)
class Logs:
    number: int
    """The number of the resulting trial."""
    places: Sequence[str]
    kind: LogKind
    name: str
    """Name of the first, with as much of its folder as distinguishes it from the others."""


def read_logs(target: str | None, logs: Logs) -> tuple[Trial, ImportedFile]:
    """Return the trial of `logs`, and the first of them. Raises StoreError."""
    with ExitStack() as stack:
        paths = [stack.enter_context(at_hand(place)) for place in logs.places]
        trial = _log_trial(logs, paths, target or logs.name)
        size = sum(path.stat().st_size for path in paths)
    # hashing a file that is read once, and may be very large, would take longer than reading it
    return trial, ImportedFile(path=full_place(logs.places[0]), sha256=f"not taken: {size} bytes", trials=1)


def _log_trial(logs: Logs, paths: Sequence[Path], name: str) -> Trial:
    log = read_log(paths, logs.number, logs.kind)
    imported = Imported(
        file=paths[0].name,
        line=1,
        last_line=log.lines,
        tool="pgbench-log",
        figures={} if log.lag_ms is None else {"schedule_lag_ms": log.lag_ms},
        load={} if log.is_open is None else {"loop": "open" if log.is_open else "closed"},
    )
    record = TrialRecord(
        number=logs.number,
        slug=slug(logs.number, name, log.clients),
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
        imported=imported,
    )
    return Trial(record, log.tables)
