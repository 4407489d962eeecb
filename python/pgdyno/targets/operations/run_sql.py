"""Runs the statements of SQL files and of plans by psql's rules."""

from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from pgdyno.errors import TargetError
from pgdyno.plan.own_data.psql_reader import SqlFileError, Statement

Connection = psycopg.Connection[tuple[Any, ...]]


def run_statements(
    session: Connection, statements: Iterable[Statement], fails: str, must_stop: Callable[[], bool] = lambda: False
) -> None:
    """Run `statements`, one after the other, until `must_stop`.

    Raises TargetError, which begins with `fails` and has file, line and the server's message.
    """
    try:
        for statement in statements:
            if must_stop():
                return
            try:
                _execute(session, statement, must_stop)
            except psycopg.Error as error:
                raise TargetError(f"{fails}: {_words_of(error, statement)}") from error
    except SqlFileError as error:
        raise TargetError(f"{fails}: {error}", hint=error.hint) from error


def _execute(session: Connection, statement: Statement, must_stop: Callable[[], bool]) -> None:
    text = statement.text.encode()
    if statement.kind == "copy":
        with session.cursor() as cursor, cursor.copy(text) as copy:
            for rows in statement.data:
                copy.write(rows)
                if must_stop():
                    return
    elif statement.kind == "gexec":
        for row in session.execute(text).fetchall():
            for made in row:
                if made is not None:
                    session.execute(str(made).encode())
    else:
        session.execute(text)


def _words_of(error: psycopg.Error, statement: Statement) -> str:
    """Return `fill.sql:12: relation "t" does not exist (42P01)`, with the server's detail and hint."""
    said = error.diag
    place = int(said.statement_position or 0)
    code = f" ({error.sqlstate})" if error.sqlstate else ""
    lines = [f"{statement.file}:{statement.line_at(place)}: {said.message_primary or str(error).strip()}{code}"]
    lines += [
        f"{name}: {text}" for name, text in (("detail", said.message_detail), ("hint", said.message_hint)) if text
    ]
    if said.context:
        lines.append(f"context: {said.context}")
    return "\n".join(lines)
