"""Transactions of a capture by class: sequences of statements that are equal when repeats are folded.

DuckDB reads capture.parquet, and spills to disk if a capture is larger than the memory that it may use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import duckdb

from pgdyno.capture.parser import BLANKS, Effect, parse
from pgdyno.effect import has_plan
from pgdyno.errors import StoreError
from pgdyno.records.capture import CAPTURE_FILE, StatementClass
from pgdyno.store.duckdb_session import fetch_row, table_function

MEMORY = "500MB"
MOST_SCRIPTS = 40
MOST_SEQUENCES = 20_000
"""The most different sequences that are folded, those with the most time first."""
SAMPLED = 5_000
"""Transactions of a class whose values are read."""
MOST_STATEMENTS, FEWEST_SAMPLED = 100_000, 100
"""Fewer transactions are read if they have more statements than this, but not fewer than that."""
MOST_OTHERS = 0.1
"""The largest part of the transactions that other sessions than those for which clients stand may have."""
LONGEST_PERIOD = 24
"""Statements of the longest loop's body."""


class Left(Enum):
    """Why transactions are in no script."""

    FAILED = "a statement failed: a model has only the errors that its own load causes"
    CUT = "the capture has only a part of them"
    SESSION_STATE = "they need or change what their session prepared in SQL (PREPARE, EXECUTE, DEALLOCATE)"
    COPY = "they copy from the client, and the capture does not have the rows"
    DEFINES = "they define or maintain objects (CREATE, ALTER, DROP, TRUNCATE, VACUUM, …)"
    RARE = "their class takes less of the time than --min-share"
    MANY = f"there are more classes than the {MOST_SCRIPTS} that are written"
    COMMAND = "they are commands, such as BEGIN, which pg_stat_statements shows without their transaction"
    REFUSED = "the server of --dsn refuses them"
    UNREADABLE = "the constants in their statements cannot be found, or pgdrive would read a statement in another way"


Sequence_ = tuple[int, ...]


@dataclass(frozen=True)
class Element:
    """A statement of a sequence, or statements that are repeated; how often is not part of a class."""

    body: Sequence_
    """The numbers of the statements' classes."""
    is_loop: bool = False


