"""Generates the reference of columns of published figures."""

from pgdyno.published import COLUMNS

HEAD = """\
# Columns of published figures

[Published figures](published.md) describes the sets that have them.

| column | meaning |
|---|---|
"""


def page() -> str:
    """Returns the page in Markdown: a row for every column."""
    return HEAD + "".join(f"| `{column}` | {meaning} |\n" for column, meaning in COLUMNS.items())
