"""Files of Valgrind's tool callgrind: what one statement of a session cost, by function.

The format is that of the Valgrind manual, "Callgrind Format Specification": a line `fn=(id) name` begins a function,
lines `POSITION COST` are its own cost, and the line after `calls=` is that of what it called.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

UNKNOWN = "[unknown]"
"""A function without a name: of a server without debug symbols those that no other file calls, or compiled by JIT."""
FLUSH = "pgstat_report_stat"
"""The function that sends a session's statistics, at most once a second of wall time."""
LONGEST_NAME = 120


@dataclass(slots=True)
class Dump:
    """What was executed between two dumps of a process."""

    total: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    """Instructions of each function itself; with callers, of each stack, the outermost first, as in folded stacks."""
    flush: int = 0
    """Instructions of FLUSH with what it called."""


def read_dump(lines: Iterable[str]) -> Dump:
    """Read one file. Raises ValueError if it is not complete or not of this format."""
    found = Dump()
    names: dict[str, str] = {}
    function, called, is_call, total = UNKNOWN, "", False, None
    for line in lines:
        first = line[:1]
        if first.isdigit() or first in ("+", "-", "*"):
            cost = int(line.rpartition(" ")[2])
            if not is_call:
                found.functions[function] += cost
            elif called == FLUSH:
                found.flush += cost
            is_call = False
        elif line.startswith("fn="):
            function = _stack(_name(line[3:], names))
        elif line.startswith("cfn="):
            called = _name(line[4:], names).partition("'")[0]
        elif line.startswith("calls="):
            is_call = True
        elif line.startswith("totals:"):
            total = int(line.partition(":")[2])
    if total is None or total != found.functions.total():
        raise ValueError("its functions are not its total")
    found.total = total
    return found


def _name(text: str, names: dict[str, str]) -> str:
    """Return the name of `(id) name`, which later lines write as `(id)`. Raises ValueError."""
    key, _, name = text.strip().partition(" ")
    if name:
        names[key] = name
    if key not in names:
        raise ValueError(f"function {key} has no name")
    return names[key]


def _stack(name: str) -> str:
    """Return `inner'middle'outer` as a folded stack; a number after an apostrophe is the depth of a recursion."""
    frames = [_clean(each) for each in name.split("'") if not each.isdigit()]
    return ";".join(reversed(frames))


def _clean(name: str) -> str:
    if name.startswith(("0x", "???")):
        return UNKNOWN
    shown = "".join(each if each.isprintable() else "?" for each in name.replace(";", ":"))
    return shown if len(shown) <= LONGEST_NAME else f"{shown[:LONGEST_NAME]}…"
