"""Origin of imported trials."""

from pgdyno.messages import Parameter
from pgdyno.records.base import Record
from pgdyno.records.tpcc_profile import UnusedItem


class Printed(Record):
    """A line of a file, and the text that was read in it."""

    line: int
    text: str


class Imported(Record):
    """The origin of an imported trial (lines count from 1), and its figures as printed."""

    file: str
    """Name of the file; the manifest has its path and its hash."""
    line: int
    last_line: int
    tool: str
    """pgbench, pgbench-log, sysbench, hammerdb, benchbase, csv or table."""
    version: str | None = None
    unused_item: UnusedItem | None = None
    """What HammerDB's release did with an order that contains an unused item; None if unknown, and for other tools."""
    command: str | None = None
    """The command line above the output, and the tool's version."""
    figures: dict[str, float] = {}
    """Every figure in the unit of its name: `tps`, `latency_mean_ms`, `latency_p95_ms`; see the guide."""
    printed: dict[str, Printed] = {}
    """The position of each figure, by the same names."""
    words: dict[str, str] = {}
    """Heading, host and other words that distinguish it from its neighbours."""
    load: dict[str, str] = {}
    """What the output says about its load besides clients, workers, protocol, scale and rate. Keys that it does not
    show are absent: `scripts`, `options`, `transactions` (of each client), `duration_s`, `loop` (open or closed),
    `connections` (each transaction, or kept), `partitions`, `max_tries`, `driver`, settings of HammerDB, and words in
    unknown columns of CSV; see the guide.
    """


class ImportedFile(Record):
    path: str
    sha256: str
    trials: int


class ImportedLine(Record):
    file: str
    line: int
    text: str


class UnusedLine(ImportedLine):
    """A line that was not taken over, verbatim or in a sentence of pgdyno's."""

    id: str | None = None
    """The id of that sentence; None if `text` is the line itself."""
    parameters: dict[str, Parameter] = {}


class ImportedClaim(ImportedLine):
    """An equation that a file prints: `€ 0.17 ((€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS)`."""

    printed: float
    decimals: int
    """Decimal places of the printed result."""
    computed: float
    """The result of its own inputs."""


class ImportRecord(Record):
    files: list[ImportedFile]
    claims: list[ImportedClaim] = []
    facts: dict[str, list[ImportedLine]] = {}  # by topic: `autovacuum`, `tmpfs`
    unread: list[UnusedLine] = []
    left_out: list[UnusedLine] = []
    """Outputs that are not trials, because their source marks them as warm-up runs."""
