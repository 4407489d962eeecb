"""Files of other tools into an ordinary run folder."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.importers.fold import Trial, trials_of
from pgdyno.importers.pgbench_log import LogKind, by_run
from pgdyno.importers.sources import Logs, Part, read_logs, read_source, whole
from pgdyno.records import ImportedLine, ImportRecord, Manifest, Outcome, TargetRecord, TrialRecord
from pgdyno.store import RunFolder

Over = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""How the same work is done on many things: what it gives of each, in their order."""


@dataclass(slots=True)
class ImportResult:
    """A run that was imported."""

    run: Path
    trials: int
    unread: list[ImportedLine] = field(default_factory=list)


def import_files(
    places: Sequence[str | Path],
    into: Path,
    *,
    target: str | None = None,
    mapping: Mapping[str, str] | None = None,
    over: Over = map,
) -> ImportResult:
    """Reads every output in `places`, paths and addresses, and writes them as one run folder in `into`.

    `target` names what was measured where headings would; `mapping` is for CSV tables, from their words to ours.
    Files are read `over` other processes, if need be. Raises StoreError when a file cannot be read or holds nothing,
    UsageError for a mapping that does not fit.
    """
    named = [str(place) for place in places]
    gathered = Part()
    logs: dict[str, LogKind] = {}
    for place, found in zip(named, over(partial(read_source, target, mapping or {}), named), strict=True):
        if isinstance(found, LogKind):
            logs[place] = found
        else:
            gathered.add(found)
    if not gathered.places and not logs:
        hint = "docs/guides/import.md says what is read"
        if gathered.unread:
            hint = f"{len(gathered.unread)} lines with figures were not understood; {hint}"
        raise StoreError(f"cannot import {', '.join(named)}: no output of a known tool is in it", hint=hint)
    return _write(gathered, logs, into, target, over)


def _by_run(logs: Mapping[str, LogKind], first: int) -> list[Logs]:
    """Those of one pgbench together, numbered from `first`."""
    # as paths their folders and names are alike where those of addresses are
    of = {Path(place): place for place in logs}
    groups = by_run(list(of))
    return [
        Logs(number, [of[path] for path in group], logs[of[group[0]]]) for number, group in enumerate(groups, first)
    ]


def _write(gathered: Part, logs: Mapping[str, LogKind], into: Path, target: str | None, over: Over) -> ImportResult:
    trials = trials_of(gathered.places)
    paths = [each.path for each in gathered.files] or [whole(place) for place in logs]
    folder = RunFolder.create(into, _manifest(gathered, [trial.record for trial in trials], paths[0]))
    try:
        for trial in trials:
            _store(folder, trial)
        records = [trial.record for trial in trials]
        for trial, file in over(partial(read_logs, target), _by_run(logs, len(trials) + 1)):
            # their seconds may be many: each is written as it comes
            _store(folder, trial)
            records.append(trial.record)
            gathered.files.append(file)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    # hundreds of small files: once for all of them is many times faster than one by one
    os.sync()
    told = _manifest(gathered, records, paths[0])
    known = {name: getattr(told, name) for name in ("workload", "targets", "trials_planned", "order", "imported")}
    folder.update_manifest(**known, outcome=Outcome.FINISHED, ended_at=datetime.now(UTC))
    return ImportResult(folder.path, len(records), gathered.unread)


def _store(folder: RunFolder, trial: Trial) -> None:
    writer = folder.begin_trial(trial.record.slug)
    try:
        writer.commit_tables(trial.record, trial.tables, durable=False)
    except BaseException:
        writer.abandon()
        raise


def _manifest(gathered: Part, records: Sequence[TrialRecord], first: str) -> Manifest:
    workloads = dict.fromkeys(
        record.imported.words["workload"]
        for record in records
        if record.imported and "workload" in record.imported.words
    )
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(first).stem).strip("_")[:40] or "document"
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


def _notes(gathered: Part) -> list[str]:
    notes = []
    minutes = [place.output for place in gathered.places if place.output.tps is None]
    if minutes:
        unit = "tpm" if any(output.tpm is not None for output in minutes) else "nopm"
        notes.append(f"throughput of {len(minutes)} trials was printed as {unit}, and is shown divided by 60")
    if gathered.unread:
        notes.append(f"{len(gathered.unread)} lines with figures were not understood; manifest.json lists them")
    return notes
