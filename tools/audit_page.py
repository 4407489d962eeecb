"""Generates the reference of the audit's rules from the rules."""

from pgdyno.audit import RULES

HEAD = """\
# Rules of the audit

[Audit](audit.md) says what findings mean, and gives the reasons for thresholds.

| rule | most severe | looks at | source |
|---|---|---|---|
"""


def page() -> str:
    """Returns the page in Markdown: a row for every rule."""
    rows = (f"| `{rule.id}` | {rule.worst} | {rule.looks_at} | {rule.source} |" for rule in RULES)
    return HEAD + "\n".join(rows) + "\n"
