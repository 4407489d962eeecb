"""The folder of a capture: written with a plan that replays it and a README for people, and read again."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from pgdyno.capture.left_out import sentence
from pgdyno.effect.short_statement import short_statement
from pgdyno.errors import StoreError, UsageError
from pgdyno.plan.output.new import plan_name
from pgdyno.records.capture import CAPTURE_FILE, FORMAT, STATEMENTS_FILE, Capture, Ended, Source, StatementClass, Values
from pgdyno.safe_output import visible
from pgdyno.store.duckdb_session import quote_text
from pgdyno.store.safe_files import DAMAGED, read_model, replace_durably, store_errors
from pgdyno.units import duration_words, format_significant, quantity

PLAN_FILE, README_FILE = "plan.toml", "README.md"
TOP = 20
"""Classes of statements in the README."""
_TEXT_CHARACTERS = 100
ENDINGS = {
    Ended.INTERRUPTED: "was interrupted",
    Ended.LIMIT: "ended when the log reached the limit of --max-size",
    Ended.SERVER_LOST: "lost the server before its end",
}
_SOURCES = {
    Source.LOG: "the server's log", Source.PROXY: "sessions through a proxy", Source.STATEMENTS: "pg_stat_statements"
}  # fmt: skip
_VALUES = {
    Values.ANONYMISED: "text was replaced; types, lengths and which values are equal were kept, and so were numbers",
    Values.KEPT: "kept as they were: treat this folder as you treat the database",
    Values.UNKNOWN: "none: pg_stat_statements does not have them",
}
_REPLAY = """\
## Replay it

1. Restore the database as it was when the capture began, {began}, on a server that nobody else uses: from a base \
backup with point-in-time recovery, from a snapshot, or from a dump. Statements find other rows, or none, in another \
state. A replay writes: restore the copy before each one.
2. Name that server in `{plan}`: `dsn`.
3. `pgdyno run {plan}`"""
_ANONYMISED = """\
Text was replaced, so a statement that looks for text finds no rows in a copy of the real database. For the rows that \
the application found, capture again with `--values kept`."""
_SEQUENCES = """\
A log has no answers, so statements name the captured keys. They are those of the copy if its sequences are where they \
were at the start, and the plan has `workload.order = "captured"`:"""
_ONLY_MODEL = """\
## Use it

pg_stat_statements has neither the order of statements nor their values: there is nothing to replay. \
`pgdyno synthesise .` makes a load of the same statements in the same shares."""


def refuse_existing(folder: Path) -> None:
    """Raise UsageError if `folder` exists and is not an empty folder, StoreError if it cannot be read."""
    with store_errors("read", folder, "--into"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists and is not empty", hint="name a new folder: --into")


def new_folder(folder: Path) -> None:
    """Create `folder` for a capture. Raises UsageError if it exists and is not empty, StoreError."""
    refuse_existing(folder)
    with store_errors("write", folder, "--into"):
        # statements may have values in them
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_capture(folder: Path, capture: Capture) -> None:
    """Write everything but `capture.parquet`, and `capture.json` last: a folder with it is whole. Raises StoreError."""
    files = {README_FILE: readme(capture)}
    if capture.source is not Source.STATEMENTS:
        files[PLAN_FILE] = plan(folder.resolve().name, capture)
    write_files(folder, files, capture)


def read_capture(folder: Path) -> Capture:
    """Return the capture in `folder`. Raises UsageError without one, StoreError if it is damaged or newer."""
    path = folder / CAPTURE_FILE
    with store_errors("read", path, None):
        is_missing = not path.exists() and not path.is_symlink()
    if is_missing:
        raise UsageError(f"{folder} is not a capture: it has no {CAPTURE_FILE}", hint="to make one: pgdyno capture")
    capture = read_model(path, Capture, _check_format)
    if capture.source is not Source.STATEMENTS and not (folder / STATEMENTS_FILE).is_file():
        raise StoreError(f"cannot read {folder}: it has no {STATEMENTS_FILE}", hint=DAMAGED)
    return capture


def _check_format(path: Path, data: dict[str, Any]) -> None:
    written = data.get("format")
    if isinstance(written, int) and written > FORMAT:
        message = f"it is of format {written}, and this pgdyno reads up to {FORMAT}"
        raise StoreError(f"cannot read {path}: {message}", hint="use a newer pgdyno")


def plan(name: str, capture: Capture) -> str:
    return f"""\
name = {json.dumps(plan_name(name, "capture"))}
description = {toml_text(f"Replays the capture of {format_time(capture.began)}.")}

# A server with a copy of the database as it was when the capture began ({format_time(capture.began)}): a replay writes.
# pgdyno refuses the database that was captured, if the capture knows its server: capture.json, server.
{copy_target(capture)}

[workload]
replay = "."                     # this folder
dataset = "none"

