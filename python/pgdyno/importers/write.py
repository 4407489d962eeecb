"""Writes the content of other tools' files into an ordinary run folder."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.importers.hammerdb import unused_item_of
from pgdyno.importers.imported_trials import PER_MINUTE, Trial, prefer_new_orders, tell_apart, trials_of, unit_of
from pgdyno.importers.pgbench_logs.read_log import LogKind, logs_by_run
from pgdyno.importers.sources import Logs, Part, full_place, read_logs, read_source
from pgdyno.messages import Message
from pgdyno.records import ImportRecord, KeptMessage, Manifest, Outcome, TargetRecord, TrialRecord, UnusedLine
from pgdyno.records.manifest import WORKLOAD_UNKNOWN
from pgdyno.store import RunFolder
from pgdyno.store.object_storage.address import is_remote
from pgdyno.units import quantity

Over = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Runs the same work on many items, and yields the results in order."""


@dataclass(slots=True)
class ImportResult:
    run: Path
    trials: int
    unread: list[UnusedLine] = field(default_factory=list)
    left_out: list[UnusedLine] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)


def import_files(
    places: Sequence[str | Path],
    into: Path,
    *,
    target: str | None = None,
    mapping: Mapping[str, str] | None = None,
    over: Over = map,
) -> ImportResult:
    """Read every output in `places`, paths and addresses, and write them as one run folder in `into`.

    `target` replaces the names from headings; `mapping` is for CSV tables, from their names to pgdyno's. `over` may
    distribute files over processes. Raises StoreError if a file cannot be read or has no results, UsageError for an
    invalid mapping.
    """
    named, copies = _leave_copies_out([str(place) for place in places])
    gathered, parts = Part(), []
    logs: dict[str, LogKind] = {}
    read: dict[str, str] = {}
    for place, found in zip(named, over(partial(read_source, target, mapping or {}), named), strict=True):
        if isinstance(found, LogKind):
            logs[place] = found
        elif (original := read.setdefault(found.files[0].sha256, place)) != place:
            copies.append((place, original))
        else:
            parts.append(found)
    if target is None:
        keep_files_apart(parts)
    for part in parts:
        gathered.add(part)
    if not gathered.outputs and not logs:
        hint = "docs/guides/import.md lists the formats that pgdyno reads"
        if gathered.unread:
            first = gathered.unread[0]
            lines = quantity(len(gathered.unread), "line")
            hint = f"{lines} with figures not understood, first {first.file}:{first.line}: {first.text[:120]}; {hint}"
        if gathered.left_out:
            hint = f"{quantity(len(gathered.left_out), 'warm-up run')} left out; {hint}"
        raise StoreError(f"cannot import {', '.join(named)}: no output of a known tool is in it", hint=hint)
    _refuse_other_work(gathered)
    prefer_new_orders(gathered.outputs)
    return _write(gathered, logs, _notes(gathered, copies), into, target, over)


