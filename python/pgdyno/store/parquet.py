"""Reads and writes Parquet files through DuckDB.

Columns are passed as typed lists, which is a dozen times faster than a statement per row, and keeps blobs as bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.errors import StoreError
from pgdyno.store.duckdb_session import file_name, file_pattern, quote_text, session, table_function
from pgdyno.store.safe_files import DAMAGED, check_regular, store_errors
from pgdyno.store.trial_tables import TABLES, Row, columns, required_columns

if TYPE_CHECKING:
    import duckdb

MOST_ROWS: Mapping[str, int] = {
    **dict.fromkeys(("intervals", "histograms", "events"), 500_000),
    **dict.fromkeys(("statements", "settings", "server_statements", "query_plans"), 20_000),
}
"""Limit for a trial's table: 24 hours of five scripts have 432,000 intervals."""
MOST_SAMPLES = 20_000_000
"""Limit for a trial's tables of samples: an hour is a million rows."""
ROWS_FREE, ROWS_A_BYTE, SAMPLES_A_BYTE = 10_000, 4, 20
"""A file may have this many rows, plus a number for each of its bytes: more would indicate a file made to exhaust
memory. Seconds without any activity have 0.12 rows per byte, identical events 0.7, identical samples 6.
"""
MOST_READ, MOST_READ_BYTES = 2_000_000, 1 << 30
"""Rows that one query may load, and bytes of text in them."""
LONGEST_TEXT = 1 << 20
"""Bytes of a text or histogram value."""
_AT_ONCE = 256
_NONE = object()


def table_query(paths: Sequence[Path], options: str = "") -> str:
    """Return SQL that reads `paths`, tables of trials, with further `options` of read_parquet.

    Raises StoreError for a link, for anything but a regular file, and for more rows than a table may have.
    """
    for path, size, (rows, other) in _footers(paths):
        if other is not None:
            raise StoreError(f"cannot read {path}: {other}", hint=DAMAGED)
        a_byte = ROWS_A_BYTE if path.stem in MOST_ROWS else SAMPLES_A_BYTE
        most = min(MOST_ROWS.get(path.stem, MOST_SAMPLES), ROWS_FREE + a_byte * size)
        if rows > most:
            raise StoreError(
                f"cannot read {path}: {rows:,} rows in {size:,} bytes, and at most {most:,} are read",
                hint=f"{DAMAGED}; DuckDB reads larger tables",
            )
    # list the files by name: a pattern would match partial ones, too
    files = table_function("read_parquet", paths, options)
    if not paths or "value" not in columns(TABLES[paths[0].stem]):
        return files
    # for samples; the other columns are unchanged, so that filters still apply to the files
    return f"(SELECT * REPLACE ({_sound('value', 'DOUBLE', is_needed=True)} AS value) FROM {files})"  # noqa: S608


_Footer = tuple[int, str | None]
"""Number of rows, and what is wrong with the columns."""
_known: dict[tuple[str, int, int], _Footer] = {}
"""By path, time of the last change, and size."""
_MOST_KNOWN = 16_384


def _footers(paths: Sequence[Path]) -> Iterator[tuple[Path, int, _Footer]]:
    keys = []
    for path in paths:
        with store_errors("read", path):
            found = path.lstat()
            check_regular(path, found)
            keys.append((file_name(path), found.st_mtime_ns, found.st_size))
    if len(_known) + len(keys) > _MOST_KNOWN:
        _known.clear()
    new = {key[0]: key for key in keys if key not in _known}
    for name, rows in _sound_footers(list(new)).items() if len(new) > 1 else ():
        _known[new[name]] = rows, None
    for path, key in zip(paths, keys, strict=True):
        if key not in _known:
            with store_errors("read", path):
                _known[key] = _describe_table(key[0])
        yield path, key[2], _known[key]


def _sound_footers(paths: Sequence[str]) -> dict[str, int]:
    import duckdb

    types = columns(TABLES[Path(paths[0]).stem])
    pairs = ", ".join(f"({quote_text(name)}, {quote_text(sql_type)})" for name, sql_type in types.items())
    sql = f"""
        SELECT file_name, num_rows FROM parquet_file_metadata($paths) SEMI JOIN (
            SELECT file_name FROM parquet_schema($paths) WHERE name <> 'duckdb_schema'
            GROUP BY file_name HAVING bool_and(coalesce((name, duckdb_type) IN ({pairs}), false))
        ) USING (file_name)
    """  # noqa: S608 - names of ours
    with session() as connection:
        try:
            patterns = [file_pattern(Path(path)) for path in paths]
            return dict(connection.execute(sql, {"paths": patterns}).fetchall())
        except duckdb.Error:
            # one of them is damaged: reading them one by one says which
            return {}


