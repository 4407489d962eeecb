"""`pgdyno target restore`."""

from __future__ import annotations

from pathlib import Path

from pgdyno.experiment.search.settings.attached_server import restore_left
from pgdyno.experiment.search.settings.settings_journal import COPY, journals, read_journal
from pgdyno.store import find_run
from pgdyno.targets import Home, SilentProgress


def restore(run: str | None, runs: Path) -> None:
    """Restores the settings that killed searches left on servers, all or those of `run`. Raises PgdynoError."""
    home = Home.locate()
    found = journals(home) if run is None else [read_journal(find_run(run, runs).path / COPY)]
    for journal in filter(None, found):
        restore_left(journal, home, SilentProgress())
        print(f"target {journal.name}: {', '.join(journal.originals)} restored, which {journal.run} changed")
    if not any(found):
        print("no search has left changed settings")