def _leave_copies_out(places: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    firsts: dict[str, str] = {}
    copies = []
    for place in places:
        same = place if is_remote(place) else os.path.realpath(place)
        if same in firsts:
            copies.append((place, firsts[same]))
        else:
            firsts[same] = place
    return list(firsts.values()), copies


def _refuse_other_work(gathered: Part) -> None:
    """Refuse results of releases of HammerDB between which the server's work differs: a run compares its targets."""
    outputs = {item: output for output in gathered.outputs if (item := unused_item_of(output)) is not None}
    if len(outputs) < 2:
        return
    commits, rolls_back = (
        f"HammerDB {output.version} ({output.file}:{output.line})"
        for output in (outputs["commits"], outputs["rolls back"])
    )
    raise StoreError(
        f"cannot import these into one run: with an order that contains an unused item, {commits} commits and "
        f"{rolls_back} rolls back",
        hint="import them separately; docs/guides/tpcc.md lists the releases of HammerDB that do the same work",
    )


def keep_files_apart(parts: Sequence[Part]) -> None:
    """Add the file to names of targets that several files have, because they may be different servers.

    A CSV column that names the target is kept unchanged.
    """
    files: dict[str, set[Path]] = {}
    for part in parts:
        for output in part.outputs:
            if not output.has_target_column:
                files.setdefault(output.trial_target, set()).add(Path(part.files[0].path))
    names = {}
    for target, alike in files.items():
        # the shortest distinct ends of their paths; with suffixes only if names are equal without them
        without = {file: file.with_suffix("") for file in alike}
        shown = without if len(set(without.values())) == len(alike) else {file: file for file in alike}
        ends = _distinct_ends(list(shown.values()))
        names[target] = {file: ends[path] for file, path in shown.items()} if len(alike) > 1 else {}
    for part in parts:
        path = Path(part.files[0].path)
        for output in part.outputs:
            if not output.has_target_column and (name := names[output.trial_target].get(path)):
                output.trial_target = name if output.trial_target == path.stem else f"{name}, {output.trial_target}"


def _logs_by_run(logs: Mapping[str, LogKind], first: int) -> list[Logs]:
    # in path form, folders and names compare alike for addresses
    of = {Path(place): place for place in logs}
    groups = logs_by_run(list(of))
    ends = _distinct_ends([group[0] for group in groups])
    return [
        Logs(number, [of[path] for path in group], logs[of[group[0]]], ends[group[0]])
        for number, group in enumerate(groups, first)
    ]


def _distinct_ends(paths: Sequence[Path]) -> dict[Path, str]:
    common = Counter(path.parts[-length:] for path in paths for length in range(1, len(path.parts)))
    return {
        path: next(
            ("/".join(end) for length in range(1, len(path.parts)) if common[end := path.parts[-length:]] == 1),
            str(path),
        )
        for path in paths
    }


def _write(
    gathered: Part, logs: Mapping[str, LogKind], notes: list[Message], into: Path, target: str | None, over: Over
) -> ImportResult:
    trials = trials_of(gathered.outputs)
    paths = [each.path for each in gathered.files] or [full_place(place) for place in logs]
    folder = RunFolder.create(into, _manifest(gathered, notes, [trial.record for trial in trials], paths[0]))
    try:
        for trial in trials:
            _store(folder, trial)
        records = [trial.record for trial in trials]
        of_logs: list[TrialRecord] = []
        for trial, file in over(partial(read_logs, target), _logs_by_run(logs, len(trials) + 1)):
            # they may have many seconds: each is written immediately
            _store(folder, trial)
            of_logs.append(trial.record)
            gathered.files.append(file)
        for record, distinct in zip(of_logs, tell_apart(of_logs, records), strict=True):
            if distinct != record:
                folder.replace_record(distinct)
            records.append(distinct)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    # with hundreds of small files, one flush for all is many times faster than one per file
    os.sync()
    told = _manifest(gathered, notes, records, paths[0])
    known = {name: getattr(told, name) for name in ("workload", "targets", "trials_planned", "order", "imported")}
    folder.update_manifest(**known, outcome=Outcome.FINISHED, ended_at=datetime.now(UTC))
    return ImportResult(folder.path, len(records), gathered.unread, gathered.left_out, notes)


def _store(folder: RunFolder, trial: Trial) -> None:
    writer = folder.begin_trial(trial.record.slug)
    try:
        writer.commit_tables(trial.record, trial.tables)
    except BaseException:
        writer.abandon()
        raise


def _manifest(gathered: Part, notes: Sequence[Message], records: Sequence[TrialRecord], first: str) -> Manifest:
    words = [record.imported.words for record in records if record.imported]
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(first).stem).strip("_")[:40] or "document"
    return Manifest(
        run="",
        pgdyno=__version__,
        pgdrive=None,
        started_at=datetime.now(UTC),
        plan_source="imported",
        plan={"name": f"import-{stem}"},
        workload=", ".join(dict.fromkeys(each["workload"] for each in words if "workload" in each)) or WORKLOAD_UNKNOWN,
        host=None,
        targets=[
            TargetRecord(name=name, kind="imported", asked={})
            for name in dict.fromkeys(each.target for each in records)
        ],
        trials_planned=len(records),
        order=[record.slug for record in records],
        notes=[str(note) for note in notes],
        note_details=[KeptMessage.from_message(note) for note in notes],
        imported=ImportRecord(
            **{name: getattr(gathered, name) for name in ("files", "claims", "facts", "unread", "left_out")}
        ),
    )


OF_LISTS = ("lines-unread", "outputs-left-out")
"""Ids of the notes on `ImportResult.unread` and `left_out`, which say nothing more than these lists."""


MOST_COPIES = 5
"""The largest number of copies that a note names."""


def _notes(gathered: Part, copies: Sequence[tuple[str, str]]) -> list[Message]:
    units = [unit_of(output) for output in gathered.outputs]
    minutes = [unit for unit in units if unit in PER_MINUTE]
    unknown = [output for output in gathered.outputs if output.clients is None]
    named = [f"{copy} ({original})" for copy, original in copies[:MOST_COPIES]] + ["…"] * (len(copies) > MOST_COPIES)
    notes = [
        Message(
            "copies-left-out",
            "{count} file is a copy of another and was left out: {files}",
            "{count} files are copies of others and were left out: {files}",
            count=len(copies),
            files=", ".join(named),
        ),
        Message(
            "rate-of-queries",
            "throughput of {count} trial is queries per second, which pgdyno does not compare with transactions",
            "throughput of {count} trials is queries per second, which pgdyno does not compare with transactions",
            count=units.count("qps"),
        ),
        Message(
            "clients-unknown",
            "{count} trial does not state its clients, first {file}:{line}",
            "{count} trials do not state their clients, first {file}:{line}",
            count=len(unknown),
            file=unknown[0].file if unknown else "",
            line=unknown[0].line if unknown else 0,
        ),
        Message(
            "rate-per-minute",
            "throughput of {count} trial was printed as {unit}, and is shown divided by 60",
            "throughput of {count} trials was printed as {unit}, and is shown divided by 60",
            count=len(minutes),
            unit=", ".join(sorted(set(minutes), reverse=True)),
        ),
        Message(
            "repeats-undecided-by-text",
            "text separates {count} output from another with the same settings, so pgdyno made it a target of its own; "
            "if they are repeats, import them with --target NAME",
            "text separates {count} outputs from others with the same settings, so pgdyno made them targets of their "
            "own; if they are repeats, import them with --target NAME",
            count=gathered.undecided,
        ),
        Message(
            "unit-assumed",
            "{count} figure had no unit, and is taken as transactions a second",
            "{count} figures had no unit, and are taken as transactions a second",
            count=gathered.assumed,
        ),
        Message(
            "outputs-left-out",
            "{count} output left out, as a warm-up run or a repetition of another; manifest.json lists it",
            "{count} outputs left out, as warm-up runs or repetitions of others; manifest.json lists them",
            count=len(gathered.left_out),
        ),
        Message(
            "lines-unread",
            "{count} line with figures was not understood; manifest.json lists it",
            "{count} lines with figures were not understood; manifest.json lists them",
            count=len(gathered.unread),
        ),
    ]
    return [note for note in notes if note.parameters["count"]]
