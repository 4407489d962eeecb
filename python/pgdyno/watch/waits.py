"""Classes of waits, with the colour and letter of each, as in familiar charts of active sessions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitClass:
    """A class of waits. `style` is one of the terminal's own colours, which suit dark and light backgrounds."""

    name: str
    style: str
    letter: str
    """The symbol without colours."""


CLASSES = (
    WaitClass("CPU", "green", "C"),
    WaitClass("IO", "blue", "I"),
    WaitClass("WAL", "yellow", "W"),
    WaitClass("Lock", "red", "L"),
    WaitClass("LWLock", "magenta", "M"),
    WaitClass("Client", "bright_black", "N"),
    WaitClass("other", "cyan", "o"),
)
"""From the bottom of the chart up."""
BY_NAME = {each.name: each for each in CLASSES}


def class_of(kind: str, event: str) -> str:
    """Return the class of a wait: its type, except that WAL is a class of its own, and rare types are `other`."""
    if event.lower().startswith("wal"):
        return "WAL"
    return kind if kind in BY_NAME else "other"


def style_of(wait: str) -> str:
    """Return the colour of a wait by its name, `type:event`."""
    kind, _, event = wait.partition(":")
    return BY_NAME[class_of(kind, event)].style
