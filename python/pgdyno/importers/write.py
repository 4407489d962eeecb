"""Files of other tools into an ordinary run folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.importers.document import Document, read_document
from pgdyno.importers.fold import Place, Trial, slug, throughput, trials_of
from pgdyno.importers.found import Output
from pgdyno.importers.hammerdb_jobs import SQLITE, is_report, read_job_store, read_report
from pgdyno.importers.naming import name_targets
from pgdyno.importers.pgbench_log import LogKind, by_run, log_kind, read_log
from pgdyno.importers.tabular import is_table, read_table
from pgdyno.records import (
    Imported,
    ImportedClaim,
    ImportedFile,
    ImportedLine,
    ImportRecord,
    Manifest,
    Outcome,
    Point,
    TargetRecord,
    TrialRecord,
)
from pgdyno.store import RunFolder

LARGEST_DOCUMENT = 256 << 20
"""Bytes; logs are read in pieces, documents as a whole."""


@dataclass(slots=True)
class ImportResult:
    """A run that was imported."""

    run: Path
    trials: int
    unread: list[ImportedLine] = field(default_factory=list)


@dataclass(slots=True)
class _Gathered:
    """What files hold, before anything is written."""

    files: list[ImportedFile] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    claims: list[ImportedClaim] = field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = field(default_factory=dict)
    unread: list[ImportedLine] = field(default_factory=list)
    logs: list[tuple[list[Path], LogKind]] = field(default_factory=list)


def import_files(
    paths: Sequence[Path], into: Path, *, target: str | None = None, mapping: Mapping[str, str] | None = None
) -> ImportResult:
    """Reads every output in `paths` and writes them as one run folder in `into`.

    `target` names what was measured where headings would; `mapping` is for CSV tables, from their words to ours.
    Raises StoreError when a file cannot be read or holds nothing, UsageError for a mapping that does not fit.
    """
    gathered = _Gathered()
    logs: dict[Path, LogKind] = {}
    for path in paths:
        kind = _readable(path)
        if kind is not None:
            logs[path] = kind
        else:
            _document(gathered, path, target, mapping or {})
    gathered.logs = [(group, logs[group[0]]) for group in by_run(list(logs))]
    if not gathered.places and not gathered.logs:
        names = ", ".join(str(path) for path in paths)
        raise StoreError(
            f"cannot import {names}: no output of a known tool is in it",
            hint=f"{len(gathered.unread)} lines with figures were not understood; see docs/guides/import.md",
        )
    return _write(gathered, into, target)


def _readable(path: Path) -> LogKind | None:
    try:
        return log_kind(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def _document(gathered: _Gathered, path: Path, target: str | None, mapping: Mapping[str, str]) -> None:
    if path.stat().st_size > LARGEST_DOCUMENT:
        raise StoreError(
            f"cannot import {path}: it is larger than {LARGEST_DOCUMENT >> 20} MiB and no log of pgbench's"
        )
    content = path.read_bytes()
    document = _read(path, content, mapping)
    kept = list(_with_throughput(document, path.name, gathered))
    names = name_targets(kept, path.stem, target)
    gathered.places += [Place(output, path.name, name) for output, name in zip(kept, names, strict=True)]
    gathered.files.append(
        ImportedFile(path=str(path.absolute()), sha256=hashlib.sha256(content).hexdigest(), trials=len(kept))
    )
    for claim in document.claims:
        fields = {name: getattr(claim, name) for name in ("line", "text", "printed", "decimals", "computed")}
        gathered.claims.append(ImportedClaim(file=path.name, **fields))
    for fact in document.facts:
        line = ImportedLine(file=path.name, line=fact.line, text=fact.text)
        gathered.facts.setdefault(fact.name, []).append(line)
    gathered.unread += [ImportedLine(file=path.name, line=each.line, text=each.text) for each in document.unread]


def _read(path: Path, content: bytes, mapping: Mapping[str, str]) -> Document:
    """By what it is: HammerDB's job store or report, a table, or a document with outputs in it."""
    if content.startswith(SQLITE):
        return read_job_store(path)
    text = content.decode("utf-8-sig", "replace")
    if is_report(text):
        return read_report(text)
    return read_table(text, mapping) if is_table(text.split("\n", 1)[0], mapping) else read_document(text)


def _with_throughput(document: Document, file: str, gathered: _Gathered) -> Iterator[Output]:
    for output in document.outputs:
        if throughput(output) is not None:
            yield output
        else:
            text = "; ".join(dict.fromkeys(text for _, text in output.printed.values()))
            gathered.unread.append(ImportedLine(file=file, line=output.line, text=f"no transactions: {text}"))


def _write(gathered: _Gathered, into: Path, target: str | None) -> ImportResult:
    trials = trials_of(gathered.places)
    for paths, kind in gathered.logs:
        trials.append(_log_trial(len(trials) + 1, paths, kind, target))
        size = sum(path.stat().st_size for path in paths)
        # hashing what is read once, and may be as large as a disk, would take longer than reading it
        gathered.files.append(ImportedFile(path=str(paths[0].absolute()), sha256=f"not taken: {size} bytes", trials=1))
    folder = RunFolder.create(into, _manifest(gathered, trials))
    for trial in trials:
        writer = folder.begin_trial(trial.record.slug)
        try:
            writer.commit_tables(trial.record, trial.tables, durable=False)
        except BaseException:
            writer.abandon()
            raise
    # hundreds of small files: once for all of them is many times faster than one by one
    os.sync()
    folder.update_manifest(outcome=Outcome.FINISHED, ended_at=datetime.now(UTC))
    return ImportResult(folder.path, len(trials), gathered.unread)


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


def _manifest(gathered: _Gathered, trials: Sequence[Trial]) -> Manifest:
    records = [trial.record for trial in trials]
    workloads = dict.fromkeys(
        record.imported.words["workload"]
        for record in records
        if record.imported and "workload" in record.imported.words
    )
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(gathered.files[0].path).stem).strip("_")[:40] or "document"
    return Manifest(
        run="",
        pgdyno=__version__,
        pgdrive=None,
        started_at=datetime.now(UTC),
        plan_source="imported",
        plan={"name": f"import-{stem}"},
        workload=", ".join(workloads) or "workload not told",
        host=None,
        targets=[
            TargetRecord(name=name, kind="imported", asked={})
            for name in dict.fromkeys(record.target for record in records)
        ],
        trials_planned=len(records),
        order=[record.slug for record in records],
        notes=_notes(gathered),
        imported=ImportRecord(
            files=gathered.files, claims=gathered.claims, facts=gathered.facts, unread=gathered.unread
        ),
    )


def _notes(gathered: _Gathered) -> list[str]:
    notes = []
    minutes = [place.output for place in gathered.places if place.output.tps is None]
    if minutes:
        unit = "tpm" if any(output.tpm is not None for output in minutes) else "nopm"
        notes.append(f"throughput of {len(minutes)} trials was printed as {unit}, and is shown divided by 60")
    if gathered.unread:
        notes.append(f"{len(gathered.unread)} lines with figures were not understood; manifest.json lists them")
    return notes
