"""Checks of the doctor in a terminal: a line per check, with an explanation below if necessary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.text import Text

from pgdyno.records import Check, CheckVerdict
from pgdyno.report.terminal.text_drawing import AMBER, RED, UNLIMITED, printable, wrap_text
from pgdyno.units import quantity

STYLES: Mapping[CheckVerdict, str] = MappingProxyType(
    {
        CheckVerdict.GOOD: "green",
        CheckVerdict.UNKNOWN: "dim",
        CheckVerdict.NOTE: "cyan",
        CheckVerdict.WARNING: AMBER,
        CheckVerdict.STOP: RED,
    }
)
GAP = 2
VERDICT = max(len(verdict.value) for verdict in CheckVerdict)
WIDEST = 120
"""Longer lines are hard to read on any terminal."""
WIDE = 90
"""From this width on, findings are next to the name, otherwise below it."""
PLURALS: Mapping[CheckVerdict, str] = MappingProxyType(
    {CheckVerdict.NOTE: "notes", CheckVerdict.WARNING: "warnings", CheckVerdict.STOP: "stops"}
)


def check_lines(checks: Sequence[Check], width: int | None) -> list[Text]:
    """Return `checks` in lines of at most `width` columns, and the number of each verdict; None means unlimited."""
    names = max((len(check.id) for check in checks), default=0)
    lines: list[Text] = []
    for check in checks:
        lines += _check(check, names, min(width, WIDEST + VERDICT + names) if width else None)
    return [*lines, Text(""), _counts(checks)]


def _check(check: Check, names: int, width: int | None) -> list[Text]:
    is_wide = width is None or width >= WIDE
    indent = VERDICT + GAP + (names + GAP if is_wide else 0)
    head = Text(check.verdict.value.ljust(VERDICT + GAP), STYLES[check.verdict])
    head.append(check.id.ljust(names + GAP) if is_wide else check.id, "bold")
    found = _wrap_text(check.found, indent, width)
    if is_wide and found:
        head.append(found.pop(0).plain.lstrip())
    lines = [head, *found]
    if check.means:
        lines += _wrap_text(f"{check.means}", indent, width, "dim")
    if check.change:
        lines += _wrap_text(f"to change it: {check.change}", indent, width, "dim")
    return lines


def _wrap_text(text: str, indent: int, width: int | None, style: str = "") -> list[Text]:
    room = UNLIMITED if width is None else max(width - indent, 20)
    return [Text(" " * indent + line, style) for line in wrap_text(printable(text), room, chop=True)]


def _counts(checks: Sequence[Check]) -> Text:
    counts = Counter(check.verdict for check in checks)
    text = Text(f"{quantity(len(checks), 'check')}: ")
    for at, verdict in enumerate(verdict for verdict in CheckVerdict if counts[verdict]):
        number = counts[verdict]
        word = verdict.value if number == 1 else PLURALS.get(verdict, verdict.value)
        text.append(", " if at else "").append(f"{number} {word}", STYLES[verdict])
    return text
