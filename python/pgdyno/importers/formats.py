"""The formats that `pgdyno import` reads: one line each."""

from collections.abc import Callable
from typing import NamedTuple

from pgdyno.importers.benchbase import BenchbaseParser
from pgdyno.importers.hammerdb import HammerdbParser
from pgdyno.importers.hammerdb_job_store import is_report, read_report
from pgdyno.importers.parsed import Document, OutputParser
from pgdyno.importers.pgbench import PgbenchParser
from pgdyno.importers.postgresbench import is_results, read_results
from pgdyno.importers.sysbench import SysbenchParser


class FileFormat(NamedTuple):
    """A format of which one file has only results, without text around them."""

    matches: Callable[[str], bool]
    read: Callable[[str], Document]


OUTPUTS: tuple[Callable[[], OutputParser], ...] = (PgbenchParser, SysbenchParser, HammerdbParser, BenchbaseParser)
"""What tools print, wherever it is in a document."""
FILES = (FileFormat(is_report, read_report), FileFormat(is_results, read_results))
"""Tried before a file is read as a table or a document."""