def _describe_table(path: str) -> _Footer:
    with session() as connection:
        pattern = file_pattern(Path(path))
        found = connection.execute("SELECT num_rows FROM parquet_file_metadata(?)", [pattern]).fetchone()
        described = connection.execute(f"DESCRIBE FROM {table_function('read_parquet', [Path(path)])}").fetchall()
    types = columns(TABLES[Path(path).stem])
    # a column without any value has no type
    wrong = [(name, is_type) for name, is_type, *_ in described if is_type not in (types.get(name, is_type), '"NULL"')]
    other = f"column {wrong[0][0]} is {wrong[0][1]}, not {types[wrong[0][0]]}" if wrong else None
    return int(found[0]) if found else 0, other


def fetched_rows(
    found: duckdb.DuckDBPyConnection, path: Path, trials: Container[int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of a result in batches.

    Raises StoreError, which names `path`, if they exceed the limits; if `trials` is given, also if the first column is
    another number.
    """
    rows = size = 0
    described = enumerate(found.description or ())
    texts = [itemgetter(at) for at, column in described if str(column[1]) in ("VARCHAR", "BLOB")]
    while some := found.fetchmany(_AT_ONCE):
        rows += len(some)
        firsts = {row[0] for row in some} if trials is not None else set()
        other = next((each for each in firsts if trials is not None and each not in trials), _NONE)
        if other is not _NONE:
            raise StoreError(
                f"cannot read {path}: a table has rows of trial {other}, which does not exist", hint=DAMAGED
            )
        size += sum(sum(map(len, filter(None, map(text, some)))) for text in texts)
        if rows > MOST_READ or size > MOST_READ_BYTES:
            raise StoreError(
                f"cannot read {path}: more than {MOST_READ:,} rows, or {MOST_READ_BYTES >> 20:,} MiB of text in them",
                hint="read fewer trials at a time, or use DuckDB",
            )
        yield from some


def checked_columns(row: type[Row]) -> str:
    """Return SQL of the columns of `row` with their types; a non-finite or overlong value is an error."""
    needed = required_columns(row)
    return ", ".join(
        f"{_sound(name, sql_type, is_needed=name in needed)} AS {name}" for name, sql_type in columns(row).items()
    )


def _sound(name: str, sql_type: str, *, is_needed: bool) -> str:
    value = f"{name}::{sql_type}"
    if is_needed:
        value = f"if({value} IS NULL, error('{name} has a row without a value'), {value})"
    if sql_type == "DOUBLE":
        wrong = f"error('{name} has a value that is no figure')"
        return f"if(NOT isfinite({value}) OR abs({value}) > 1e20, {wrong}, {value})"
    if sql_type in ("VARCHAR", "BLOB"):
        size = f"octet_length({value})" if sql_type == "BLOB" else f"strlen({value})"
        return f"if({size} > {LONGEST_TEXT}, error('{name} has a value of more than 1 MiB'), {value})"
    return value


_empty: dict[str, bytes] = {}
"""Files of empty tables: most tables of an imported trial, always identical."""


def write_tables(folder: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Write `<name>.parquet` into `folder` for each of `tables`, even empty ones. Raises StoreError."""
    filled = {name: rows for name, rows in tables.items() if rows or name not in _empty}
    if filled:
        write_batches(folder, filled, [filled])
    for name, rows in tables.items():
        path = folder / f"{name}.parquet"
        with store_errors("write", path):
            if name not in filled:
                path.write_bytes(_empty[name])
            elif not rows:
                _empty[name] = path.read_bytes()


def write_batches(folder: Path, names: Iterable[str], batches: Iterable[Mapping[str, Sequence[Row]]]) -> None:
    """Like `write_tables`, for the tables `names` whose rows come in `batches`, one of which is in memory at a time."""
    with session() as connection:
        types = {name: columns(TABLES[name]) for name in names}
        for name, of_columns in types.items():
            listed = ", ".join(f'"{column}" {sql_type}' for column, sql_type in of_columns.items())
            connection.execute(f'CREATE TEMP TABLE "{name}" ({listed})')
        for batch in batches:
            for name, rows in batch.items():
                path = folder / f"{name}.parquet"
                with store_errors("write", path):
                    _insert(connection, name, types[name], rows, path)
        for name in types:
            path = folder / f"{name}.parquet"
            with store_errors("write", path):
                connection.execute(f'COPY "{name}" TO {quote_text(file_name(path))} (FORMAT parquet, COMPRESSION zstd)')


def _insert(
    connection: duckdb.DuckDBPyConnection, name: str, types: Mapping[str, str], rows: Sequence[Row], path: Path
) -> None:
    if not rows:
        return
    lists = ", ".join(f"unnest(${column}::{sql_type}[])" for column, sql_type in types.items())
    values = {column: [getattr(each, column) for each in rows] for column in types}
    try:
        connection.execute(f'INSERT INTO "{name}" SELECT {lists}', values)
    except (RuntimeError, UnicodeError, OverflowError) as error:
        # what DuckDB raises for a value that it cannot convert, such as an unpaired surrogate
        raise StoreError(f"cannot write {path}: a value is not of its column's type: {error}") from error
