"""The report of a run in the terminal, which the run keeps: `pgdyno show` prints it without computing it again."""

from pgdyno.console import Console
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout, write_summary
from pgdyno.store import RunData


def keep_summary(data: RunData, of: Digest, extras: Extras) -> None:
    """Keep what `show` prints in the run folder: in this terminal, and to a file or a pipe. Raises StoreError."""
    layouts = {Layout(), Layout.for_console(Console())}
    write_summary(data.folder.path, {each: all_lines(of, each, extras) for each in layouts})
