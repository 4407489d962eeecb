"""Generates the manual page of pgdyno from its help, and from the reference of exit codes and variables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from commands_page import commands
from pgdyno.cli import app

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
FILES = (
    ("pgdyno-runs", "The folder of runs, unless --runs or PGDYNO_RUNS names another."),
    ("~/.config/pgdyno/config.toml", "Defaults for every command: runs, language."),
)


def page() -> str:
    """Returns the page in roff's man macros."""
    of = typer.main.get_command(app)
    lines = [".TH PGDYNO 1", ".SH NAME", "pgdyno \\- measure PostgreSQL servers under load", ".SH SYNOPSIS"]
    lines += [".B pgdyno", "COMMAND [OPTIONS] ...", ".SH DESCRIPTION", _text(str(of.help))]
    for words, command in commands(of, ()):
        lines += _command(words, command)
    lines += [".SH EXIT STATUS"]
    for code, _, when in _table("exit-codes.md"):
        lines += [".TP", f".B {code}", _text(when)]
    lines += [".SH ENVIRONMENT"]
    for name, meaning, default in _table("environment.md"):
        lines += [".TP", f".B {_text(name.replace('`', ''))}"]
        lines += [_text(f"{meaning}; default: {default}" if default else meaning)]
    lines += [".SH FILES"]
    for name, what in FILES:
        lines += [".TP", f".I {_text(name)}", _text(what)]
    lines += [".SH SEE ALSO", "psql(1), pgbench(1)"]
    return "\n".join(lines) + "\n"


def _command(words: tuple[str, ...], command: Any) -> list[str]:  # noqa: ANN401 - click's
    context = typer.Context(command, info_name=" ".join(words))
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f'.SH "pgdyno {" ".join(words)}"', f".B pgdyno {' '.join(words)}", _text(usage)]
    for paragraph in command.help.split("\n\n"):
        lines += [".PP", _text(" ".join(paragraph.split()))]
    for _, rows in command.tables(context):
        for name, text in rows:
            if "--help" not in name:
                lines += [".TP", f".B {_text(name)}", _text(" ".join(text.split()))]
    return lines


def _table(page: str) -> Iterator[list[str]]:
    """Yields the rows of the first table of a page of the reference, without links."""
    text = (REFERENCE / page).read_text()
    table = re.search(r"^\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    for row in table[1].splitlines():
        yield [cell.strip() for cell in re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row).strip("|").split(" | ")]


def _text(text: str) -> str:
    """Returns `text` without meaning for roff: backslashes, hyphens of options, and dots that begin a line."""
    quoted = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", quoted)
