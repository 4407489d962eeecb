"""Generates the reference of pgdyno's commands from their help."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from pgdyno.cli import app

HEAD = """\
# Commands of pgdyno

This page lists the arguments and options of each command, as `pgdyno COMMAND --help` prints them. Wheels install the \
same as one manual page, `man pgdyno`. See also [exit codes](exit-codes.md) and [environment variables and the \
configuration file](environment.md). The engine, pgdrive, has [its own command line](pgdrive.md).

`pgdyno --version`, or `-V`, prints the versions of pgdyno and pgdrive; `--install-completion` installs shell \
completion for commands, options, plans and runs, `--show-completion` prints what it would install. Every command has \
`--help`, or `-h`.
"""


def page() -> str:
    """Returns the page in Markdown."""
    sections = [_section(words, command) for words, command in commands(typer.main.get_command(app), ("pgdyno",))]
    return "\n".join([HEAD, *sections])


def commands(of: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - click's
    """Yields every command below `of` with its words, in the order of the help."""
    context = typer.Context(of)
    for name in of.commands:
        command = of.resolve_command(context, [name])[1]
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def _section(words: tuple[str, ...], command: Any) -> str:  # noqa: ANN401 - likewise
    context = typer.Context(command, info_name=" ".join(words))
    usage = " ".join([*words, *command.collect_usage_pieces(context)])
    said = "\n\n".join(" ".join(each.split()) for each in command.help.split("\n\n"))
    rows = [row for _, rows in command.tables(context) for row in rows]
    shown = [f"| `{_cell(re.sub('[<>]', '', name))}` | {_cell(text)} |" for name, text in rows if "--help" not in name]
    table = ["", "| argument, option | meaning |", "|---|---|", *shown] if shown else []
    return "\n".join([f"## {' '.join(words[1:])}", "", f"`{usage}`", "", said, *table, ""])


def _cell(text: str) -> str:
    """Returns the text of a table's cell; defaults follow in brackets after two spaces."""
    return text.replace("  ", " ").replace("|", "\\|")