def fold(statements: Sequence_) -> tuple[Element, ...]:
    """Fold repeats in `statements`: of several loops, the one that covers most wins, then the shortest body."""
    elements: list[Element] = []
    at = 0
    while at < len(statements):
        body, times = statements[at : at + 1], 1
        for period in range(1, min(LONGEST_PERIOD, (len(statements) - at) // 2) + 1):
            here, repeats = statements[at : at + period], 1
            while statements[at + repeats * period : at + (repeats + 1) * period] == here:
                repeats += 1
            if repeats > 1 and repeats * period > len(body) * times:
                body, times = here, repeats
        elements.append(Element(body, times > 1))
        at += len(body) * times
    return tuple(elements)


def repeats(sequence: Sequence_, elements: Sequence[Element]) -> list[int]:
    """Return how often each of `elements` occurs in `sequence`, which consists of them; 1 unless it is a loop."""
    counts = []
    at = 0
    for each in elements:
        body, count = each.body, 1
        while each.is_loop and sequence[at + count * len(body) : at + (count + 1) * len(body)] == body:
            count += 1
        counts.append(count)
        at += count * len(body)
    return counts


def merge(classes: dict[tuple[Element, ...], TransactionClass]) -> list[TransactionClass]:
    """Merge classes whose loops all run once, and so are none, with those whose loops run more often."""
    merged = dict(classes)
    for elements, into in classes.items():
        once = tuple(Element((number,)) for each in elements for number in each.body)
        found = merged.get(once)
        if once == elements or found is None:
            continue
        del merged[once]
        into.sequences += found.sequences
        into.count += found.count
        into.us += found.us
        into.statements += found.statements
    return list(merged.values())


@dataclass
class TransactionClass:
    """Transactions with the same folded sequence."""

    elements: tuple[Element, ...]
    sequences: list[Sequence_] = field(default_factory=list)
    count: int = 0
    us: int = 0
    """Time on the server, of all its statements."""
    statements: int = 0


@dataclass(frozen=True)
class LeftTransactions:
    """Transactions that are in no script."""

    reason: Left
    count: int
    us: int


def sum_by_reason(left: Sequence[LeftTransactions]) -> list[LeftTransactions]:
    """Return one for each reason, those with the most transactions first."""
    sums = {each.reason: (0, 0) for each in left}
    for each in left:
        count, us = sums[each.reason]
        sums[each.reason] = count + each.count, us + each.us
    return sorted((LeftTransactions(reason, *both) for reason, both in sums.items()), key=lambda each: -each.count)


@dataclass(frozen=True)
class Classes:
    """The classes that become scripts, those with the most time first, and what is left out."""

    kept: list[TransactionClass]
    left: list[LeftTransactions]
    count: int
    us: int
    """Time on the server of all transactions."""


@dataclass(frozen=True)
class Row:
    """One statement of a sampled transaction."""

    sql: str
    parameters: Sequence[str | None]
    at_us: int
    us: int | None


@dataclass(frozen=True)
class Activity:
    """What sessions did between their transactions."""

    pause_us: float | None
    """The median pause between two transactions of a session; None if no session had two."""
    short: float
    """The part of the pauses below 1 ms."""
    at_most_10_ms: float
    working: float
    """Sessions in a transaction, on average."""
    at_once: float
    """Sessions in a transaction or in a pause of at most 10 ms before one, on average."""
    has_whole_seconds: bool = False
    """Whether the times of the log have no milliseconds: then the pauses say nothing."""


class CapturedStatements:
    """capture.parquet, grouped into transactions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: TemporaryDirectory[str]) -> None:
        self._connection = connection
        self._folder = folder

    @classmethod
    def open(cls, file: Path, classes: int) -> Self:
        """Read `file`, whose statements are of so many classes. Raises StoreError if it is damaged."""
        folder = TemporaryDirectory(prefix="pgdyno-synthesise-")
        connection = duckdb.connect(
            str(Path(folder.name) / "transactions.duckdb"),
            config={"memory_limit": MEMORY, "temp_directory": folder.name, "preserve_insertion_order": False},
        )
        try:
            # a long query would draw one on standard output
            connection.execute("SET enable_progress_bar = false")
            # the block of a statement outside of one is its own number, below all blocks
            connection.execute(
                f"""
                CREATE VIEW statements AS
                SELECT *, coalesce(transaction, -1 - seq)::BIGINT AS block FROM (
                    -- captures of earlier versions lack the column
                    (SELECT NULL::VARCHAR AS left_out LIMIT 0)
                    UNION ALL BY NAME FROM {table_function("read_parquet", [file])}
                ) WHERE statement IS NOT NULL
                """  # noqa: S608 - a file's name, quoted
            )
            connection.execute(
                """
                CREATE TABLE transactions AS
                SELECT session, block, list(statement ORDER BY seq) AS statements, min(at_us) AS began,
                       max(at_us + coalesce(us, 0)) AS ended, coalesce(sum(us), 0)::BIGINT AS us,
                       bool_or(sqlstate IS NOT NULL) AS failed, any_value(left_out) AS left_out
                FROM statements GROUP BY session, block
                """
            )
            last, first = fetch_row(connection, "SELECT max(statement), min(statement) FROM statements")
            if last is not None and not 0 <= first <= last < classes:
                raise duckdb.InvalidInputException(f"it has a statement of a class that {CAPTURE_FILE} does not have")
        except duckdb.Error as error:
            connection.close()
            folder.cleanup()
            reason = str(error).splitlines()[0]
            raise StoreError(f"cannot read {file}: {reason}", hint="write it again with pgdyno capture") from error
        return cls(connection, folder)

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()

    def classes(self, statements: Sequence[StatementClass], least: float) -> Classes:
        """Classifies the transactions; classes with less than the part `least` of the time are left out.

        Without times in the capture, statements count instead.
        """
        left: list[LeftTransactions] = []
        kinds = [statement_kind(each.text) if each.has_text else Kind.UNKNOWN for each in statements]
        classes: dict[tuple[Element, ...], TransactionClass] = {}
        total, total_us = fetch_row(self._connection, "SELECT count(*), coalesce(sum(us), 0)::BIGINT FROM transactions")
        for sequence, count, us, failed, left_out, is_block, ordinal in self._sequences():
            reason = unusable([kinds[each] for each in sequence], is_block=is_block)
            if failed or left_out is not None:
                reason = Left.FAILED if failed else Left.COPY if left_out == "copy-data" else Left.CUT
            if reason is None and ordinal > MOST_SEQUENCES:
                reason = Left.MANY
            if reason is not None:
                left.append(LeftTransactions(reason, count, us))
                continue
            elements = fold(sequence)
            found = classes.setdefault(elements, TransactionClass(elements))
            found.sequences.append(sequence)
            found.count += count
            found.us += us
            found.statements += count * len(sequence)
        weight: Callable[[TransactionClass], int] = (lambda each: each.us) if total_us else lambda each: each.statements
        whole = total_us or sum(each.statements for each in classes.values())
        ordered = sorted(merge(classes), key=lambda each: (-weight(each), each.sequences[0]))
        kept: list[TransactionClass] = []
        for each in ordered:
            if weight(each) < least * whole:
                left.append(LeftTransactions(Left.RARE, each.count, each.us))
            elif len(kept) == MOST_SCRIPTS:
                left.append(LeftTransactions(Left.MANY, each.count, each.us))
            else:
                kept.append(each)
        return Classes(kept, left, total, total_us)

    def _sequences(self) -> Iterator[tuple[Sequence_, int, int, bool, str | None, bool, int]]:
        cursor = self._connection.execute(
            """
            SELECT statements, count(*), sum(us)::BIGINT, failed, left_out, block >= 0 AS is_block,
                   row_number() OVER (ORDER BY sum(us) DESC, count(*) DESC, statements) AS ordinal
            FROM transactions GROUP BY statements, failed, left_out, is_block ORDER BY ordinal
            """
        )
        while rows := cursor.fetchmany(1_000):
            for statements, *others in rows:
                yield tuple(statements), *others

    def sample(self, of: TransactionClass) -> Iterator[tuple[int, Sequence_, list[Row]]]:
        """Yield up to `SAMPLED` transactions of a class, the same ones each time: session, classes, statements."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE wanted AS SELECT unnest($1::INTEGER[][]) AS statements",
            [[list(each) for each in of.sequences]],
        )
        cursor = self._connection.execute(
            """
            WITH chosen AS (
                SELECT session, block, statements FROM transactions SEMI JOIN wanted USING (statements)
                WHERE NOT failed AND left_out IS NULL ORDER BY hash(session, block), session, block LIMIT ?
            )
            SELECT c.session, c.block, any_value(c.statements),
                   list({'sql': s.sql, 'parameters': s.parameters, 'at_us': s.at_us, 'us': s.us} ORDER BY s.seq)
            FROM chosen AS c JOIN statements AS s USING (session, block)
            GROUP BY c.session, c.block ORDER BY min(s.at_us), c.session, c.block
            """,
            [max(FEWEST_SAMPLED, min(SAMPLED, MOST_STATEMENTS * of.count // of.statements))],
        )
        while rows := cursor.fetchmany(100):
            for session, _, statements, members in rows:
                found = [Row(**{**each, "parameters": each["parameters"] or ()}) for each in members]
                yield session, tuple(statements), found

    def activity(self) -> Activity:
        """What sessions did between their transactions.

        Times of a log are rounded, so a short pause may be below 0; without those, the others would add up to too much.
        """
        median, short, at_most_10_ms, working, pauses, span = fetch_row(
            self._connection,
            """
            SELECT median(pause), avg((pause < 1000)::INTEGER), avg((pause <= 10000)::INTEGER), sum(ended - began),
                   coalesce(sum(pause) FILTER (pause <= 10000), 0), max(ended) - min(began) FROM (
                SELECT began, ended, began - lag(ended) OVER (PARTITION BY session ORDER BY began, block) AS pause
                FROM transactions
            )
            """,
        )
        whole = float(max(span, 1))
        parts = float(short or 0), float(at_most_10_ms or 0)
        return Activity(median, *parts, float(working) / whole, float(working + pauses) / whole)

    def busiest(self, count: int) -> list[int]:
        """Return the `count` sessions with the most transactions; none if others have more than `MOST_OTHERS`."""
        rows = self._connection.execute(
            """
            SELECT session, count(*), sum(count(*)) OVER () FROM transactions
            GROUP BY session ORDER BY count(*) DESC, session LIMIT $1
            """,
            [count],
        ).fetchall()
        theirs = sum(count for _, count, _ in rows)
        return sorted(row[0] for row in rows) if rows and theirs >= (1 - MOST_OTHERS) * rows[0][2] else []

    def protocol(self, statements: Sequence[StatementClass]) -> str:
        """Return the protocol, as a plan names it, of most statements that can have parameters.

        Others, such as BEGIN, are sent as they are, whatever the application does with its parameters.
        """
        planned = [number for number, each in enumerate(statements) if each.has_text and has_plan(each.text)]
        row = self._connection.execute(
            """
            SELECT CASE WHEN kind <> 'extended' THEN 'simple' WHEN coalesce(name, '') = '' THEN 'extended'
                        ELSE 'prepared' END
            FROM statements GROUP BY 1 ORDER BY count(*) FILTER (list_contains($1::INTEGER[], statement)) DESC,
                count(*) DESC LIMIT 1
            """,
            [planned],
        ).fetchone()
        return "simple" if row is None else str(row[0])


class Kind(Enum):
    """What a statement is, as far as a transaction is concerned."""

    BEGIN = "begin"
    END = "end"
    CHAIN = "chain"
    """It ends a block and begins the next, which no script may leave open."""
    EXECUTE = "execute"
    COPY = "copy"
    DEFINES = "defines"
    OTHER = "other"
    UNKNOWN = "unknown"
    """The capture has no text for it."""


_KINDS = (
    (Kind.BEGIN, r"begin|start\s+transaction"),
    (Kind.END, r"commit|end|rollback(?!(\s+(work|transaction))?\s+to)|abort|prepare\s+transaction"),
    (Kind.EXECUTE, r"prepare|execute|deallocate(?!\s+(prepare\s+)?all\b)"),
    (Kind.COPY, r"copy\s.*\sfrom\s+stdin"),
    (
        Kind.DEFINES,
        r"(create|drop)\s+(?!.*?\btemp(orary)?\b)|alter|truncate|vacuum|analy[sz]e|reindex|cluster|comment|grant|revoke",
    ),
)
_PATTERNS = [(kind, re.compile(rf"{BLANKS}(?:{words})\b", re.IGNORECASE | re.DOTALL)) for kind, words in _KINDS]


def statement_kind(text: str) -> Kind:
    kind = next((kind for kind, pattern in _PATTERNS if pattern.match(text)), Kind.OTHER)
    if kind not in (Kind.BEGIN, Kind.END):
        return kind
    effect = parse(text).effect
    if effect is Effect.CHAIN:
        return Kind.CHAIN
    # what has its own COMMIT is complete
    return Kind.OTHER if kind is Kind.BEGIN and effect is None else kind


def unusable(kinds: Sequence[Kind], *, is_block: bool) -> Left | None:
    """Tells why a transaction of these statements cannot be in a script."""
    if Kind.UNKNOWN in kinds:
        return Left.UNREADABLE
    if is_block and (kinds[0] is not Kind.BEGIN or kinds[-1] is not Kind.END):
        return Left.CUT
    if not is_block and kinds[0] in (Kind.BEGIN, Kind.END, Kind.CHAIN):
        return Left.CUT
    for kind, reason in ((Kind.EXECUTE, Left.SESSION_STATE), (Kind.COPY, Left.COPY), (Kind.DEFINES, Left.DEFINES)):
        if kind in kinds:
            return reason
    return None
