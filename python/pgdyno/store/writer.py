"""Writes one trial into a run folder atomically."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.records import PlacedLines, TrialRecord
from pgdyno.store.ingest import Event, TrialTables, ingest
from pgdyno.store.parquet import write_tables
from pgdyno.store.probed import write_probed
from pgdyno.store.storing import storing, sync, sync_tree, write_durably
from pgdyno.store.tables import SettingRow

RECORD = "trial.json"


def partial_path(run: Path, slug: str) -> Path:
    """Return the folder in which the trial `slug` is gathered."""
    return run / f".{slug}.partial"


class TrialWriter:
    """Gathers a trial in `.<slug>.partial` next to `trials/`; `commit` renames it.

    The partial folder is not below `trials/`, because patterns such as `*/trials/*/intervals.parquet` would match it
    even with a dot.
    """

    def __init__(self, run: Path, slug: str) -> None:
        """Create the partial folder in the run folder `run`. Raises StoreError if the trial exists."""
        self.slug = slug
        self.final = run / "trials" / slug
        self.partial = partial_path(run, slug)
        self.log = self.partial / "log"
        """Folder of logs, which are written directly."""
        self.phases = self.partial / "phases.toml"
        """Phases in the engine's format, if the plan has some."""
        self.probe_lines = self.partial / "probe.jsonl"
        """The probe's output; other probes add a suffix. The completed trial has it in tables."""
        with storing("make the folder", self.partial):
            if self.final.exists():
                raise StoreError(f"cannot store trial {slug}: {self.final} exists already")
            self.partial.mkdir()
            self.log.mkdir()

    def commit(
        self,
        record: TrialRecord,
        *,
        events: Iterable[Event],
        settings: Sequence[tuple[str, str | None, str | None, str | None]],
        probed: Sequence[PlacedLines] = (),
    ) -> Path:
        """Write everything, flush it to disk and rename it; return the final folder.

        `events` are the engine's, parsed; `settings` are name, setting, unit and source of pg_settings; `probed` are
        the probes' files whose samples can be placed in time. Raises StoreError; the trial is then still partial.
        """
        said = list(events)
        rows = ingest(record.number, said)
        with storing("write", self.partial):
            self.keep_events("events", said)
            if probed:
                write_probed(self.partial, record.number, probed)
            for lines in self.partial.glob(f"{self.probe_lines.name}*"):
                lines.unlink()
        rows_of_settings = [SettingRow(record.number, *setting) for setting in settings]
        return self.commit_tables(record, rows, rows_of_settings, probed=bool(probed))

    def commit_tables(
        self,
        record: TrialRecord,
        rows: TrialTables,
        settings: Sequence[SettingRow] = (),
        *,
        durable: bool = True,
        probed: bool = False,
    ) -> Path:
        """Like `commit`, for existing rows, such as imported ones. Raises StoreError.

        With `durable` false, the caller flushes many trials together. `probed`: the probe's tables are already written.
        """
        with storing("write", self.partial):
            tables = {name: getattr(rows, name) for name in ("intervals", "histograms", "statements", "events")}
            tables["settings"] = settings
            if not probed:
                tables |= {"series": [], "waits": [], "server_statements": []}
            write_tables(self.partial, tables)
            content = (record.model_dump_json(indent=2) + "\n").encode()
            if durable:
                _write(self.partial / RECORD, content)
                sync_tree(self.partial)
            else:
                (self.partial / RECORD).write_bytes(content)
            if self.final.exists():
                raise StoreError(f"cannot store trial {self.slug}: {self.final} exists already")
            self.partial.rename(self.final)
            if durable:
                sync(self.final.parent)
                sync(self.partial.parent)
        return self.final

    def abandon(self) -> None:
        """Remove the partial folder; a committed trial stays."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def keep_events(self, name: str, events: Iterable[Event]) -> None:
        """Write `events` of an engine unchanged into `log/<name>.jsonl.gz`. Raises StoreError."""
        text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        # without a timestamp, the same events give the same file
        content = gzip.compress(text.encode(), compresslevel=5, mtime=0)
        _write(self.log / f"{name}.jsonl.gz", content)


def _write(path: Path, content: bytes) -> None:
    with storing("write", path):
        write_durably(path, content)