{copy_reset("a replay")}
"""


def readme(capture: Capture) -> str:
    parts = [f"# Capture of {cell(capture.database or 'a server')}", _table("| | |\n|---|---|", _facts(capture))]
    if capture.ended in ENDINGS:
        parts.append(f"The capture {ENDINGS[capture.ended]}.")
    if capture.statements:
        head = "| share of time | calls | mean | p50 | p99 | errors | statement |\n|--:|--:|--:|--:|--:|--:|---|"
        parts += ["## Statements with most of the time", _table(head, _statements(capture))]
    if capture.waits:
        waits = ((f"{each.sessions:.2f}", cell(each.wait)) for each in capture.waits)
        parts += ["## Active sessions by wait", _table("| sessions on average | wait |\n|--:|---|", waits)]
    if capture.left_out:
        left = ((f"{each.count:,}", cell(sentence(each.reason)), cell(each.first or "")) for each in capture.left_out)
        parts += ["## Left out", _table("| count | why | first |\n|--:|---|---|", left)]
    if capture.notes:
        notes = "\n".join(f"- {cell(str(each.message))}" for each in capture.notes)
        parts += ["## What the server did not log or show", notes]
    if capture.source is not Source.STATEMENTS:
        parts.append(_REPLAY.format(began=format_time(capture.began), plan=PLAN_FILE))
    else:
        parts.append(_ONLY_MODEL)
    if capture.sequences:
        moves = (f"SELECT setval({quote_text(name)}, {last});" for name, last in sorted(capture.sequences.items()))
        parts.append("\n".join([_SEQUENCES, "", "```sql", *moves, "```"]))
    if capture.values is Values.ANONYMISED:
        parts.append(_ANONYMISED)
    return "\n\n".join(parts) + "\n"


def _table(head: str, rows: Iterable[Iterable[str]]) -> str:
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _facts(capture: Capture) -> Iterator[tuple[str, str]]:
    is_log = capture.source is not Source.STATEMENTS
    sessions = f"at most {capture.most_sessions:,} at once" if is_log or capture.most_sessions else "unknown"
    for name, value in {
        "began": format_time(capture.began),
        "lasted": duration_words(capture.span_us / 1e6),
        "server": f"PostgreSQL {capture.server_version}" if capture.server_version else "unknown",
        "database": capture.database or "unknown",
        "source": _SOURCES[capture.source],
        "statements": f"{capture.calls:,} in {quantity(len(capture.statements), 'class', 'classes')}",
        "transactions": f"{capture.transactions:,}" if capture.transactions else "unknown",
        "sessions": f"{capture.sessions:,}, {sessions}" if is_log else sessions,
        "values": _VALUES[capture.values],
    }.items():
        yield name, cell(value)


def _statements(capture: Capture) -> Iterator[Iterable[str]]:
    """Yield the classes that took most of the time, or have most of the calls if the time is unknown."""
    total_us = sum(each.total_us or 0.0 for each in capture.statements)
    for each in sorted(capture.statements, key=lambda each: (-(each.total_us or 0.0), -each.calls))[:TOP]:
        share = f"{100 * (each.total_us or 0.0) / total_us:.1f} %" if total_us else ""
        mean_us = each.total_us / each.calls if each.total_us is not None and each.calls else None
        times = (_milliseconds(us) for us in (mean_us, each.p50_us, each.p99_us))
        yield share, f"{each.calls:,}", *times, f"{each.errors:,}" if each.errors else "", f"`{_short_text(each)}`"


def _milliseconds(us: float | None) -> str:
    return "" if us is None else f"{format_significant(us / 1000)} ms"


def _short_text(each: StatementClass) -> str:
    # a backtick would end the code
    return cell(short_statement(each.text, _TEXT_CHARACTERS).replace("`", "'"))


# ---- what the folder of a model has, too ----


def write_files(folder: Path, files: Mapping[str, str], capture: Capture) -> None:
    """Write the texts `files` by name, and then capture.json: a folder with it is whole. Raises StoreError."""
    for name, text in {**files, CAPTURE_FILE: capture.model_dump_json(indent=2)}.items():
        with store_errors("write", folder / name, "--into"):
            replace_durably(folder / name, text.encode("utf-8", "replace"))


def copy_target(capture: Capture) -> str:
    """Return the table of a plan's target, a copy of the captured database, which the user has to name."""
    database = capture.database or "DATABASE"
    return f"""\
[target.copy]
kind = "dsn"
dsn = {toml_text(make_conninfo(host="COPY", dbname=database))}
database = {toml_text(database)}
allow_existing = true            # the database is yours: pgdyno creates and drops none"""


def copy_reset(load: str) -> str:
    """Return the table of a plan that resets nothing, as the user restores the copy that `load` changes."""
    return f"""\
[reset]
method = "none"                  # restore the copy before each run: {load} changes it
checkpoint = false               # needs pg_checkpoint, or a superuser"""


def format_time(at: datetime) -> str:
    """Return `at` for people, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def cell(text: str) -> str:
    """Return `text` for a cell of a table: a capture may have anything in its names and texts."""
    return visible(" ".join(text.split())).replace("|", "\\|")


def toml_text(text: str) -> str:
    # JSON's strings are TOML's, except for this character
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
