"""Generates the table of rules in docs/reference/audit.md.

`python -m tests.audit_page` updates the table; the rest of the page is written by hand.
"""

from __future__ import annotations

from pathlib import Path

from pgdyno.audit import RULES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "audit.md"
HEAD = "| rule | most severe | looks at | source |\n|---|---|---|---|\n"


def with_table(page: str) -> str:
    """Returns `page` with a row for every rule."""
    before, head, after = page.partition(HEAD)
    _, rest, text = after.partition("\n\n")
    rows = (f"| `{rule.id}` | {rule.worst} | {rule.looks_at} | {rule.source} |" for rule in RULES)
    return before + head + "\n".join(rows) + rest + text


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
