"""What `pgdyno show` says below a run's points: what limited its trials."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pgdyno.report.limits import limit_lines
from pgdyno.store import find_run, load_run
from pgdyno.store.limits import seen_beside


def show_limits(run: str, runs: Path) -> None:
    """Prints what the probe saw beside each trial. Raises StoreError and UsageError."""
    console = Console(highlight=False)
    for at, line in enumerate(limit_lines(seen_beside(load_run(find_run(run, runs))))):
        console.print(line if at else f"\n{line}", markup=False, soft_wrap=True)
