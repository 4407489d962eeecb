"""The report of a run in the terminal, which the run keeps: `pgdyno show` prints it without computing it again."""

from __future__ import annotations

from pgdyno.console import Console
from pgdyno.report.answers.limits import limit_lines
from pgdyno.report.report_content import Digest, Extras, median_trial
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout, write_summary
from pgdyno.store import RunData
from pgdyno.store.probe_queries import probe_averages


def keep_summary(data: RunData, of: Digest, extras: Extras) -> None:
    """Keeps what `show` prints in the run folder: in this terminal, and to a file or a pipe. Raises StoreError."""
    layouts, limits = {Layout(), Layout.of(Console())}, probed_limits(data, of)
    write_summary(data.folder.path, {each: all_lines(of, each, extras, limits) for each in layouts})


def probed_limits(data: RunData, of: Digest) -> list[str]:
    """Returns what limited the median trial of each point, as lines."""
    trials = {median_trial(of, point).number for point in of.points if point.finished}
    return limit_lines(probe_averages(data, trials), of)
