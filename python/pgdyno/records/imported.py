"""Where imported trials are from."""

from __future__ import annotations

from pydantic import Field

from pgdyno.records.base import Record


class Printed(Record):
    """A line of a file, and what was read in it."""

    line: int
    text: str


class Imported(Record):
    """Where an imported trial is from (lines count from 1), and its figures as they were printed."""

    file: str
    """Name of the file; the manifest has its path and its hash."""
    line: int
    last_line: int
    tool: str
    """pgbench, pgbench-log, sysbench, hammerdb, benchbase, csv or table."""
    version: str | None = None
    command: str | None = None
    """The command line above the output; the version, too, is the tool's."""
    figures: dict[str, float] = Field(default_factory=dict)
    """Every figure in the unit of its name: `tps`, `latency_mean_ms`, `latency_p95_ms`; see the guide."""
    printed: dict[str, Printed] = Field(default_factory=dict)
    """By the same names: where each stood."""
    words: dict[str, str] = Field(default_factory=dict)
    """Heading, host and other words that tell it from its neighbours."""


class ImportedFile(Record):
    """A file that was imported."""

    path: str
    sha256: str
    trials: int


class ImportedLine(Record):
    """A line of a file, as it stands there."""

    file: str
    line: int
    text: str


class ImportedClaim(ImportedLine):
    """An equation that a file prints: `€ 0.17 ((€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS)`."""

    printed: float
    decimals: int
    """Digits behind the point of what is printed."""
    computed: float
    """What its own inputs give."""


class ImportRecord(Record):
    """What an imported run was made of."""

    files: list[ImportedFile]
    claims: list[ImportedClaim] = Field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = Field(default_factory=dict)  # by what they tell: `autovacuum`, `tmpfs`
    unread: list[ImportedLine] = Field(default_factory=list)
    left_out: list[ImportedLine] = Field(default_factory=list)
    """Outputs that are no trials, as their source says that they are warm-up runs."""
