"""Generates the reference of message ids from the calls of `Message` in the source."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1] / "python" / "pgdyno"

HEAD = """\
# Message ids

Findings, warnings and notes in JSON carry their `id` and `parameters`, so that programs need not parse sentences: ids \
do not change between versions, sentences may. The tables show each message as its template: `{trials}` stands for the \
parameter `trials`, and the text after a colon (`{share:.0%}`) is its format, in \
[Python's notation](https://docs.python.org/3/library/string.html#format-specification-mini-language).

Parameters are numbers in the unit at the end of their name, shares of one (`0.05` is 5 %), or strings. The sentence \
does not show all of them. If a message has several templates, its parameters decide which of them applies.

Messages are in `pgdyno audit --json` (each finding), `pgdyno show --json` (`notes` of the analysis, and `warnings` of \
curves and points, whose `code` is the `id` under its older name), `pgdyno analyse --json` (`usl` if no law was \
fitted), `pgdyno compare --json` (`confounders`; `warning_details`, `note_details` and `reason_details`, next to the \
sentences in `warnings`, `notes` and `reason`; `refused` of a noise floor), `pgdyno import --json` (`note_details`; \
lines of `unread` and `left_out` that pgdyno wrote), `pgdyno plan cost --json` (`notes`), in `gave_up_details` of \
`pgdyno plan check`, `plan show` and `doctor`, in `pgdyno doctor --json` (`found_details` and `means_details` of each \
check), and in the manifest of a run (`note_details`, next to the sentences in `notes`; `messages` of a search; \
`found_details` and `means_details` of each check in `preflight`). Reports translate them with their templates.

A parameter may itself be a message: `NAME` is its sentence, `NAME_id` its id, and its parameters are among those of \
the whole. For example, an [audit](audit.md) rule without its input has the id of the rule followed by `-not-checked`, \
and the parameters `reason` and `reason_id`.
"""

SECTIONS = {
    "audit": "Findings of the audit",
    "analyse": "Warnings of the analysis and of comparisons",
    "doctor": "Checks of the machine and of the generator before a run",
    "generators": "Checks of each generator of a cluster",
    "plan": "What a plan gave up to fit a budget",
    "workloads": "Likewise, of one kind of workload",
    "experiment": "Notes of a run, and what a search found",
    "run": "Why a hook failed",
    "store": "Scripts that changed during a run",
    "live": "Requests of the live page",
    "targets": "Servers: how pgdyno found, rented, observed and removed them",
    "importers": "Imports: what was assumed, and why a line is not a result",
    "fingerprint": "How two fingerprints differ",
    "report": "Notes of a report",
    "capture": "Captures: what was left out, and what a server did not log or show",
    "commands": "Comparisons, gates and prices",
    "bisection": "Commits of a bisection",
}
"""Titles of sections, by package; a test holds that no package with messages is missing."""


class Entry(NamedTuple):
    """A call of `Message`."""

    package: str
    id: str
    templates: tuple[str, ...]


def entries() -> Iterator[Entry]:
    """Returns every message in the source. Raises ValueError if an id or a template is not a literal."""
    for path, call in message_calls():
        where = path.relative_to(ROOT)
        templates = tuple(text for each in call.args[1:] for text in _literals(each, f"{where}:{call.lineno}"))
        if isinstance(call.args[0], ast.Constant):
            yield Entry(where.parts[0], str(call.args[0].value), templates)
        elif not _is_of_another(call.args[0]):
            raise ValueError(f"{where}:{call.lineno}: {ast.unparse(call.args[0])} is no literal")


def message_calls() -> Iterator[tuple[Path, ast.Call]]:
    """Yields each call of `Message` in the source, with its file."""
    for path in (path for package in SECTIONS for path in sorted((ROOT / package).rglob("*.py"))):
        source = path.read_text()
        # most files have none, and looking at every node takes seconds
        for node in ast.walk(ast.parse(source)) if "Message(" in source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message":
                yield path, node


def _literals(node: ast.expr, where: str) -> Iterator[str]:
    """Returns the string, or both strings of a conditional expression."""
    if isinstance(node, ast.IfExp):
        yield from _literals(node.body, where)
        yield from _literals(node.orelse, where)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        raise ValueError(f"{where}: {ast.unparse(node)} is no literal")


def _is_of_another(node: ast.expr) -> bool:
    """Returns whether the id is that of the message within this one, or built from a rule's: see `HEAD`."""
    return "NOT_CHECKED" in ast.unparse(node) or ast.unparse(node).endswith(".id")


def page() -> str:
    """Returns the page in Markdown."""
    found = list(entries())
    return "\n".join([HEAD, *(_section(package, found) for package in SECTIONS)])


def _section(package: str, found: list[Entry]) -> str:
    templates: dict[str, dict[str, None]] = {}
    for entry in found:
        if entry.package == package:
            templates.setdefault(entry.id, {}).update(dict.fromkeys(entry.templates))
    rows = [f"| `{id_}` | {'<br>'.join(_cell(text) for text in texts)} |" for id_, texts in sorted(templates.items())]
    return "\n".join([f"## {SECTIONS[package]}", "", "| id | message |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
