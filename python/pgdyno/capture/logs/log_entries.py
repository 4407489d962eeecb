"""The entries of a log as a table: DuckDB splits a block of them into columns that are the same for all formats."""

from pathlib import Path

import duckdb

from pgdyno.capture.logs.log_blocks import JSON_BYTES, PLACE_MARK, Block, load_pieces
from pgdyno.capture.logs.log_files import LogFile, LogFormat
from pgdyno.capture.logs.log_prefix import MOST_HEADER
from pgdyno.capture.logs.log_times import epoch_us
from pgdyno.capture.logs.text_entries import NEWLINE, PART, RETURN, Doubt
from pgdyno.records.capture import UNKNOWN_SQLSTATE
from pgdyno.store.duckdb_session import quote_text, table_function

_CSV_COLUMNS = (
    "stamp", "role", "database", "pid", "remote", "key", "number", "tag", "started", "vxid", "xid", "severity",
    "sqlstate", "message", "detail", "hint", "inner_query", "inner_place", "context", "query", "place", "location",
    "application", "backend", "leader", "query_id",
)  # fmt: skip
"""Of PostgreSQL 14 and later; older versions lack the last ones."""
_JSON_KEYS = {
    "stamp": "timestamp", "role": "user", "database": "dbname", "pid": "pid", "key": "session_id",
    "started": "session_start",
    "vxid": "vxid", "severity": "error_severity", "sqlstate": "state_code", "message": "message", "detail": "detail",
    "query": "statement", "backend": "backend_type", "leader": "leader_pid",
    "application": "application_name",
}  # fmt: skip
_HEADER = ("stamp", "role", "database", "pid", "key", "started", "vxid", "backend", "leader", "application")
"""Columns that a prefix may have."""


def load_entries(cursor: duckdb.DuckDBPyConnection, log: LogFile, block: Block, file: Path) -> list[int]:
    """Fill the table `entry` of `cursor` by way of `file`, and return the lines that it cannot read."""
    size = len(block.data) + 4096
    if log.format is LogFormat.CSV:
        columns: tuple[str, ...] = ("line", *_CSV_COLUMNS)
        # an empty name in quotes is a name: a row without one was cut
        dialect = "delim=',', quote='\"', escape='\"', null_padding=true, ignore_errors=true, strict_mode=false"
        dialect += ", allow_quoted_nulls=false"
    else:
        columns = ("line", "text") if log.prefix is None else ("line", "doubt", "text")
        dialect = "delim='\x1f', quote='', escape='', ignore_errors=true, strict_mode=false"
    types = ", ".join(f"'{name}': 'VARCHAR'" for name in columns)
    source = table_function(
        "read_csv",
        [file],
        f"auto_detect=false, header=false, parallel=false, compression='none', {dialect}, columns={{{types}}},"
        f" buffer_size={size}, max_line_size={size}",
    )
    piece_bytes = JSON_BYTES if log.format is LogFormat.JSON else size
    if load_pieces(cursor, "entry", _common_query(log, source), block.data, piece_bytes, file) == block.entries:
        return []
    readable = {line for (line,) in cursor.execute("SELECT line FROM entry").fetchall()}
    mark = b"," if log.format is LogFormat.CSV else PLACE_MARK.encode()
    wanted = (each.partition(mark)[0] for each in block.data.split(b"\n"))
    return [int(line) for line in wanted if line.isdigit() and int(line) not in readable] or [block.line]


def _common_query(log: LogFile, source: str) -> str:
    if log.format is LogFormat.CSV:
        inner = f"SELECT *, CASE WHEN application IS NULL THEN '{Doubt.CUT}' END AS doubt FROM {source}"
    elif log.format is LogFormat.JSON:
        inner = _json(source)
    else:
        inner = _stderr(log, source)
    has_key = log.prefix is None or "key" in log.prefix.groups
    # a session's ID has the time of its start
    started = "NULL::BIGINT" if has_key else epoch_us("started")
    return f"""
        SELECT line::BIGINT AS line, {epoch_us("stamp")} AS logged_us,
               nullif(nullif(database, '[unknown]'), '') AS database,
               TRY_CAST(trim(pid) AS BIGINT) AS pid, nullif(key, '') AS key, {started} AS started,
               TRY_CAST(split_part(vxid, '/', 1) AS BIGINT) AS process_number, severity, sqlstate, message,
               nullif(detail, '') AS detail, nullif(query, '') AS query, nullif(backend, '') AS backend,
               nullif(leader, '') AS leader, role, application, nullif(doubt, '') AS doubt
        FROM ({inner}) WHERE logged_us IS NOT NULL AND message IS NOT NULL AND TRY_CAST(line AS BIGINT) IS NOT NULL
    """


def _json(source: str) -> str:
    paths = ", ".join(f"'$.{key}'" for key in _JSON_KEYS.values())
    columns = ", ".join(f"found[{place}] AS {name}" for place, name in enumerate(_JSON_KEYS, 1))
    return f"""
        SELECT line, {columns}, NULL AS doubt FROM (
            SELECT line, TRY(json_extract_string(text, [{paths}])) AS found FROM {source}
        )
    """


def _stderr(log: LogFile, source: str) -> str:
    prefix = log.prefix
    assert prefix is not None
    names = ["header", *prefix.groups, "severity"]
    pattern = f"^({prefix.first_line()})"
    listed = ", ".join(quote_text(name) for name in names)
    have = {name: f"nullif(head.{name}, '')" for name in prefix.groups}
    columns = ", ".join(f"{have.get(name, 'NULL')} AS {name}" for name in _HEADER)
    # log_error_verbosity = verbose puts the code before the message
    code = "regexp_extract(parts[1], '^([0-9A-Z]{5}): ', 1)"
    return f"""
        SELECT line, doubt, {columns}, severity,
               coalesce({have.get("sqlstate", "NULL")}, nullif({code}, ''), {quote_text(UNKNOWN_SQLSTATE)}) AS sqlstate,
               {_restore_line_ends(f"CASE WHEN {code} = '' THEN parts[1] ELSE substr(parts[1], 8) END")} AS message,
               {_restore_line_ends(_part("DETAIL"))} AS detail, {_restore_line_ends(_part("STATEMENT"))} AS query
        FROM (
            SELECT line, doubt, head, head.severity AS severity,
                   string_split(substr(text, length(head.header) + 1), '{PART}') AS parts
            FROM (
                SELECT line, doubt, text,
                       regexp_extract(text[:{MOST_HEADER}], {quote_text(pattern)}, [{listed}]) AS head FROM {source}
            )
        ) WHERE severity <> ''
    """


def _part(name: str) -> str:
    return f"substr(list_filter(parts, lambda part: starts_with(part, '{name}:'))[1], {len(name) + 2})"


def _restore_line_ends(text: str) -> str:
    return f"replace(replace({text}, '{NEWLINE}', chr(10)), '{RETURN}', chr(13))"
